//! The next file: what the log says of it is there, whatever fails.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::sample::{Container, read_log};
use crate::array::stored_run::StoredRun;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::recording::{Change, Of, RecordingDisk};
use crate::stage::slab::Lender;
use crate::stage::{Stage, WrittenArray, log_names, new_name, next_name, read_log_until};

const ARRAY: WrittenArray = WrittenArray(0);
/// The one that has a place in the next file.
const OTHER: WrittenArray = WrittenArray(1);

const RUN: StoredRun = StoredRun {
    begin: 4,
    len: 300,
    turned: 1,
};

/// Has so much written to the log, for want of memory, that it is written anew.
fn lengthen(stage: &Stage) {
    for round in 0..12 {
        let _ = stage.write(ARRAY, 0, &vec![round; 10_000]);
    }
}

fn name_of(kind: fn(&OsStr) -> std::ffi::OsString) -> PathBuf {
    PathBuf::from(kind(OsStr::new("c.blp")))
}

fn log_name(container: &OsStr) -> std::ffi::OsString {
    log_names(container).next().unwrap()
}

/// What a crash now leaves of the array.
fn left(container: &Container) -> Vec<u8> {
    let spot = container.spot();
    let mut found = read_log(&spot.of()).unwrap().unwrap();
    assert_eq!(found.find_next(&spot.of()).unwrap(), None);
    container.read(1, &found.layers())
}

#[test]
fn a_log_that_could_not_be_written_anew_is_given_what_it_lacks() {
    for call in 1.. {
        let mut container = Container::new();
        let failure = Failure::new(libc::ENOSPC);
        container.disk = Arc::new(FailingDisk {
            disk: Arc::clone(&container.disk),
            failure: Arc::clone(&failure),
        });
        let stage = container.stage(0);
        stage.begin_run(OTHER, RUN).unwrap();
        assert_eq!(stage.write(OTHER, 0, &[7; 100]).unwrap(), 100);
        failure.arm(call);
        lengthen(&stage);
        let has_failed = !failure.is_armed();
        failure.arm(0);
        stage.sync().unwrap();
        assert_eq!(left(&container)[..100], [7; 100], "call {call}");
        if !has_failed {
            assert!(call > 20, "{call}");
            break;
        }
    }
}

#[test]
fn a_log_is_not_believed_before_what_it_refers_to_is_on_the_disk() {
    let mut container = Container::new();
    let disk = Arc::new(RecordingDisk::new(Arc::clone(&container.disk)));
    container.disk = Arc::clone(&disk) as _;
    let stage = container.stage(0);
    stage.begin_run(OTHER, RUN).unwrap();
    assert_eq!(stage.write(OTHER, 0, &[7; 100]).unwrap(), 100);
    lengthen(&stage);
    let changes = disk.changes();
    let log = name_of(log_name);
    let anew = changes.iter().position(
        |change| matches!(change, Change::Rename(from, to, _) if *from == new_name(log.as_os_str()) && *to == log),
    );
    let next = changes.iter().find_map(|change| match change {
        Change::Create(path, _, writer) if *path == name_of(next_name) => Some(*writer),
        _ => None,
    });
    let of = Of::Written(next.unwrap());
    let is_synced = |change: &Change| match change {
        Change::Sync(file, _) | Change::SyncNamed(file, _) => *file == of,
        _ => false,
    };
    assert!(changes[..anew.unwrap()].iter().any(is_synced));
}

/// The log may be given more while the next file is synced.
#[test]
fn what_is_referred_to_during_a_sync_is_not_said_to_be_on_the_disk() {
    let mut container = Container::new();
    let failure = Failure::new(libc::EIO);
    container.disk = Arc::new(FailingDisk {
        disk: Arc::clone(&container.disk),
        failure: Arc::clone(&failure),
    });
    let stage = container.stage(1 << 20);
    stage.begin_run(OTHER, RUN).unwrap();
    stage.write(OTHER, 0, &[7; 100]).unwrap();
    let meanwhile = Arc::clone(&stage);
    failure.at_sync(move || {
        meanwhile.write(OTHER, 50, &[8; 10]).unwrap();
        meanwhile.write(OTHER, 100, &[9; 100]).unwrap();
        assert!(meanwhile.give_up());
    });
    stage.sync().unwrap();
    // A record that says how much has reached the disk.
    stage.write(ARRAY, 0, b"x").unwrap();
    stage.log_all().unwrap();
    drop(stage);

    // The bytes behind those that were synced have not.
    let spot = container.spot();
    let path = container.log_path().with_file_name(name_of(next_name));
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(4 + 100).unwrap();
    let mut found = read_log(&spot.of()).unwrap().unwrap();
    let end = found.find_next(&spot.of()).unwrap().unwrap();
    let cut = read_log_until(&spot.of(), &log_name("c.blp".as_ref()), end);
    assert!(cut.is_ok(), "{:?}", cut.err());
}

/// A commit that takes the file writes an element of which a part lies elsewhere, and may come to
/// nothing.
#[test]
fn the_rest_of_an_element_is_not_referred_to() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let run = StoredRun {
        len: 296,
        turned: 8,
        ..RUN
    };
    stage.begin_run(OTHER, run).unwrap();
    stage.write(OTHER, 0, &[7; 40]).unwrap();
    stage.write(OTHER, 35, &[8; 5]).unwrap();
    stage.sync().unwrap();
    let path = container.log_path().with_file_name(name_of(next_name));
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let element = [8, 8, 8, 8, 8, 7, 7, 7];
    std::os::unix::fs::FileExt::write_all_at(&file, &element, RUN.begin + 32).unwrap();
    let left = left(&container);
    assert_eq!((&left[..35], &left[35..40]), (&[7; 35][..], &[8; 5][..]));
}

/// Bytes that cannot be read for the log are not in it, and the next sync knows that.
#[test]
fn what_could_not_be_referred_to_is_logged_by_the_next_sync() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    stage.begin_run(OTHER, RUN).unwrap();
    stage.write(OTHER, 0, &[7; 100]).unwrap();
    let shown = container.read(1, &stage.layers());
    let path = container.log_path().with_file_name(name_of(next_name));
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(0).unwrap();
    assert!(stage.sync().is_err());
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 100], RUN.begin).unwrap();
    stage.sync().unwrap();
    assert_eq!(left(&container), shown);
}
