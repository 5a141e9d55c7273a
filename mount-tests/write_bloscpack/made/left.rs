//! What a mount leaves of new containers: at its end, when it is killed, and what settles that.

use std::fs::OpenOptions;

use rustix::process::Signal;

use super::*;
use crate::harness::process::send;

#[test]
fn what_a_mount_has_left_is_settled_without_one() {
    for (what, expected) in [("commit", &b"left"[..]), ("discard", b"")] {
        let source = scratch_directory();
        let mounted = Mounted::new(source.path(), &["rw"]);
        std::fs::create_dir(mounted.join("x.blp")).unwrap();
        std::fs::write(mounted.join("x.blp/data"), "left").unwrap();
        let early = arrayfs([
            OsStr::new("stage"),
            what.as_ref(),
            source.path().as_os_str(),
        ]);
        // As long as it is mounted this is the daemon's affair.
        match what {
            "commit" => assert!(early.success().text().contains("x.blp: committed")),
            _ => early.failed_saying(1, &["it is new"]),
        }
        send(mounted.daemon(), Signal::KILL);
        arrayfs([Path::new("umount"), mounted.path()]);
        mounted.assert_ends();
        let container = source.path().join("x.blp");
        arrayfs([
            OsStr::new("stage"),
            what.as_ref(),
            source.path().as_os_str(),
        ])
        .success();
        assert_stored(&container, expected);
    }
}

#[test]
fn the_end_of_the_mount_packs_it() {
    for signal in [None, Some(Signal::TERM)] {
        let source = scratch_directory();
        let mounted = Mounted::new(source.path(), &["rw"]);
        std::fs::create_dir(mounted.join("x.blp")).unwrap();
        std::fs::create_dir(mounted.join("empty.blp")).unwrap();
        std::fs::write(mounted.join("x.blp/data"), "packed").unwrap();
        match signal {
            Some(signal) => {
                send(mounted.daemon(), signal);
                mounted.assert_ends();
            }
            None => drop(mounted),
        }
        assert_eq!(hidden(&source.path().join("x.blp")), 0);
        assert_unpacks(&source.path().join("x.blp"), b"packed");
        assert_unpacks(&source.path().join("empty.blp"), b"");
    }
}

/// A new container, with something synced in it that is open still.
fn synced_in_a_new_one() -> (tempfile::TempDir, Mounted, File) {
    let source = scratch_directory();
    let mounted = Mounted::new(source.path(), &["rw"]);
    std::fs::create_dir(mounted.join("x.blp")).unwrap();
    let mut file = File::create(mounted.join("x.blp/data")).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    (source, mounted, file)
}

#[test]
fn what_is_open_when_the_mount_is_taken_away_stays_new() {
    let (source, mounted, file) = synced_in_a_new_one();
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
    drop(file);
    let container = source.path().join("x.blp");
    assert_eq!(hidden(&container), 1);
    assert_unpacks(&container, b"");
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.blp/data"), b"synced");
    wait_packed(&place, "x.blp");
    assert_stored(&place.stored("x.blp"), b"synced");
}

#[test]
fn after_a_kill_the_next_mount_goes_on_with_it() {
    let source = scratch_directory();
    let mounted = Mounted::new(source.path(), &["rw"]);
    for name in ["x.blp", "empty.blp"] {
        std::fs::create_dir(mounted.join(name)).unwrap();
    }
    let mut file = OpenOptions::new();
    let mut file = file
        .write(true)
        .create_new(true)
        .open(mounted.join("x.blp/data"))
        .unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    send(mounted.daemon(), Signal::KILL);
    drop(file);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    // Without a mount, or with one that writes nothing, it is the empty container.
    assert_unpacks(&source.path().join("x.blp"), b"");
    arrayfs([Path::new("verify"), source.path()]).success();
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.blp/data"), b"synced");
    wait_packed(&place, "x.blp");
    assert_stored(&place.stored("x.blp"), b"synced");
    assert_eq!(
        std::fs::read_dir(place.join("empty.blp")).unwrap().count(),
        0
    );
}

#[test]
fn after_a_kill_a_move_takes_along_what_was_synced() {
    let (source, mounted, file) = synced_in_a_new_one();
    send(mounted.daemon(), Signal::KILL);
    drop(file);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    let place = Place::over(source, &[]);
    std::fs::rename(place.join("x.blp"), place.join("y.blp")).unwrap();
    assert_content(&place.join("y.blp/data"), b"synced");
    wait_packed(&place, "y.blp");
    assert_stored(&place.stored("y.blp"), b"synced");
}

#[test]
fn what_is_not_of_the_container_is_not_said_to_be_committed() {
    let source = scratch_directory();
    let golden = golden("bloscpack/sources/chunk-4k.blp");
    std::fs::copy(golden, source.path().join("x.blp")).unwrap();
    let left = source.path().join(".x.blp.arrayfs-drafts");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("data"), "whose?").unwrap();
    let commit = ["stage", "commit"].map(OsStr::new);
    let commit = arrayfs(commit.into_iter().chain([source.path().as_os_str()]));
    commit.failed_saying(1, &["x.blp: ", "of another version of the container"]);
    assert!(left.join("data").exists());
}
