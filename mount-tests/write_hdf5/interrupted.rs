//! Commits that take long are given up when the mount is to end or who waits for them is killed.
//! What they would have committed is in the log: it is committed in the background, by the next
//! mount, or when somebody asks for it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;

use super::unwritten::{elements, make};
use super::{numbers, write_and_close};
use crate::harness::process::{ARRAYFS, arrayfs, run, send, start, wait_for_end};
use crate::harness::reads::xattr;
use crate::harness::small_disk::SmallDisk;
use crate::harness::{is_root, wait_until};

/// Elements of 2 GiB, each of which has to be stored: more than a close waits for.
const MANY: u64 = 512 << 20;
const LOG: &str = ".x.h5.arrayfs-stage";

/// They take much memory.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> Option<MutexGuard<'static, ()>> {
    let alone = || ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    is_root("a small file system").then(alone)
}

/// A disk with a file for a long commit: one value in it has 2 GiB stored.
fn long_commit(option: &str) -> (SmallDisk, Vec<u8>) {
    let mut disk = SmallDisk::new("size=5g,mode=777", None);
    make(&disk.stored("x.h5"), MANY, "3");
    let before = std::fs::read(disk.stored("x.h5")).unwrap();
    disk.mount(&["rw", option]);
    (disk, before)
}

/// More than the file was lies on the disk: the commit has begun.
fn wait_until_under_way(disk: &SmallDisk) {
    let used = || {
        let found = rustix::fs::statvfs(disk.stored("")).unwrap();
        (found.f_blocks - found.f_bfree) * found.f_frsize
    };
    wait_until("the commit is under way", || used() > 64 << 20);
}

fn begin(disk: &SmallDisk) {
    write_and_close(&disk.join("x.h5/never"), &numbers(&[7]), 80).unwrap();
    let state = xattr(&disk.join("x.h5"), "user.arrayfs.state").unwrap();
    assert!(state.contains("in the background"), "{state}");
    wait_until_under_way(disk);
}

/// Nothing has happened to the file, and what was written is in the log.
fn assert_logged(disk: &SmallDisk, before: &[u8]) {
    let now = std::fs::metadata(disk.stored("x.h5")).unwrap();
    assert_eq!(now.len(), before.len() as u64);
    assert!(std::fs::read(disk.stored("x.h5")).unwrap() == before);
    assert!(disk.stored(LOG).exists());
    let left = std::fs::read_dir(disk.stored("")).unwrap().count();
    assert_eq!(left, 2, "what the commit had made is gone");
}

fn assert_committed(disk: &SmallDisk, expected: [i32; 4]) {
    let found = elements(&disk.stored("x.h5"), "never", &[20, 21, 22, MANY - 1]);
    assert_eq!(found, expected);
}

/// The next mount shows what was staged, and commits it.
fn goes_on(disk: &mut SmallDisk, option: &str) {
    disk.mount(&["rw", option]);
    let shown = Command::new("od")
        .args(["-An", "-td4", "-j80", "-N8"])
        .arg(disk.join("x.h5/never"))
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["7", "3"]);
    disk.unmount();
    assert!(!disk.stored(LOG).exists());
    assert_committed(disk, [7, 3, 3, 3]);
}

#[test]
fn a_signal_ends_a_mount_that_commits() {
    let Some(_alone) = alone() else { return };
    for option in ["commit=replace", "commit=inplace"] {
        let (mut disk, before) = long_commit(option);
        begin(&disk);
        let daemon = disk.mounted().daemon();
        send(daemon, Signal::TERM);
        disk.was_unmounted();
        assert_logged(&disk, &before);
        goes_on(&mut disk, option);
    }
}

#[test]
fn a_quick_umount_leaves_a_long_commit_to_the_next_mount() {
    let Some(_alone) = alone() else { return };
    let (mut disk, before) = long_commit("commit=auto");
    begin(&disk);
    let ended = arrayfs([Path::new("umount"), Path::new("--quick"), disk.path()]);
    ended.failed_saying(1, &["x.h5: stays staged: it takes long to commit"]);
    disk.was_unmounted();
    assert_logged(&disk, &before);
    goes_on(&mut disk, "commit=auto");
}

/// A signal while `arrayfs umount` waits for all of it, as it does without `--quick`; and one while
/// the daemon commits after umount(8).
#[test]
fn a_signal_ends_the_waiting_of_umount() {
    let Some(_alone) = alone() else { return };
    for ours in [true, false] {
        let (mut disk, before) = long_commit("commit=auto");
        begin(&disk);
        let daemon = disk.mounted().daemon();
        let program = if ours { ARRAYFS } else { "umount" };
        let arguments = [Path::new("umount"), disk.path()];
        let arguments = &arguments[usize::from(!ours)..];
        let umount = &mut Command::new(program);
        let mut umount = start(umount.args(arguments).stderr(Stdio::null())).unwrap();
        if !ours {
            assert!(umount.wait().unwrap().success());
        }
        send(daemon, Signal::TERM);
        disk.was_unmounted();
        umount.wait().unwrap();
        assert_logged(&disk, &before);
        goes_on(&mut disk, "commit=auto");
    }
}

/// A program that writes a number as the element 21, and then does what is asked.
fn writer(disk: &SmallDisk, and_then: &str) -> Child {
    let program = format!(
        "import os, sys\n\
         file = os.open(sys.argv[1], os.O_WRONLY)\n\
         os.pwrite(file, (9).to_bytes(4, 'little'), 84)\n\
         print(flush=True)\n\
         {and_then}\n"
    );
    let python = crate::harness::python::interpreter();
    let mut command = Command::new(python);
    command.args(["-c", &program]).arg(disk.join("x.h5/never"));
    let mut child = start(command.stdout(Stdio::piped())).unwrap();
    let mut line = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    child
}

fn kill(mut writer: Child) {
    writer.kill().unwrap();
    wait_for_end(&mut writer);
}

/// Somebody else waits for all of it.
fn sync(disk: &SmallDisk) {
    run(Command::new("sync").arg(disk.join("x.h5"))).success();
    let state = xattr(&disk.join("x.h5"), "user.arrayfs.state").unwrap();
    assert_eq!(state, "clean");
}

/// It waits for the commit that it has asked for; the commit goes on without it.
#[test]
fn a_killed_writer_does_not_wait_for_its_fsync() {
    let Some(_alone) = alone() else { return };
    let (disk, before) = long_commit("commit=auto");
    let writer = writer(&disk, "os.fsync(file)");
    wait_until_under_way(&disk);
    kill(writer);
    let now = std::fs::metadata(disk.stored("x.h5")).unwrap();
    assert_eq!(now.len(), before.len() as u64);
    sync(&disk);
    assert_committed(&disk, [3, 9, 3, 3]);
}

/// It waits for its turn: another commit is under way.
#[test]
fn a_killed_writer_does_not_wait_for_the_commit_of_another() {
    let Some(_alone) = alone() else { return };
    for and_then in [
        "os.close(file)",
        "os.fsync(file)",
        "os.kill(os.getpid(), 9)",
    ] {
        let (disk, before) = long_commit("commit=auto");
        begin(&disk);
        kill(writer(&disk, and_then));
        let now = std::fs::metadata(disk.stored("x.h5")).unwrap();
        assert_eq!(now.len(), before.len() as u64);
        sync(&disk);
        assert_committed(&disk, [7, 9, 3, 3]);
    }
}

/// It closes the file in the middle of execve, when nobody can look at it without waiting for it.
#[test]
fn a_writer_that_starts_another_program_is_waited_for() {
    let Some(_alone) = alone() else { return };
    let (disk, _) = long_commit("commit=auto");
    begin(&disk);
    let mut writer = writer(&disk, "os.execv('/bin/true', ['true'])");
    assert!(wait_for_end(&mut writer).success());
    sync(&disk);
    assert_committed(&disk, [7, 9, 3, 3]);
}
