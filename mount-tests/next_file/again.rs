//! A next file that is begun again where a log has had one before; whose it is; what is logged and
//! tried again where a commit has to wait or has failed.

use std::os::unix::fs::{MetadataExt, chown};

use super::*;
use crate::harness::users::OTHER;

/// Empties a variable and writes a part of it: as long as that is so, nothing is committed.
fn hold_back(model: &Model, mounted: &Mounted) {
    let path = mounted.join("x.nc").join(name(1));
    std::fs::write(path, &model.content[1][..100_000]).unwrap();
}

fn kill(mounted: Mounted) {
    send(mounted.daemon(), Signal::KILL);
    drop(mounted);
}

/// The next mount shows what was written, and commits it as soon as nothing holds it back.
fn assert_goes_on(mut model: Model) {
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    assert_content(&mounted.join("x.nc/a"), &model.content[0]);
    drop(model.write(mounted.path(), 1, 6));
    model.assert_shown(mounted.path());
    unmount(mounted);
    model.assert_stored();
}

/// Gives the file to another user, and waits until the mount shows that.
fn give_away(model: &Model, mounted: &Mounted) {
    chown(model.stored("x.nc"), Some(OTHER), Some(OTHER)).unwrap();
    let shown = || std::fs::metadata(mounted.join("x.nc/a")).unwrap().uid();
    wait_until("the new owner is shown", || shown() == OTHER);
}

#[test]
fn what_a_log_said_of_a_file_that_has_gone_is_not_held_against_the_next_one() {
    for is_killed in [true, false] {
        let mut model = Model::new();
        let end = |mounted: Mounted| match is_killed {
            true => kill(mounted),
            false => {
                // It says what stays staged.
                arrayfs(["umount".as_ref(), mounted.path().as_os_str()]);
                mounted.assert_ends();
            }
        };
        let mounted = Mounted::paced(model.source.path(), &["rw"]);
        hold_back(&model, &mounted);
        // All that the log refers to is written once more, to the log itself.
        for seed in [2, 3] {
            let file = model.write(mounted.path(), 0, seed);
            file.sync_all().unwrap();
        }
        end(mounted);
        for seed in [4, 5] {
            let mounted = Mounted::paced(model.source.path(), &["rw"]);
            let array = mounted.join("x.nc/a");
            assert_content(&array, &model.content[0]);
            let file = model.write(mounted.path(), 0, seed);
            file.sync_all().unwrap();
            assert_content(&array, &model.content[0]);
            drop(file);
            end(mounted);
        }
        assert_goes_on(model);
    }
}

#[test]
fn an_owner_who_was_given_the_file_meanwhile_keeps_it() {
    if !is_root("giving files away") {
        return;
    }
    for is_killed in [false, true] {
        let mut model = Model::new();
        let mounted = Mounted::paced(model.source.path(), &["rw"]);
        let stored = model.stored("x.nc");
        let before = std::fs::metadata(&stored).unwrap().ino();
        drop(model.write(mounted.path(), 0, 2));
        wait_until("it is committed", || {
            std::fs::metadata(&stored).unwrap().ino() != before
        });
        give_away(&model, &mounted);
        let file = model.write(mounted.path(), 0, 3);
        file.sync_all().unwrap();
        drop(file);
        match is_killed {
            true => kill(mounted),
            false => unmount(mounted),
        }
        let mounted = Mounted::paced(model.source.path(), &["rw"]);
        model.assert_shown(mounted.path());
        unmount(mounted);
        model.assert_stored();
        let found = std::fs::metadata(&stored).unwrap();
        assert_eq!((found.uid(), found.gid()), (OTHER, OTHER));
    }
}

#[test]
fn a_log_of_a_file_that_is_given_away_goes_with_it() {
    if !is_root("giving files away") {
        return;
    }
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    hold_back(&model, &mounted);
    let file = model.write(mounted.path(), 0, 2);
    file.sync_all().unwrap();
    give_away(&model, &mounted);
    file.write_all_at(&[7; 13], 100).unwrap();
    model.content[0][100..113].fill(7);
    file.sync_all().unwrap();
    for name in [NEXT, LOG] {
        let found = std::fs::metadata(model.stored(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (OTHER, OTHER), "{name}");
    }
    drop(file);
    kill(mounted);
    assert_goes_on(model);
}

#[test]
fn a_file_renamed_over_an_array_that_has_to_wait_outlives_the_daemon() {
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    hold_back(&model, &mounted);
    let new = TWO.contents(2).swap_remove(0);
    let made = mounted.join("x.nc/.a.new");
    std::fs::write(&made, &new).unwrap();
    std::fs::rename(&made, mounted.join("x.nc/a")).unwrap();
    model.content[0] = new;
    kill(mounted);
    assert_goes_on(model);
}

#[test]
fn an_fsync_of_the_directory_tries_again_what_has_failed() {
    if !is_root("a small disk") {
        return;
    }
    let mut disk = SmallDisk::new("size=24m,mode=777", None);
    let old = TWO.contents(1);
    std::fs::write(disk.stored("x.nc"), TWO.file(&old)).unwrap();
    disk.mount(&["rw"]);
    // As it is by default: a commit that copies more than it writes is put off.
    let new = TWO.contents(2).swap_remove(0);
    let mut file = OpenOptions::new()
        .write(true)
        .open(disk.join("x.nc/a"))
        .unwrap();
    for part in new.chunks(STEP) {
        file.write_all(part).unwrap();
    }
    let fill = disk.stored("fill");
    let mut filler = File::create(&fill).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    drop(filler);
    drop(file);
    let sync = || File::open(disk.join("x.nc")).and_then(|directory| directory.sync_all());
    let is_stored =
        || std::fs::read(disk.stored("x.nc")).unwrap() == TWO.file(&[new.clone(), old[1].clone()]);
    for _ in 0..3 {
        let synced = sync();
        assert!(
            synced.is_err() || is_stored(),
            "told to be stored, and is not"
        );
    }
    std::fs::remove_file(&fill).unwrap();
    sync().unwrap();
    assert!(is_stored());
}
