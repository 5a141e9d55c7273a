//! A full disk: the errors come from the call that meets it, the file is as it was, and what
//! becomes free can be used.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::write_and_close;
use crate::harness::is_root;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;

/// Less than the values that are written, and enough for a log to begin.
const FREE: u64 = 64 << 10;
/// As many bytes as `numbers` of `scenario.py long` has.
const LEN: usize = 160_000;

/// Takes all that is free but so many bytes.
fn fill(path: &Path, free: u64) {
    let mut file = File::create(path).unwrap();
    let mut len = 0;
    while file.write_all(&[1; 4096]).is_ok() {
        len += 4096;
    }
    file.set_len(len - free).unwrap();
}

fn a_full_disk_harms_nothing(commit: &str) {
    if !is_root("a small file system") {
        return;
    }
    let disk = SmallDisk::new("size=6m,mode=777", Some(&["rw", commit]));
    let stored = disk.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("long"), &stored]).success();
    fill(&disk.stored("much"), FREE);
    let before = std::fs::read(&stored).unwrap();
    let (path, noise) = (disk.join("x.h5/numbers"), Seeded::new(5).noise(LEN));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let refused = file.write_all_at(&noise, 0).and_then(|()| file.sync_all());
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    drop(file);
    assert_eq!(std::fs::read(&stored).unwrap(), before);
    std::fs::remove_file(disk.join("much")).unwrap();
    std::fs::write(&path, &noise).unwrap();
    let none = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(disk.join("x.h5"), "user.arrayfs.commit", b"1", none).unwrap();
    assert_eq!(
        xattr(&disk.join("x.h5"), "user.arrayfs.state").unwrap(),
        "clean"
    );
    assert_content(&path, &noise);
    let arguments = [Path::new("shown"), &stored, Path::new("numbers")];
    let told = script("write_hdf5/scenario.py", arguments).success().stdout;
    assert!(told.ends_with(&noise), "libhdf5 reads something else");
}

#[test]
fn a_full_disk_harms_no_file_that_is_to_be_replaced() {
    a_full_disk_harms_nothing("commit=replace");
}

#[test]
fn a_full_disk_harms_no_file_that_is_to_be_written_in_place() {
    a_full_disk_harms_nothing("commit=inplace");
}

/// The log has room, and the file has none where it has a hole: that is found out before the log
/// says that all of it is going to be there.
#[test]
fn a_hole_that_cannot_be_filled_harms_no_file() {
    const MUCH: usize = 4 << 20;
    if !is_root("a small file system") {
        return;
    }
    let disk = SmallDisk::new("size=24m,mode=777", Some(&["rw", "commit=inplace"]));
    let stored = disk.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("hollow"), &stored]).success();
    assert!(stored.metadata().unwrap().blocks() * 512 < MUCH as u64 / 2);
    fill(&disk.stored("other"), 3 * MUCH as u64 / 2);
    let before = std::fs::read(&stored).unwrap();
    let (path, noise) = (disk.join("x.h5/hollow"), Seeded::new(6).noise(MUCH));
    assert_eq!(
        write_and_close(&path, &noise, 0)
            .unwrap_err()
            .raw_os_error(),
        Some(libc::ENOSPC)
    );
    assert!(std::fs::read(&stored).unwrap() == before, "it has changed");
    std::fs::remove_file(disk.join("other")).unwrap();
    write_and_close(&path, &[1], 0).unwrap();
    let arguments = [Path::new("shown"), &stored, Path::new("hollow")];
    let told = script("write_hdf5/scenario.py", arguments).success().stdout;
    let at = told.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert!(
        told[at + 1..at + MUCH] == noise[1..],
        "libhdf5 reads something else"
    );
}
