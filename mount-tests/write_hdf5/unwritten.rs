//! Large datasets that nobody has written: one value in one of them takes as little room and time
//! as it does by libhdf5, and what there is no room for is refused at once.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{commit, errno, numbers, state, write_and_close, write_at};
use crate::harness::is_root;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::small_disk::SmallDisk;

/// Elements of 16 GiB.
const MANY: u64 = 4 << 30;
/// What the values may take on the disk.
const LITTLE: u64 = 1 << 20;
/// No test writes a gibibyte in this time.
const AT_ONCE: Duration = Duration::from_secs(10);

pub fn make(path: &Path, count: u64, fill: &str) {
    let count = count.to_string();
    let arguments = [Path::new("unwritten"), path, count.as_ref(), fill.as_ref()];
    script("write_hdf5/scenario.py", arguments).success();
}

/// Elements as libhdf5 reads them.
pub fn elements(stored: &Path, name: &str, numbers: &[u64]) -> Vec<i32> {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let mut arguments = vec![Path::new("one_by_one"), stored, Path::new(name)];
    arguments.extend(numbers.iter().map(Path::new));
    let told = script("write_hdf5/scenario.py", arguments).success().stdout;
    let told = String::from_utf8(told).unwrap();
    told.split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect()
}

fn taken(stored: &Path) -> u64 {
    stored.metadata().unwrap().blocks() * 512
}

fn one_value_takes_little(options: &[&str], fill: &str) {
    let place = Place::mounted(options);
    let stored = place.stored("x.h5");
    make(&stored, MANY, fill);
    let begun = Instant::now();
    let places = [(0, 7), (MANY - 1, -8), (MANY / 2, 9), (12_345, 10)];
    for (number, value) in places {
        write_at(&place.join("x.h5/never"), &numbers(&[value]), 4 * number).unwrap();
        commit(&place);
        assert_eq!(state(&place), "clean");
        assert!(taken(&stored) < LITTLE, "{} bytes", taken(&stored));
    }
    write_at(&place.join("x.h5/also"), &numbers(&[11]), 4).unwrap();
    commit(&place);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert!(taken(&stored) < LITTLE, "{} bytes", taken(&stored));
    assert!(stored.metadata().unwrap().len() > 8 * MANY);
    let asked: Vec<u64> = places.iter().map(|(number, _)| *number).collect();
    assert_eq!(elements(&stored, "never", &asked), [7, -8, 9, 10]);
    assert_eq!(elements(&stored, "never", &[1, MANY / 2 - 1]), [0, 0]);
    assert_eq!(
        elements(&stored, "also", &[0, 1, 2, MANY - 1]),
        [0, 11, 0, 0]
    );
    let shown = File::open(place.join("x.h5/never")).unwrap();
    let mut read = [1; 8];
    shown.read_exact_at(&mut read, 4 * (MANY - 2)).unwrap();
    assert_eq!(read[..], numbers(&[0, -8]));
}

#[test]
fn one_value_takes_little_in_a_file_that_is_replaced() {
    one_value_takes_little(&["commit=replace"], "none");
}

#[test]
fn one_value_takes_little_in_a_file_that_is_changed_in_place() {
    one_value_takes_little(&["commit=inplace"], "none");
}

/// Zeros that somebody has said are no others, though libhdf5 writes all of them.
#[test]
fn one_value_takes_little_beside_zeros_that_were_asked_for() {
    one_value_takes_little(&[], "0");
}

/// The part of the dataset that takes the room of something else is no hole.
#[test]
fn what_was_there_before_is_not_shown() {
    for options in [&["commit=replace"], &["commit=inplace"]] {
        let place = Place::mounted(options);
        let stored = place.stored("x.h5");
        script(
            "write_hdf5/scenario.py",
            [Path::new("unwritten_in_room"), &stored],
        )
        .success();
        write_at(&place.join("x.h5/never"), &numbers(&[5]), 4 * 700).unwrap();
        commit(&place);
        assert_eq!(state(&place), "clean");
        let found = elements(&stored, "never", &[0, 1, 699, 700, 701, 19_999]);
        assert_eq!(found, [0, 0, 0, 5, 0, 0]);
        script(
            "write_hdf5/scenario.py",
            [Path::new("zeros_but"), &stored, Path::new("700")],
        )
        .success();
    }
}

/// A fill value has to be stored, and there is no room for it.
#[test]
fn a_fill_value_that_the_disk_cannot_hold_is_refused_at_once() {
    if !is_root("a small file system") {
        return;
    }
    for options in ["commit=replace", "commit=inplace", "commit=auto"] {
        for count in [64 << 20, 1 << 48] {
            let disk = SmallDisk::new("size=64m,mode=777", Some(&["rw", options]));
            let stored = disk.stored("x.h5");
            make(&stored, count, "3");
            let before = std::fs::read(&stored).unwrap();
            let begun = Instant::now();
            let refused = write_and_close(&disk.join("x.h5/never"), &numbers(&[1]), 0);
            assert_eq!(errno(refused), Some(libc::ENOSPC));
            assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
            assert!(std::fs::read(&stored).unwrap() == before);
        }
    }
}

/// Where the file system has files of that length, it gets one; where it has none, it says so.
#[test]
fn a_petabyte_is_no_more_work_than_a_gigabyte() {
    const PETABYTE: u64 = 1 << 48;
    if is_root("a small file system") {
        for options in ["commit=replace", "commit=inplace"] {
            let disk = SmallDisk::new("size=64m,mode=777", Some(&["rw", options]));
            let stored = disk.stored("x.h5");
            make(&stored, PETABYTE, "0");
            let begun = Instant::now();
            for (number, value) in [(PETABYTE - 5, 6), (3, 8)] {
                let place = disk.join("x.h5/never");
                write_and_close(&place, &numbers(&[value]), 4 * number).unwrap();
            }
            assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
            assert!(taken(&stored) < LITTLE, "{} bytes", taken(&stored));
            let found = elements(&stored, "never", &[PETABYTE - 5, 3, 4]);
            assert_eq!(found, [6, 8, 0]);
        }
    }
}

/// The mount ends at once, whatever the source's file system says of such a length.
#[test]
fn a_petabyte_keeps_no_mount_from_ending() {
    let place = Place::mounted(&[]);
    let stored = place.stored("x.h5");
    make(&stored, 1 << 48, "0");
    let before = std::fs::read(&stored).unwrap();
    let begun = Instant::now();
    let written = write_and_close(&place.join("x.h5/never"), &numbers(&[4]), 80);
    let (mounted, source) = place.into_parts();
    let ended = arrayfs([Path::new("umount"), Path::new("--quick"), mounted.path()]);
    mounted.assert_ends();
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let stored = source.path().join("x.h5");
    if written.is_ok() {
        ended.success();
        return assert_eq!(elements(&stored, "never", &[19, 20]), [0, 4]);
    }
    assert_eq!(errno(written), Some(libc::EFBIG));
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
    assert!(std::fs::read(&stored).unwrap() == before);
}
