//! Commits that no program waits for: what is closed is in the log, and the outcome is reported.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{NOBODY, ground};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::commit::CommitLimits;
use crate::container::creation::{empty_container, format_named};
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::local::LocalDisk;
use crate::disk::recording::{Change, RecordingDisk};
use crate::disk::{Disk, Putting};
use crate::error::{Error, Result};
use crate::live::ContainerSettings;
use crate::memory::budget::Budget;
use crate::source::local::LocalStore;
use crate::tree::{InUse, Later, Pacing, PageCache, Settings, Tree};

const DATA: &str = "one.blp/data";
const LOG: &str = ".one.blp.arrayfs-stage";

/// Nothing is slow.
fn limited(limits: CommitLimits) -> Pacing {
    Pacing {
        limits,
        slow: Duration::MAX,
        ..Pacing::default()
    }
}

/// Whatever was committed rests for good; what is closed meanwhile is due after this time.
fn resting(quiet: Duration) -> Pacing {
    Pacing {
        slow: Duration::ZERO,
        rest: u32::MAX,
        quiet,
        ..Pacing::default()
    }
}

/// What would copy anything is put off, if it would copy more than it writes.
fn copying(quiet: Duration) -> Pacing {
    Pacing {
        slow: Duration::MAX,
        copied: 0,
        quiet,
        ..Pacing::default()
    }
}

fn tree(source: &Path, pacing: Pacing) -> (Tree, Arc<Failure>) {
    let store = Arc::new(LocalStore::open(source, source).unwrap());
    let failure = Failure::new(libc::EIO);
    let disk = Arc::new(FailingDisk {
        disk: Arc::new(LocalDisk::new(Arc::clone(&store))),
        failure: Arc::clone(&failure),
    });
    let (cache, workers) = (BlockCache::new(1 << 20), ReadAheadWorkers::new(1).unwrap());
    let settings = Settings {
        containers: ContainerSettings {
            pacing,
            ..ContainerSettings::default()
        },
        ..Settings::default()
    };
    let (tree, _) = Tree::new(store, Some(disk), Path::new(""), cache, workers, settings).unwrap();
    (tree, failure)
}

fn write(tree: &Tree, at: u64, bytes: &[u8]) -> Result<()> {
    write_into(tree, DATA, at, bytes)
}

/// Writes and closes.
fn write_into(tree: &Tree, path: &str, at: u64, bytes: &[u8]) -> Result<()> {
    write_into_and(tree, path, (at, bytes), || {})
}

/// `meanwhile`: before it is closed.
fn write_into_and(
    tree: &Tree,
    path: &str,
    (at, bytes): (u64, &[u8]),
    meanwhile: impl FnOnce(),
) -> Result<()> {
    let (inode, handle) = tree.written(path, false)?;
    let n = tree
        .contents
        .write(inode, handle, at, bytes, Putting::default(), NOBODY)?;
    assert_eq!(n, bytes.len());
    meanwhile();
    let closed = tree.closing.close(handle);
    tree.closing.release(handle);
    closed
}

fn sync(tree: &Tree) -> Result<()> {
    let (inode, handle) = tree.written(DATA, false)?;
    let synced = tree.closing.sync(inode, handle, false);
    tree.closing.release(handle);
    synced
}

fn content(tree: &Tree) -> Vec<u8> {
    content_of(tree, DATA)
}

fn content_of(tree: &Tree, path: &str) -> Vec<u8> {
    let open = tree.reading.open(tree.inode(path).unwrap()).unwrap();
    let read = |bytes: Result<&[u8]>| bytes.unwrap().to_vec();
    let content = tree
        .reading
        .read(open.handle, 0, 1 << 20, PageCache::Used, read);
    tree.closing.release(open.handle);
    content
}

fn state(tree: &Tree) -> String {
    state_of(tree, "one.blp")
}

fn state_of(tree: &Tree, container: &str) -> String {
    let container = tree.inode(container).unwrap();
    let state = tree
        .xattrs
        .xattr(container, OsStr::new("user.arrayfs.state"));
    String::from_utf8(state.unwrap()).unwrap()
}

/// What is stored, whatever is staged.
fn stored(source: &Path) -> Vec<u8> {
    std::fs::read(source.join("one.blp")).unwrap()
}

/// What the next mount shows if the daemon is killed now.
fn after_a_kill(source: &Path) -> Vec<u8> {
    content(&mounted_after_a_kill(source).1)
}

fn mounted_after_a_kill(source: &Path) -> (tempfile::TempDir, Tree) {
    let copy = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("cp")
        .args([
            "-a".as_ref(),
            source.join(".").as_os_str(),
            copy.path().as_os_str(),
        ])
        .status();
    assert!(status.unwrap().success());
    let (tree, _) = tree(copy.path(), Pacing::default());
    (copy, tree)
}

#[test]
fn what_takes_long_to_commit_is_in_the_log_and_committed_later() {
    let (few, any) = (1000, u64::MAX);
    for (written, encoded) in [(few, any), (any, few)] {
        let source = ground();
        let before = stored(source.path());
        let (tree, _) = tree(source.path(), limited(CommitLimits { written, encoded }));
        let noise: Vec<u8> = (0..20_000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        write(&tree, 3, &noise).unwrap();
        let shown = content(&tree);
        assert!(shown[3..20_003] == noise[..]);
        assert!(stored(source.path()) == before, "it was committed at once");
        assert!(
            state(&tree).contains("in the background"),
            "{}",
            state(&tree)
        );
        assert!(after_a_kill(source.path()) == shown);
        tree.containers().later.commit_all_due(Later::Large);
        assert_eq!(state(&tree), "clean");
        assert!(stored(source.path()) != before && content(&tree) == shown);
        assert!(!source.path().join(LOG).exists());
    }
}

/// The close has nothing left to do but for what was written last.
#[test]
fn what_is_written_while_commits_are_put_off_is_logged_before_the_close() {
    let source = ground();
    let (tree, _) = tree(source.path(), resting(Duration::from_secs(3600)));
    write(&tree, 0, b"committed").unwrap();
    let log = source.path().join(LOG);
    let (inode, handle) = tree.written(DATA, false).unwrap();
    let all = [7; 20_000];
    let n = tree
        .contents
        .write(inode, handle, 0, &all, Putting::default(), NOBODY);
    assert_eq!(n.unwrap(), all.len());
    let is_logged = |_| {
        std::thread::sleep(Duration::from_millis(1));
        std::fs::metadata(&log).is_ok_and(|log| log.len() >= 20_000)
    };
    assert!((0..60_000).any(is_logged), "nobody has logged it");
    assert!(after_a_kill(source.path()).starts_with(&all));
    tree.closing.release(handle);
}

/// A source with a Bloscpack file without an array, so that no stored block shows how well new
/// bytes can be packed.
fn empty_ground() -> tempfile::TempDir {
    let source = tempfile::tempdir().unwrap();
    let creation = format_named(OsStr::new("one.blp")).unwrap().creation();
    let files = empty_container(creation.unwrap(), &Budget::new(16 << 20)).unwrap();
    let bytes = files.into_values().next().unwrap();
    std::fs::write(source.path().join("one.blp"), bytes).unwrap();
    source
}

#[test]
fn of_what_nothing_tells_how_well_it_packs_a_sample_is_encoded_before() {
    let noise = |n: u32| {
        let mixed = u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 31) as u8
    };
    let even = |n: u32| (n >> 12) as u8;
    for (bytes, at_once) in [(even as fn(u32) -> u8, true), (noise, false)] {
        let source = empty_ground();
        let store = Arc::new(LocalStore::open(source.path(), source.path()).unwrap());
        let disk = RecordingDisk::new(Arc::new(LocalDisk::new(Arc::clone(&store))));
        let disk = Arc::new(disk);
        let limits = CommitLimits {
            written: 1 << 20,
            encoded: u64::MAX,
        };
        let settings = Settings {
            containers: ContainerSettings {
                pacing: limited(limits),
                ..ContainerSettings::default()
            },
            ..Settings::default()
        };
        let (cache, workers) = (BlockCache::new(64 << 20), ReadAheadWorkers::new(1).unwrap());
        let (root, changed): (_, Arc<dyn Disk>) = (Path::new(""), Arc::clone(&disk) as _);
        let tree = Tree::new(store, Some(changed), root, cache, workers, settings);
        let (tree, _) = tree.unwrap();
        let content: Vec<u8> = (0..6 << 20).map(bytes).collect();
        write(&tree, 0, &content).unwrap();
        let begun = disk.changes().into_iter().any(|change| {
            matches!(change, Change::Create(path, ..) if path.to_str().unwrap().ends_with("-new"))
        });
        assert_eq!(begun, at_once, "{}", state(&tree));
        assert_eq!(state(&tree) == "clean", at_once, "{}", state(&tree));
        tree.containers().later.commit_all_due(Later::Large);
        assert_eq!(state(&tree), "clean");
    }
}

#[test]
fn what_takes_little_is_committed_at_once() {
    let source = ground();
    let limits = CommitLimits {
        written: 1 << 20,
        encoded: 1 << 20,
    };
    let (tree, _) = tree(source.path(), limited(limits));
    write(&tree, 3, &[9; 500]).unwrap();
    assert_eq!(state(&tree), "clean");
}

#[test]
fn what_becomes_of_a_later_commit_is_told_by_the_next_fsync_once() {
    let source = ground();
    let limits = CommitLimits {
        written: 0,
        encoded: 0,
    };
    let (tree, failure) = tree(source.path(), limited(limits));
    write(&tree, 3, &[9; 500]).unwrap();
    let shown = content(&tree);
    failure.arm(2);
    tree.containers().later.commit_all_due(Later::Large);
    assert!(!failure.is_armed());
    assert!(
        state(&tree).contains("failing as it was told"),
        "{}",
        state(&tree)
    );
    assert!(matches!(sync(&tree), Err(Error::Io { .. })));
    sync(&tree).unwrap();
    assert!(content(&tree) == shown);
    assert!(tree.containers().commit_all(InUse::Ignored).is_empty());
    assert_eq!(state(&tree), "clean");
}

#[test]
fn containers_whose_commits_are_slow_rest() {
    let source = ground();
    let (tree, _) = tree(source.path(), resting(Duration::ZERO));
    write(&tree, 0, &[1; 10]).unwrap();
    assert_eq!(state(&tree), "clean");
    let before = stored(source.path());
    for round in 2..5 {
        write(&tree, 100 * u64::from(round), &[round; 10]).unwrap();
        assert!(stored(source.path()) == before, "it does not rest");
        assert!(state(&tree).contains("slow"), "{}", state(&tree));
    }
    let shown = content(&tree);
    assert!(after_a_kill(source.path()) == shown);
    tree.containers().later.commit_all_due(Later::PutOff);
    assert_eq!(state(&tree), "clean");
    assert!(content(&tree) == shown && stored(source.path()) != before);
}

/// A frame of one row in the specification's form, with two columns of a byte.
fn frame(labels: [u8; 2], values: [u8; 2]) -> Vec<u8> {
    let mut out = vec![1, 3];
    out.extend([1_u64, 2].map(u64::to_le_bytes).concat());
    out.extend([1; 2]);
    out.extend(labels.map(|label| [1, 0, label]).concat());
    out.extend([0; 16]);
    out.extend([1_u32, 2].map(u32::to_le_bytes).concat());
    out.extend([1, 1]);
    out.extend(values);
    out
}

/// That a commit is put off is no reason where it could not be made anyway.
#[test]
fn why_it_could_not_be_committed_is_said_before_that_it_is_put_off() {
    let source = ground();
    let file = source.path().join("x.dbdf");
    std::fs::write(&file, frame(*b"ab", [1, 2])).unwrap();
    let (tree, _) = tree(source.path(), resting(Duration::ZERO));
    let write = |column: &str, at| {
        write_into(&tree, &format!("x.dbdf/columns/{column}"), at, &[9]).unwrap();
        state_of(&tree, "x.dbdf")
    };
    assert_eq!(write("a", 0), "clean");
    assert!(write("a", 0).contains("slow"), "it does not rest");
    let why = write("a", 1);
    assert!(!why.contains("slow"), "{why}");
    tree.containers().later.commit_all_due(Later::PutOff);
    assert_eq!(state_of(&tree, "x.dbdf"), why, "not what the commit says");
    assert!(write("b", 1).contains("slow"), "they agree");
    tree.containers().later.commit_all_due(Later::PutOff);
    assert_eq!(state_of(&tree, "x.dbdf"), "clean");
}

#[test]
fn what_would_be_copied_more_than_written_is_put_off_and_committed_at_once() {
    let source = ground();
    let file = source.path().join("x.dbdf");
    std::fs::write(&file, frame(*b"ab", [1, 2])).unwrap();
    let before = std::fs::read(&file).unwrap();
    let (tree, _) = tree(source.path(), copying(Duration::ZERO));
    write_into(&tree, "x.dbdf/columns/a", 0, &[9]).unwrap();
    assert!(state_of(&tree, "x.dbdf").contains("copied"), "not put off");
    write_into(&tree, "x.dbdf/columns/b", 0, &[8]).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before);
    tree.containers().later.commit_all_due(Later::PutOff);
    assert_eq!(state_of(&tree, "x.dbdf"), "clean");
    assert_eq!(std::fs::read(&file).unwrap(), frame(*b"ab", [9, 8]));
    // In place nothing is copied.
    std::fs::hard_link(&file, source.path().join("y.dbdf")).unwrap();
    write_into(&tree, "x.dbdf/columns/a", 0, &[7]).unwrap();
    assert_eq!(state_of(&tree, "x.dbdf"), "clean");
}

#[test]
fn a_close_tells_what_no_later_commit_could_tell_it() {
    let source = ground();
    let file = source.path().join("x.dbdf");
    std::fs::write(&file, frame(*b"ab", [1, 2])).unwrap();
    let (tree, _) = tree(source.path(), copying(Duration::ZERO));
    let closed = write_into_and(&tree, "x.dbdf/columns/a", (0, &[9]), || {
        std::fs::write(&file, frame(*b"ab", [3, 4])).unwrap();
    });
    assert!(matches!(closed, Err(Error::Changed { .. })), "{closed:?}");
}

#[test]
fn what_no_log_can_be_given_is_committed_by_the_close() {
    let source = ground();
    let file = source.path().join("x.dbdf");
    std::fs::write(&file, frame(*b"ab", [1, 2])).unwrap();
    let (tree, failure) = tree(source.path(), copying(Duration::from_secs(1000)));
    let written = write_into_and(&tree, "x.dbdf/columns/a", (0, &[9]), || failure.arm(1));
    written.unwrap();
    assert!(!failure.is_armed());
    assert_eq!(state_of(&tree, "x.dbdf"), "clean");
    assert_eq!(std::fs::read(&file).unwrap(), frame(*b"ab", [9, 2]));
}

#[test]
fn a_rest_ends_when_the_directory_is_synced_or_unmounted() {
    let ends: [fn(&Tree); 2] = [
        |tree| {
            let directory = tree.inode("one.blp").unwrap();
            tree.closing.sync_directory(directory, false).unwrap();
        },
        |tree| assert!(tree.containers().commit_all(InUse::Ignored).is_empty()),
    ];
    for end in ends {
        let source = ground();
        let (tree, _) = tree(source.path(), resting(Duration::from_secs(3600)));
        write(&tree, 0, &[1; 10]).unwrap();
        write(&tree, 200, &[2; 10]).unwrap();
        tree.containers().later.commit_all_due(Later::PutOff);
        assert!(state(&tree).contains("slow"), "it was due at once");
        end(&tree);
        assert_eq!(state(&tree), "clean");
    }
}

/// It commits itself what a thread has not begun, and waits for a commit that was.
#[test]
fn a_synced_directory_is_committed_whoever_does_it() {
    let source = ground();
    let (written, encoded) = (1000, u64::MAX);
    let (tree, _) = tree(source.path(), limited(CommitLimits { written, encoded }));
    let noise: Vec<u8> = (0..20_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    write(&tree, 3, &noise).unwrap();
    assert!(state(&tree).contains("in the background"));
    let (_, version) = tree.containers().written.all().pop().unwrap();
    let directory = tree.inode("one.blp").unwrap();
    tree.closing.sync_directory(directory, false).unwrap();
    assert_eq!(state(&tree), "clean");
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let under_way = version.writes.take_turn();
        let synced = scope.spawn(|| {
            tree.closing.sync_directory(directory, false).unwrap();
            has_ended.load(Ordering::Relaxed)
        });
        (0..1000).for_each(|_| std::thread::yield_now());
        has_ended.store(true, Ordering::Relaxed);
        drop(under_way);
        assert!(synced.join().unwrap(), "it was not waited for");
    });
}

/// A handle is released some time after close(2) has returned.
#[test]
fn what_was_emptied_and_not_written_is_in_the_log_when_the_close_returns() {
    let source = ground();
    let (tree, _) = tree(source.path(), resting(Duration::from_secs(3600)));
    write(&tree, 0, &[1; 10]).unwrap();
    let (_, handle) = tree.written(DATA, true).unwrap();
    tree.closing.close(handle).unwrap();
    assert_eq!(content(&tree), b"");
    assert_eq!(after_a_kill(source.path()), b"");
    tree.closing.release(handle);
    assert!(tree.containers().commit_all(InUse::Ignored).is_empty());
    assert_eq!(content(&tree), b"");
}
