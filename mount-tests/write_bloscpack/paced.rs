//! Commits in the background, with the pacing that users have: what is closed in a container whose
//! last commit was slow, or of which more would be copied than written, stays staged, is in the
//! log, and is committed by itself; if that fails, unmounting says so, and the next mount has it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{assert_stored, hidden, stored};
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, send};
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::{golden, is_root, scratch_directory, wait_until};

/// So many bytes take deflate longer than a commit may take that is not slow; if not, twice as many
/// are tried, and then once more.
const LEN: usize = 16 << 20;
const DEFLATED: &str = "bloscpack/sources/codec-zlib-sh1.blp";

/// What is closed while a container rests is committed so long after the last close.
const QUIET: Duration = Duration::from_secs(2);

/// What a full disk leaves to the log.
const ROOM: u64 = 1 << 20;

/// Every chunk has some of these.
const EACH: usize = 1000;

/// Of few kinds, in no order.
fn bytes(round: u64) -> Vec<u8> {
    let len = LEN << (round - 1).min(2);
    let noise = Seeded::new(round).noise(len).into_iter();
    noise.map(|byte| byte & 15).collect()
}

/// Has every chunk encoded by a commit, which has ended when this returns: chunks that are written
/// as a whole are encoded before.
fn commit_a_little_everywhere(container: &Path, content: &mut [u8]) {
    let data = container.join("data");
    let file = OpenOptions::new().write(true).open(data).unwrap();
    for at in (0..content.len()).step_by(EACH) {
        content[at] = 16;
        file.write_all_at(&[16], at as u64).unwrap();
    }
    drop(file);
    // It may have been put off.
    let directory = File::open(container).unwrap();
    directory.sync_all().unwrap();
}

fn state(mounted: &Mounted) -> String {
    xattr(&mounted.join("x.blp"), "user.arrayfs.state").unwrap()
}

/// Takes all the room that is left on a disk but for some.
fn fill(filler: &Path) {
    let mut file = File::create(filler).unwrap();
    let block = [1; 64 << 10];
    while file.write(&block).is_ok_and(|n| n > 0) {}
    let len = file.metadata().unwrap().len();
    file.set_len(len - ROOM).unwrap();
}

/// A slow commit, and what is closed at once after it, which stays staged.
struct Rested {
    content: Vec<u8>,
    /// When it was about to be closed.
    closed: Instant,
}

/// `filler`: where the disk is filled up between the two.
fn rested(mounted: &Mounted, filler: Option<&Path>) -> Rested {
    let (data, mut round) = (mounted.join("x.blp/data"), 0);
    let mut rested = None;
    // The moment may pass before the second close on a machine that does much else.
    wait_until("a container rests", || {
        round += 1;
        let mut content = bytes(round);
        filler.map(std::fs::remove_file);
        std::fs::write(&data, &content).unwrap();
        commit_a_little_everywhere(&mounted.join("x.blp"), &mut content);
        filler.map(fill);
        let file = OpenOptions::new().write(true).open(&data).unwrap();
        file.write_all_at(b"later", 5).unwrap();
        content[5..10].copy_from_slice(b"later");
        let closed = Instant::now();
        drop(file);
        let why = state(mounted);
        // To fill a disk takes longer than it rests, at times; then it is put off for another
        // reason.
        let rests = why.contains("its last commit was slow")
            || (filler.is_some() && why.contains("would be copied"));
        rested = rests.then_some(Rested { content, closed });
        rests
    });
    rested.unwrap()
}

#[test]
fn what_is_closed_while_a_container_rests_is_committed_by_itself() {
    let source = scratch_directory();
    let container = source.path().join("x.blp");
    std::fs::copy(golden(DEFLATED), &container).unwrap();
    let mounted = Mounted::paced(source.path(), &["rw"]);
    let rested = rested(&mounted, None);
    assert_content(&mounted.join("x.blp/data"), &rested.content);
    wait_until("it is committed", || state(&mounted) == "clean");
    let waited = rested.closed.elapsed();
    assert!(waited >= QUIET, "committed after {waited:?}");
    assert_stored(&container, &rested.content);
    assert_content(&mounted.join("x.blp/data"), &rested.content);
}

#[test]
fn a_commit_that_would_copy_more_than_it_writes_is_put_off() {
    let source = scratch_directory();
    let container = source.path().join("x.blp");
    std::fs::copy(golden(DEFLATED), &container).unwrap();
    let mounted = Mounted::paced(source.path(), &["rw"]);
    let data = mounted.join("x.blp/data");
    let mut content = bytes(1);
    std::fs::write(&data, &content).unwrap();
    commit_a_little_everywhere(&mounted.join("x.blp"), &mut content);
    let file = || OpenOptions::new().write(true).open(&data).unwrap();
    let mut closed = Instant::now();
    // The commit of all of it may have been slow.
    wait_until("the container rests no more", || {
        wait_until("it is committed", || state(&mounted) == "clean");
        let before = std::fs::read(&container).unwrap();
        content[7] = !content[7];
        let file = file();
        file.write_all_at(&content[7..8], 7).unwrap();
        closed = Instant::now();
        drop(file);
        let is_put_off = state(&mounted).contains("more of it would be copied than written");
        assert!(!is_put_off || std::fs::read(&container).unwrap() == before);
        is_put_off
    });
    wait_until("it is committed", || state(&mounted) == "clean");
    assert!(closed.elapsed() >= QUIET);
    assert_stored(&container, &content);
    // Who does not want to wait asks for it.
    content[8] = !content[8];
    file().write_all_at(&content[8..9], 8).unwrap();
    File::open(mounted.join("x.blp"))
        .unwrap()
        .sync_all()
        .unwrap();
    assert_eq!(state(&mounted), "clean");
    assert_stored(&container, &content);
}

#[test]
fn what_is_closed_while_a_container_rests_survives_a_kill() {
    let source = scratch_directory();
    let container = source.path().join("x.blp");
    std::fs::copy(golden(DEFLATED), &container).unwrap();
    let mounted = Mounted::paced(source.path(), &["rw"]);
    let Rested { content, .. } = rested(&mounted, None);
    send(mounted.daemon(), Signal::KILL);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    // Through the log, which is settled by the next mount.
    assert!(stored(&container).unwrap() == content);
    let again = Mounted::paced(source.path(), &["rw"]);
    assert_content(&again.join("x.blp/data"), &content);
    drop(again);
    assert_eq!(hidden(&container), 0, "something is left");
    assert!(stored(&container).unwrap() == content);
}

#[test]
fn a_commit_in_the_background_that_failed_is_named_at_unmount_and_loses_nothing() {
    if !is_root("a small file system") {
        return;
    }
    let disk = SmallDisk::new("size=128m,mode=777", None);
    let (container, filler) = (disk.stored("x.blp"), disk.stored("filler"));
    std::fs::copy(golden(DEFLATED), &container).unwrap();
    let mounted = Mounted::paced(disk.path(), &["rw", "commit=replace"]);
    let Rested { content, .. } = rested(&mounted, Some(&filler));
    let before = std::fs::read(&container).unwrap();
    wait_until("the commit has failed", || {
        state(&mounted).contains("No space left on device")
    });
    assert_content(&mounted.join("x.blp/data"), &content);
    let said = arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    said.failed_saying(1, &["x.blp: stays staged: ", "No space left on device"]);
    assert_content(&container, &before);
    // The next mount shows it, and stores it as soon as there is room.
    let again = Mounted::paced(disk.path(), &["rw", "commit=replace"]);
    assert_content(&again.join("x.blp/data"), &content);
    std::fs::remove_file(&filler).unwrap();
    let said = arrayfs([Path::new("umount"), again.path()]);
    again.assert_ends();
    said.success();
    assert_eq!(hidden(&container), 0, "something is left");
    assert!(stored(&container).unwrap() == content);
}
