//! The daemon is killed while a file grows in place. What another program then makes of the file is
//! never cut off, wherever the file says how long it is.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, has_ended, send};
use crate::harness::python::script;
use crate::harness::seeded::Seeded;
use crate::harness::{scratch_directory, wait_until};

/// More than a commit in place writes behind the end at once.
const MUCH: u64 = 8 << 20;
/// As long as it takes some time to encode.
const NOISE: usize = 96 << 20;

/// Kills the daemon while the file grows.
fn killed_while_it_grows(source: &Path) {
    let stored = source.join("x.h5");
    let len = || stored.metadata().unwrap().len();
    let before = len();
    let mounted = Mounted::new(source, &["rw", "commit=inplace"]);
    let path = mounted.join("x.h5/noise");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let file = OpenOptions::new().append(true).open(path);
            let _ = file.unwrap().write_all(&Seeded::new(3).noise(NOISE));
        });
        wait_until("the file grows", || len() > before + MUCH);
        send(mounted.daemon(), Signal::KILL);
    });
    wait_until("it has ended", || has_ended(mounted.daemon()));
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
}

fn made(bytes: u64) -> tempfile::TempDir {
    let source = scratch_directory();
    let (stored, bytes) = (source.path().join("x.h5"), bytes.to_string());
    let make: [&Path; 3] = ["user_block".as_ref(), &stored, bytes.as_ref()];
    script("write_hdf5/scenario.py", make).success();
    source
}

#[test]
fn what_another_program_makes_of_a_file_that_was_growing_stays() {
    for bytes in [0, 4096, 1 << 20] {
        let source = made(bytes);
        killed_while_it_grows(source.path());
        let stored = source.path().join("x.h5");
        let of_theirs = |what: &str| {
            let ran = script("write_hdf5/scenario.py", [Path::new(what), &stored]);
            assert_eq!(ran.code(), Some(0), "{bytes}: {}", ran.stderr);
        };
        of_theirs("lengthen");
        let before = std::fs::read(&stored).unwrap();
        let mounted = Mounted::new(source.path(), &["rw"]);
        let shown = std::fs::read(mounted.join("x.h5/theirs")).unwrap();
        assert_eq!(shown.len(), 400_000);
        drop(mounted);
        assert!(std::fs::read(&stored).unwrap() == before, "{bytes}");
        of_theirs("lengthened");
    }
}

/// Nobody has changed it: it is what it was, or what was written.
#[test]
fn a_file_that_was_growing_is_cut_back() {
    let source = made(8192);
    let stored = source.path().join("x.h5");
    let before = stored.metadata().unwrap().len();
    killed_while_it_grows(source.path());
    let mounted = Mounted::new(source.path(), &["rw"]);
    let len = mounted.join("x.h5/noise").metadata().unwrap().len();
    assert!([1 << 20, (1 << 20) + NOISE as u64].contains(&len), "{len}");
    if len == 1 << 20 {
        assert_eq!(stored.metadata().unwrap().len(), before);
    }
    drop(mounted);
    arrayfs([Path::new("verify"), &stored]).success();
}
