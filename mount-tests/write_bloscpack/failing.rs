//! A full disk while arrays are written: the write, sync or close returns the error, what was
//! stored before is whole, and as soon as there is room everything goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::{assert_stored, written_by_dd};
use crate::harness::process::nobody_starts;
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::writers::{Bloscpack, Packing};
use crate::harness::{is_root, within_patience};

const SIZE: &str = "size=8m,mode=777";
const LEN: usize = 3 << 20;

/// Tries the scenario with each way of committing.
fn on_small_disks(scenario: fn(SmallDisk)) {
    if !is_root("a small file system") {
        return;
    }
    for option in ["rw,commit=replace", "rw,commit=inplace"] {
        within_patience(
            &format!("the full disk is dealt with, {option}"),
            move || {
                scenario(SmallDisk::new(SIZE, Some(&[option])));
            },
        );
    }
}

/// Noise, which takes as much room as it has bytes.
fn noise(disk: &SmallDisk, seed: u64) -> Vec<u8> {
    let plain = Seeded::new(seed).noise(LEN);
    let stored = Bloscpack {
        packing: Packing::Stored,
        ..Bloscpack::default()
    };
    stored.write(&disk.stored("x.blp"), &plain);
    plain
}

/// Takes all the room that is left.
fn fill(disk: &SmallDisk) {
    let mut file = File::create(disk.stored("filler")).unwrap();
    let block = [1; 4096];
    while file.write(&block).is_ok_and(|n| n > 0) {}
}

fn open(disk: &SmallDisk) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    options.open(disk.join("x.blp/data")).unwrap()
}

fn is_full<T>(done: io::Result<T>) -> bool {
    done.is_err_and(|e| e.raw_os_error() == Some(libc::ENOSPC))
}

fn write_to_a_full_disk(mut disk: SmallDisk) {
    let before = noise(&disk, 1);
    let stored = std::fs::read(disk.stored("x.blp")).unwrap();
    fill(&disk);
    let nobody_starts = nobody_starts();
    let file = open(&disk);
    let mut expected = before.clone();
    let mut told = false;
    for (number, at) in (0..LEN - (64 << 10)).step_by(256 << 10).enumerate() {
        let bytes = Seeded::new(number as u64).noise(64 << 10);
        match file.write_at(&bytes, at as u64) {
            Ok(n) => expected[at..at + n].copy_from_slice(&bytes[..n]),
            Err(e) => {
                assert_eq!(e.raw_os_error(), Some(libc::ENOSPC));
                told = true;
            }
        }
    }
    assert!(is_full(file.sync_all()) || told, "nobody was told");
    assert_content(&disk.join("x.blp/data"), &expected);
    assert_content(&disk.stored("x.blp"), &stored);
    drop((file, nobody_starts));
    assert_content(&disk.stored("x.blp"), &stored);
    assert_content(&disk.join("x.blp/data"), &expected);
    // With room it goes on.
    std::fs::remove_file(disk.stored("filler")).unwrap();
    let file = open(&disk);
    file.write_all_at(b"room", 5).unwrap();
    expected[5..9].copy_from_slice(b"room");
    file.sync_all().unwrap();
    drop(file);
    assert_stored(&disk.stored("x.blp"), &expected);
    disk.unmount();
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_is_told_and_harms_nothing() {
    on_small_disks(write_to_a_full_disk);
}

/// `dd` reports the error of its close.
fn close_on_a_full_disk(disk: SmallDisk) {
    let before = noise(&disk, 2);
    let stored = std::fs::read(disk.stored("x.blp")).unwrap();
    fill(&disk);
    let bytes = Seeded::new(3).noise(1 << 20);
    let ran = written_by_dd(&disk.join("x.blp/data"), 1 << 20, &bytes);
    ran.failed_saying(1, &["No space left on device"]);
    assert_content(&disk.stored("x.blp"), &stored);
    std::fs::remove_file(disk.stored("filler")).unwrap();
    let ran = written_by_dd(&disk.join("x.blp/data"), 1 << 20, &bytes);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let mut expected = before;
    expected[1 << 20..2 << 20].copy_from_slice(&bytes);
    assert_stored(&disk.stored("x.blp"), &expected);
}

#[test]
fn a_close_that_finds_no_space_says_so() {
    on_small_disks(close_on_a_full_disk);
}

/// The mount ends, and what could not be stored has found room meanwhile.
fn unmount_with_room_again(mut disk: SmallDisk) {
    noise(&disk, 4);
    let stored = std::fs::read(disk.stored("x.blp")).unwrap();
    fill(&disk);
    let bytes = Seeded::new(5).noise(300_000);
    let ran = written_by_dd(&disk.join("x.blp/data"), 0, &bytes);
    ran.failed_saying(1, &["No space left on device"]);
    let shown = std::fs::read(disk.join("x.blp/data")).unwrap();
    assert_content(&disk.stored("x.blp"), &stored);
    std::fs::remove_file(disk.stored("filler")).unwrap();
    disk.unmount();
    assert_stored(&disk.stored("x.blp"), &shown);
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 1);
}

#[test]
fn unmounting_stores_what_found_no_space_before() {
    on_small_disks(unmount_with_room_again);
}

/// The stage has all the memory and cannot give it back; a commit waits for some.
#[test]
fn a_full_disk_is_told_with_little_memory() {
    if is_root("a small file system") {
        within_patience("the full disk is dealt with", || {
            write_to_a_full_disk(SmallDisk::new(SIZE, Some(&["rw,cache=1M"])));
        });
    }
}
