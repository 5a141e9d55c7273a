//! Times: set to the nanosecond, also before 1970, and moved on by changes.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens, utimensat};

use crate::harness::place::{Place, scenarios};
use crate::harness::wait_until;

scenarios![
    everywhere
    times_are_kept_to_the_nanosecond,
    one_time_can_be_set_alone,
    the_times_of_a_link_are_its_own,
    changes_move_the_times_on,
];

type Time = (i64, i64);

/// Some time of every kind: before 1970 a fraction counts forwards from the second below.
const TIMES: [Time; 9] = [
    (0, 0),
    (1, 1),
    (-2, 500_000_000),
    (-1, 999_999_999),
    (-1, 0),
    (-2_000_000_000, 123_456_789),
    (1_234_567_890, 987_654_321),
    (2_147_483_647, 999_999_999),
    (4_000_000_000, 1),
];

fn times(accessed: Time, modified: Time) -> Timestamps {
    let of = |(tv_sec, tv_nsec): Time| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: of(accessed),
        last_modification: of(modified),
    }
}

fn set(path: &Path, accessed: Time, modified: Time) {
    utimensat(
        CWD,
        path,
        &times(accessed, modified),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .unwrap();
}

/// Access and modification.
fn get(path: &Path) -> (Time, Time) {
    let metadata = path.symlink_metadata().unwrap();
    let accessed = (metadata.atime(), metadata.atime_nsec());
    (accessed, (metadata.mtime(), metadata.mtime_nsec()))
}

fn modified(path: &Path) -> Time {
    get(path).1
}

fn changed(path: &Path) -> Time {
    let metadata = path.symlink_metadata().unwrap();
    (metadata.ctime(), metadata.ctime_nsec())
}

fn times_are_kept_to_the_nanosecond(place: &Place) {
    File::create(place.join("file")).unwrap();
    std::fs::create_dir(place.join("directory")).unwrap();
    for name in ["file", "directory"] {
        let path = place.join(name);
        let open = File::open(&path).unwrap();
        for (number, &time) in TIMES.iter().enumerate() {
            let other = TIMES[(number + 1) % TIMES.len()];
            set(&path, other, time);
            assert_eq!(get(&path), (other, time));
            assert_eq!(get(&place.stored(name)), (other, time));
            futimens(&open, &times(time, other)).unwrap();
            assert_eq!(get(&path), (time, other));
            assert_eq!(get(&place.stored(name)), (time, other));
        }
    }
}

fn one_time_can_be_set_alone(place: &Place) {
    let path = place.join("file");
    File::create(&path).unwrap();
    let (omit, now) = ((0, UTIME_OMIT), (0, UTIME_NOW));
    set(&path, (10, 1), (20, 2));
    set(&path, (30, 3), omit);
    assert_eq!(get(&path), ((30, 3), (20, 2)));
    set(&path, omit, (40, 4));
    assert_eq!(get(&path), ((30, 3), (40, 4)));
    set(&path, now, omit);
    assert_eq!(modified(&path), (40, 4));
    assert!(get(&path).0 > (1_600_000_000, 0));
    set(&path, omit, now);
    assert!(modified(&path) > (1_600_000_000, 0));
    assert_eq!(get(&path), get(&place.stored("file")));
}

fn the_times_of_a_link_are_its_own(place: &Place) {
    let (file, link) = (place.join("file"), place.join("link"));
    File::create(&file).unwrap();
    symlink("file", &link).unwrap();
    set(&file, (1, 0), (1, 0));
    set(&link, (2, 0), (-2, 7));
    assert_eq!((modified(&file), modified(&link)), ((1, 0), (-2, 7)));
    assert_eq!(modified(&place.stored("link")), (-2, 7));
}

/// Does something until a time is later than it was: clocks of file systems tick coarsely.
#[track_caller]
fn assert_moves(what: &str, time: impl Fn() -> Time, mut change: impl FnMut()) {
    let before = time();
    wait_until(what, || {
        change();
        time() > before
    });
}

fn changes_move_the_times_on(place: &Place) {
    let (file, directory) = (place.join("file"), place.join("d"));
    std::fs::create_dir(&directory).unwrap();
    let mut open = OpenOptions::new()
        .create_new(true)
        .append(true)
        .open(&file)
        .unwrap();
    set(&file, (1, 0), (1, 0));
    open.write_all(b"more").unwrap();
    assert!(modified(&file) > (1_600_000_000, 0), "write");
    set(&file, (1, 0), (1, 0));
    open.set_len(2).unwrap();
    assert!(modified(&file) > (1_600_000_000, 0), "truncate");
    set(&file, (1, 0), (1, 0));
    let mode = |bits| Permissions::from_mode(bits);
    assert_moves(
        "chmod",
        || changed(&file),
        || {
            std::fs::set_permissions(&file, mode(0o600)).unwrap();
        },
    );
    assert_moves(
        "link",
        || changed(&file),
        || {
            std::fs::hard_link(&file, place.join("other")).unwrap();
            std::fs::remove_file(place.join("other")).unwrap();
        },
    );
    assert_eq!(modified(&file), (1, 0), "attributes are not content");
    for name in ["file", "directory"] {
        let path = directory.join(name);
        set(&directory, (1, 0), (1, 0));
        match name {
            "file" => drop(File::create(&path).unwrap()),
            _ => std::fs::create_dir(&path).unwrap(),
        }
        assert!(modified(&directory) > (1, 0), "a new {name}");
        set(&directory, (1, 0), (1, 0));
        std::fs::rename(&path, place.join("moved")).unwrap();
        assert!(modified(&directory) > (1, 0), "a {name} moved away");
        set(&directory, (1, 0), (1, 0));
        std::fs::rename(place.join("moved"), &path).unwrap();
        assert!(modified(&directory) > (1, 0), "a {name} moved in");
        set(&directory, (1, 0), (1, 0));
        match name {
            "file" => std::fs::remove_file(&path).unwrap(),
            _ => std::fs::remove_dir(&path).unwrap(),
        }
        assert!(modified(&directory) > (1, 0), "a {name} removed");
    }
    assert_eq!(get(&directory), get(&place.stored("d")));
}
