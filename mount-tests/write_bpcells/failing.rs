//! A full disk while arrays of a directory are written: the write, sync or close returns the error,
//! what was stored before is whole, and as soon as there is room everything goes on.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use super::raw::Raw;
use super::{assert_stored, contents, encode, names, open, state};
use crate::harness::process::nobody_starts;
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::{is_root, within_patience};
use crate::write_bloscpack::written_by_dd;

const ENTRIES: usize = 400_000;
const BYTES: usize = 4 * ENTRIES;

const VERSIONS: [&str; 2] = ["packed-uint-matrix-v2", "unpacked-uint-matrix-v2"];

fn on_small_disks(scenario: fn(SmallDisk, Raw)) {
    if !is_root("a small file system") {
        return;
    }
    for version in VERSIONS {
        within_patience(
            &format!("the full disk is dealt with, {version}"),
            move || {
                let disk = SmallDisk::new("size=8m,mode=777", Some(&["rw"]));
                let raw = noise(version);
                encode(&[(disk.stored("m"), &raw)]);
                scenario(disk, raw);
            },
        );
    }
}

/// One column of numbers that take as much room as they have bytes.
fn noise(version: &str) -> Raw {
    let mut random = Seeded::new(1);
    let mut raw = Raw::matrix(version, &mut random, [1, 1], 0);
    raw.set_numbers("shape", &[u64::from(u32::MAX), 1]);
    raw.set_numbers("idxptr", &[0, ENTRIES as u64]);
    raw.set("row_names", Vec::new());
    raw.set("val", random.noise(BYTES));
    let below = |_| random.next() % u64::from(u32::MAX);
    let index: Vec<u64> = (0..ENTRIES).map(below).collect();
    raw.set_numbers("index", &index);
    raw
}

/// Takes all the room that is left but for so many bytes.
fn fill(disk: &SmallDisk, but: u64) {
    let mut file = File::create(disk.stored("filler")).unwrap();
    let block = [1; 4096];
    while file.write(&block).is_ok_and(|n| n > 0) {}
    let len = file.metadata().unwrap().len();
    file.set_len(len - but.min(len)).unwrap();
}

fn empty(disk: &SmallDisk) {
    std::fs::remove_file(disk.stored("filler")).unwrap();
}

fn is_full<T>(done: io::Result<T>) -> bool {
    done.is_err_and(|e| e.raw_os_error() == Some(libc::ENOSPC))
}

fn write_to_a_full_disk(mut disk: SmallDisk, mut raw: Raw) {
    let before = contents(&disk.stored("m"));
    fill(&disk, 0);
    let nobody_starts = nobody_starts();
    let file = open(&disk.join("m/val"));
    let mut val = raw.get("val").to_vec();
    let mut told = false;
    for (number, at) in (0..BYTES - (64 << 10)).step_by(256 << 10).enumerate() {
        let bytes = Seeded::new(number as u64).noise(64 << 10);
        match file.write_at(&bytes, at as u64) {
            Ok(n) => val[at..at + n].copy_from_slice(&bytes[..n]),
            Err(e) => {
                assert_eq!(e.raw_os_error(), Some(libc::ENOSPC));
                told = true;
            }
        }
    }
    assert!(is_full(file.sync_all()) || told, "nobody was told");
    raw.set("val", val.clone());
    raw.assert_shown(&disk.join("m"));
    drop((file, nobody_starts));
    assert!(contents(&disk.stored("m")) == before);
    raw.assert_shown(&disk.join("m"));
    // With room it goes on.
    empty(&disk);
    let file = open(&disk.join("m/val"));
    file.write_all_at(b"room", 8).unwrap();
    val[8..12].copy_from_slice(b"room");
    file.sync_all().unwrap();
    drop(file);
    raw.set("val", val);
    assert_stored(&disk.stored("m"), &raw);
    disk.unmount();
    assert_eq!(names(disk.path()).len(), 1);
}

#[test]
fn a_full_disk_is_told_and_harms_nothing() {
    on_small_disks(write_to_a_full_disk);
}

/// There is room for the log, and not for the new file.
fn commit_on_a_full_disk(disk: SmallDisk, mut raw: Raw) {
    let before = contents(&disk.stored("m"));
    fill(&disk, 1400 << 10);
    let bytes = Seeded::new(3).noise(1 << 20);
    let ran = written_by_dd(&disk.join("m/val"), 1 << 10, &bytes);
    ran.failed_saying(1, &["No space left on device"]);
    assert!(contents(&disk.stored("m")) == before);
    let mut val = raw.get("val").to_vec();
    val[1 << 10..][..1 << 20].copy_from_slice(&bytes);
    raw.set("val", val);
    raw.assert_shown(&disk.join("m"));
    let said = state(&disk.join("m"));
    assert!(said.starts_with("staged: "), "{said}");
    empty(&disk);
    let ran = written_by_dd(&disk.join("m/val"), 1 << 10, &bytes[..8]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert_stored(&disk.stored("m"), &raw);
}

#[test]
fn a_commit_that_finds_no_space_says_so_and_is_made_up_for() {
    on_small_disks(commit_on_a_full_disk);
}

/// The mount ends, and what could not be stored has found room meanwhile.
fn unmount_with_room_again(mut disk: SmallDisk, _: Raw) {
    let before = contents(&disk.stored("m"));
    fill(&disk, 0);
    let bytes = Seeded::new(5).noise(300_000);
    let ran = written_by_dd(&disk.join("m/val"), 0, &bytes);
    ran.failed_saying(1, &["No space left on device"]);
    let shown = Raw::shown(&disk.join("m"));
    assert!(contents(&disk.stored("m")) == before);
    empty(&disk);
    disk.unmount();
    assert_stored(&disk.stored("m"), &shown);
    assert_eq!(names(disk.path()).len(), 1);
}

#[test]
fn unmounting_stores_what_found_no_space_before() {
    on_small_disks(unmount_with_room_again);
}
