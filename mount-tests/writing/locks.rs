//! Locks between processes and between handles: flock, ranges of fcntl.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

use crate::harness::place::{Place, scenarios};
use crate::harness::process::run;
use crate::harness::tools::{shell, tool};
use crate::harness::wait_until;

scenarios![
    everywhere
    flock_excludes_handles_and_processes,
    ranges_are_locked_between_processes,
    a_lock_ends_with_its_process,
];

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

fn flock_excludes_handles_and_processes(place: &Place) {
    let path = place.join("file");
    let (one, two) = (open(&path), open(&path));
    let (exclusive, shared) = (
        FlockOperation::NonBlockingLockExclusive,
        FlockOperation::NonBlockingLockShared,
    );
    flock(&one, exclusive).unwrap();
    assert_eq!(flock(&two, shared), Err(Errno::AGAIN));
    let other = || {
        let mut command = Command::new("flock");
        run(command.args(["-n", "-x"]).arg(&path).arg("true")).code()
    };
    assert_eq!(other(), Some(1));
    flock(&one, shared).unwrap();
    flock(&two, shared).unwrap();
    assert_eq!(flock(&two, exclusive), Err(Errno::AGAIN));
    drop(one);
    // A child of another test may hold a copy of our descriptors for a moment.
    wait_until("the other lock is gone", || flock(&two, exclusive).is_ok());
    assert_eq!(other(), Some(1));
    drop(two);
    wait_until("the lock is free", || other() == Some(0));
}

/// Tries to lock some bytes in another process: whether it got them.
const TRY: &str = "import fcntl, sys
file = open(sys.argv[1], 'r+b')
kind = {'ex': fcntl.LOCK_EX, 'sh': fcntl.LOCK_SH}[sys.argv[2]]
try:
    fcntl.lockf(file, kind | fcntl.LOCK_NB, int(sys.argv[4]), int(sys.argv[3]))
except BlockingIOError:
    sys.exit(7)
";

fn ranges_are_locked_between_processes(place: &Place) {
    let Some(python) = tool("python3") else {
        return;
    };
    let path = place.join("file");
    let other = |kind: &str, at: u64, len: u64| {
        let mut command = Command::new(&python);
        command.args(["-c", TRY]).arg(&path).arg(kind);
        let ran = run(command.args([at.to_string(), len.to_string()]));
        assert!(matches!(ran.code(), Some(0 | 7)), "{ran:?}");
        ran.code() == Some(0)
    };
    let file = open(&path);
    lock_range(&file, libc::F_WRLCK, 10, 20);
    assert!(other("ex", 0, 10) && other("ex", 30, 10));
    assert!(!other("ex", 0, 11) && !other("sh", 29, 1));
    lock_range(&file, libc::F_RDLCK, 10, 20);
    assert!(other("sh", 0, 100) && !other("ex", 15, 1));
    lock_range(&file, libc::F_UNLCK, 10, 10);
    assert!(other("ex", 10, 10) && !other("ex", 20, 1));
    // Closing any handle of the file ends all of a process.
    drop(open(&path));
    assert!(other("ex", 0, 100));
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(!other("sh", 1000, 1));
}

fn lock_range(file: &File, kind: i32, at: i64, len: i64) {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: at,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the description of the lock outlives the call.
    let done = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(file), libc::F_SETLK, &lock) };
    assert_eq!(done, 0);
}

fn a_lock_ends_with_its_process(place: &Place) {
    let script =
        "flock -x file sh -c 'echo held > note; kill -9 $$' || true; flock -n -x file cat note";
    assert_eq!(shell(place.path(), script, &[]).text(), "held\n");
}
