//! The same of scratch storage: files of which little is stored, and what a kill leaves of them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::Signal;

use super::assert_bounded;
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, has_ended, send};
use crate::harness::{scratch_directory, wait_until};

const FILES: usize = 3;
const LENGTH: u64 = 4 << 30;

/// Bytes far from each other, each of which is in a chunk of its own.
const WRITES: u64 = 150;

fn place(write: u64) -> u64 {
    write * 7919 * 104_729 % LENGTH
}

/// Makes a file longer, and writes into it here and there.
fn write_sparse(path: &Path, number: u8) {
    let file = File::create_new(path).unwrap();
    file.set_len(LENGTH).unwrap();
    file.sync_all().unwrap();
    for write in 0..WRITES {
        file.write_all_at(&[number], place(write)).unwrap();
    }
    file.sync_all().unwrap();
}

fn assert_written(path: &Path, number: u8) {
    let file = File::open(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), LENGTH);
    let mut byte = [0; 2];
    for write in 0..WRITES {
        file.read_exact_at(&mut byte, place(write)).unwrap();
        assert_eq!(byte[0], number, "{write}");
    }
}

#[test]
fn what_is_recovered_stays_within_the_bound() {
    let source = scratch_directory();
    let options = ["rw", "scratch", "cache=16M"];
    let mounted = Mounted::new(source.path(), &options);
    let name = |number: usize| format!("{number}");
    std::thread::scope(|scope| {
        for number in 0..FILES {
            let path = mounted.join(name(number));
            scope.spawn(move || write_sparse(&path, number as u8 + 1));
        }
    });
    assert_bounded(&mounted, 0);
    let daemon = mounted.daemon();
    send(daemon, Signal::KILL);
    wait_until("the daemon has ended", || has_ended(daemon));
    drop(arrayfs([OsStr::new("umount"), mounted.path().as_os_str()]));
    mounted.assert_ends();
    // By who may not recover it, and by who does.
    let reader = Mounted::new(source.path(), &["ro", "cache=16M"]);
    for number in 0..FILES {
        assert_written(&reader.join(name(number) + ".blp/data"), number as u8 + 1);
    }
    assert_bounded(&reader, 0);
    drop(reader);
    let mounted = Mounted::new(source.path(), &options);
    for number in 0..FILES {
        assert_written(&mounted.join(name(number)), number as u8 + 1);
    }
    assert_bounded(&mounted, 0);
}
