//! Files that are put into the directory of a container which is one file: they are files like any
//! other.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;

use super::{container, hidden, stored};
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::{arrayfs, has_ended, send};
use crate::harness::reads::{assert_content, names};
use crate::harness::tools::{shell, tools};
use crate::harness::writers::Bloscpack;
use crate::harness::{scratch_directory, wait_until};

const PLAIN: &[u8] = b"what the array holds";

fn place() -> Place {
    let place = Place::mounted(&[]);
    container(&place, "x.blp", PLAIN);
    place
}

/// As programs save a file: under another name first.
#[test]
fn temporary_files_of_two_containers_do_not_meet() {
    let place = place();
    container(&place, "y.blp", PLAIN);
    let save = |directory: &Path, round: usize| {
        let [temporary, kept] = ["tmp", "kept"].map(|name| directory.join(name));
        let text = format!("{round} {}", directory.display());
        std::fs::write(&temporary, &text).unwrap();
        std::fs::rename(&temporary, &kept).unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
    };
    std::thread::scope(|scope| {
        for directory in ["x.blp", "y.blp"].map(|name| place.join(name)) {
            scope.spawn(move || (0..400).for_each(|round| save(&directory, round)));
        }
    });
}

#[test]
fn what_is_moved_copied_and_written_into_a_container_is_kept() {
    let mut place = place();
    container(&place, "precious.blp", b"precious");
    let precious = std::fs::read(place.stored("precious.blp")).unwrap();
    let outside = crate::harness::scratch_directory();
    let copied = outside.path().join("copied");
    // No container, which could not lie there.
    std::fs::write(&copied, &precious[1..]).unwrap();
    shell(
        place.path(),
        "echo notes > x.blp/README; cp $1 x.blp/new; mv $1 x.blp/old; mkdir x.blp/sub && exit 1
         ln -s README x.blp/link && exit 1; ln x.blp/README x.blp/link && exit 1; mkfifo x.blp/pipe && exit 1; true",
        &[&copied],
    );
    let all = ["README", "arrays.json", "data", "new", "old"];
    let listed = |place: &Place, name: &str| {
        let mut found = names(&place.join(name));
        found.retain(|name| name != "metadata.json");
        found
    };
    assert_eq!(listed(&place, "x.blp"), all);
    for name in ["y.blp", "z.blp"] {
        place.mount_again();
        shell(place.path(), "mv [xy].blp $1", &[Path::new(name)]);
        assert_eq!(listed(&place, name), all);
        assert_content(&place.join(name).join("README"), b"notes\n");
        assert_content(&place.join(name).join("old"), &precious[1..]);
        assert_content(&place.join(name).join("new"), &precious[1..]);
        assert_content(&place.join(name).join("data"), PLAIN);
    }
    shell(place.path(), "rmdir z.blp && exit 1; rm -r z.blp", &[]);
    assert_eq!(hidden(&place.stored("x.blp")), 0);
    assert_eq!(names(place.source()), ["precious.blp"]);
}

#[test]
fn a_read_only_mount_shows_them_and_a_killed_daemon_loses_none() {
    let place = place();
    shell(place.path(), "printf notes > x.blp/notes", &[]);
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    wait_until("it has ended", || has_ended(mounted.daemon()));
    drop(mounted);
    let mounted = crate::harness::mounted::Mounted::new(source.path(), &["ro"]);
    assert_content(&mounted.join("x.blp/notes"), b"notes");
    assert!(names(&mounted.join("x.blp")).contains(&"notes".to_owned()));
    drop(mounted);
    let place = Place::over(source, &[]);
    shell(
        place.path(),
        "test $(cat x.blp/notes) = notes; rm x.blp/notes",
        &[],
    );
    assert_eq!(hidden(&place.stored("x.blp")), 0);
}

#[test]
fn programs_that_rename_over_an_array_go_on_working() {
    let place = place();
    let array = place.join("x.blp/data");
    shell(place.path(), "sed -i s/what/that/ x.blp/data", &[]);
    wait_until("it is stored", || {
        stored(&place.stored("x.blp")).is_some_and(|found| found == b"that the array holds")
    });
    if tools(&["rsync"]) {
        std::fs::write(place.stored("data"), "by rsync").unwrap();
        shell(place.path(), "rsync -a --ignore-times data x.blp/", &[]);
        assert_content(&array, b"by rsync");
    }
    if tools(&["vim"]) {
        let edit = "vim -u NONE -c 'set backup writebackup' -c '%s/.*/by vim/' -c wq x.blp/data < /dev/null";
        shell(place.path(), &format!("{edit} > /dev/null 2>&1"), &[]);
        assert_content(&array, b"by vim\n");
    }
    // From under the name of an array that was removed, and onto it.
    shell(
        place.path(),
        "rm x.blp/data; printf new > x.blp/data; printf newer > x.blp/t; mv x.blp/t x.blp/data",
        &[],
    );
    assert_content(&array, b"newer");
    wait_until("nothing is left beside it", || {
        hidden(&place.stored("x.blp")) == 0
    });
    assert_eq!(stored(&place.stored("x.blp")).unwrap(), b"newer");
}

/// What cannot be written itself keeps what is put beside its arrays all the same.
#[test]
fn a_container_that_is_only_read_keeps_files() {
    let mut place = place();
    let dbdf = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests/golden/daphne/sources");
    let file = std::fs::read_dir(dbdf)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| {
        path.file_name()
            .is_some_and(|name| name == "csr-0x3-sparse.dbdf")
    });
    std::fs::copy(file.unwrap(), place.stored("x.dbdf")).unwrap();
    shell(
        place.path(),
        "printf notes > x.dbdf/notes; mv x.dbdf y.dbdf",
        &[],
    );
    place.mount_again();
    assert_content(&place.join("y.dbdf/notes"), b"notes");
    shell(place.path(), "rm -r y.dbdf", &[]);
    assert_eq!(names(place.source()), ["x.blp"]);
}

/// A move of the container in the source leaves them behind.
#[test]
fn orphans_are_told() {
    let place = place();
    shell(place.path(), "printf notes > x.blp/notes", &[]);
    let (mounted, source) = place.into_parts();
    drop(mounted);
    for command in ["ls", "verify"] {
        let told = arrayfs([command.as_ref(), source.path().as_os_str()]);
        assert!(!told.stderr.contains("arrayfs-files"), "{}", told.stderr);
    }
    std::fs::rename(source.path().join("x.blp"), source.path().join("y.blp")).unwrap();
    for command in ["ls", "verify"] {
        let told = arrayfs([command.as_ref(), source.path().as_os_str()]);
        assert_eq!(told.code(), Some(0));
        let line = ".x.blp.arrayfs-files: files that were put into a container which is not here";
        assert!(told.stderr.contains(line), "{}", told.stderr);
    }
    // Moved back it has them.
    std::fs::rename(source.path().join("y.blp"), source.path().join("x.blp")).unwrap();
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.blp/notes"), b"notes");
}

#[test]
fn they_have_attributes_of_their_own() {
    let place = place();
    let notes = place.join("x.blp/notes");
    std::fs::write(&notes, "notes").unwrap();
    std::fs::set_permissions(&notes, Permissions::from_mode(0o640)).unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH;
    let opened = File::options().append(true).open(&notes).unwrap();
    opened.set_modified(then).unwrap();
    opened.sync_all().unwrap();
    File::open(place.join("x.blp")).unwrap().sync_all().unwrap();
    let found = notes.metadata().unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o640);
    assert_eq!(found.modified().unwrap(), then);
    assert_eq!(stored(&place.stored("x.blp")).unwrap(), PLAIN);
}

/// An array alone is not removed for good: an unmount reports it.
#[test]
fn an_array_that_was_removed_by_itself_is_named_at_unmount() {
    let place = place();
    container(&place, "y.blp", PLAIN);
    shell(
        place.path(),
        "rm x.blp/data y.blp/data; printf new > y.blp/data",
        &[],
    );
    assert!(!place.join("x.blp/data").exists());
    let (mounted, source) = place.into_parts();
    let told = arrayfs([Path::new("umount"), mounted.path()]).success();
    assert!(
        told.stderr.contains("x.blp/data: is there again"),
        "{}",
        told.stderr
    );
    assert!(!told.stderr.contains("y.blp"), "{}", told.stderr);
    mounted.assert_ends();
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.blp/data"), PLAIN);
    shell(place.path(), "rm -r x.blp", &[]);
    let (mounted, _source) = place.into_parts();
    let told = arrayfs([Path::new("umount"), mounted.path()]).success();
    assert!(!told.stderr.contains("is there again"), "{}", told.stderr);
    mounted.assert_ends();
}

/// By whatever the mount is ended: the log of the daemon says it, too.
#[test]
fn an_array_that_was_removed_by_itself_is_named_in_the_log() {
    let source = scratch_directory();
    let directory = scratch_directory();
    let log = directory.path().join("log");
    for name in ["x.blp", "y.blp", "z.blp"] {
        Bloscpack::default().write(&source.path().join(name), PLAIN);
    }
    let option = format!("log={}", log.display());
    let mounted = Mounted::new(source.path(), &["rw", &option]);
    let script = "rm x.blp/data y.blp/data; printf new > y.blp/data; rm -r z.blp";
    shell(mounted.path(), script, &[]);
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
    let text = std::fs::read_to_string(&log).unwrap();
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("is there again"))
        .collect();
    let stored = source.path().join("x.blp/data");
    assert!(
        matches!(told[..], [line] if line.contains(" WARN ") && line.contains(stored.to_str().unwrap())),
        "{text}"
    );
}

/// Another container would be a file there, without what was put into it.
#[test]
fn a_container_is_not_moved_into_another() {
    let place = place();
    let golden = crate::harness::golden("bpcells/sources/m-names-utf8");
    crate::harness::copy_directory(&golden, &place.stored("matrix"));
    std::fs::write(place.join("x.blp/README"), b"precious").unwrap();
    std::fs::create_dir(place.join("new.blp")).unwrap();
    for into in ["matrix", "new.blp"] {
        let moved = std::fs::rename(place.join("x.blp"), place.join(into).join("x.blp"));
        let errno = moved.unwrap_err().raw_os_error();
        assert_eq!(errno, Some(libc::EPERM), "{into}");
    }
    assert_eq!(
        std::fs::read(place.join("x.blp/README")).unwrap(),
        b"precious"
    );
}
