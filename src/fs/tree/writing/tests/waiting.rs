//! A request that waits for the disk holds up no other.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{NOBODY, ROOT, ground, tree_with};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::commit::Preference;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::local::LocalDisk;
use crate::disk::{Putting, Renaming};
use crate::live::ContainerSettings;
use crate::source::Store;
use crate::source::local::LocalStore;
use crate::source::wrapping::WrappingStore;
use crate::stage::is_hidden_name;
use crate::sync::Mutex;
use crate::tree::{HandleId, InUse, InodeId, PageCache, Settings, Tree};

/// A move that is not done by then waits for the call that it was made in.
const MOMENT: Duration = Duration::from_millis(100);

/// A request that is held up for so long waits for something that comes only afterwards.
const PATIENCE: Duration = Duration::from_secs(60);

const ARRAY: &str = "one.blp/data";

fn waiting(source: &Path, commit: Preference) -> (Arc<Tree>, Arc<Failure>) {
    let failure = Failure::new(libc::EIO);
    let settings = ContainerSettings {
        commit,
        ..ContainerSettings::default()
    };
    let tree = tree_with(source, settings, |disk| {
        let failure = Arc::clone(&failure);
        Some(Arc::new(FailingDisk { disk, failure }))
    });
    (Arc::new(tree), failure)
}

/// Does something on a thread of its own, and waits until it is done.
fn is_done(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match is_done.recv_timeout(PATIENCE) {
        Ok(()) => true,
        Err(RecvTimeoutError::Timeout) => false,
        Err(RecvTimeoutError::Disconnected) => panic!("it has failed"),
    }
}

fn put(tree: &Tree, (inode, handle): (InodeId, HandleId), bytes: &[u8]) {
    let how = Putting::default();
    let n = tree
        .contents
        .write(inode, handle, 0, bytes, how, NOBODY)
        .unwrap();
    assert_eq!(n, bytes.len());
}

/// Hidden files in a directory.
fn hidden(directory: &Path) -> Vec<OsString> {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    names.filter(|name| is_hidden_name(name)).collect()
}

fn first_bytes(tree: &Tree, handle: HandleId) -> Vec<u8> {
    tree.reading
        .read(handle, 0, 5, PageCache::Used, |read| read.unwrap().to_vec())
}

fn all_bytes(tree: &Tree, handle: HandleId) -> Vec<u8> {
    let all = |read: crate::error::Result<&[u8]>| read.unwrap().to_vec();
    tree.reading.read(handle, 0, 1 << 20, PageCache::Used, all)
}

/// What the array shows when [`put`] has written "first".
fn after_first() -> Vec<u8> {
    let directory = ground();
    let (tree, _) = waiting(directory.path(), Preference::Replace);
    let read = tree
        .reading
        .open(tree.inode(ARRAY).unwrap())
        .unwrap()
        .handle;
    let mut all = all_bytes(&tree, read);
    all[..5].copy_from_slice(b"first");
    all
}

/// While "first" is committed, somebody reads that and all that is stored, and writes once more.
fn assert_nobody_waits(
    tree: &Arc<Tree>,
    (written, read): ((InodeId, HandleId), HandleId),
    expected: &Arc<Vec<u8>>,
    what: &str,
) {
    let (reads, expected) = (Arc::clone(tree), Arc::clone(expected));
    let reading = move || assert!(all_bytes(&reads, read) == *expected);
    assert!(is_done(reading), "{what}: a reader waits");
    let writes = Arc::clone(tree);
    let writing = move || {
        put(&writes, written, b"later");
        assert_eq!(first_bytes(&writes, read), b"later");
    };
    assert!(is_done(writing), "{what}: a writer waits");
}

#[test]
fn readers_and_writers_do_not_wait_for_a_commit() {
    let expected = Arc::new(after_first());
    for call in 1.. {
        let directory = ground();
        let (tree, failure) = waiting(directory.path(), Preference::Replace);
        let written = tree.written(ARRAY, false).unwrap();
        let read = tree.reading.open(written.0).unwrap().handle;
        put(&tree, written, b"first");
        let (other, expected) = (Arc::clone(&tree), Arc::clone(&expected));
        failure.arm_with(call, move || {
            let what = format!("call {call}");
            assert_nobody_waits(&other, (written, read), &expected, &what);
        });
        tree.closing.close(written.1).unwrap();
        let is_over = failure.is_armed();
        failure.arm(0);
        tree.closing.release(written.1);
        tree.closing.release(read);
        if is_over {
            assert!(call > 5, "a commit makes {call} calls");
            break;
        }
    }
}

/// What is done before the n-th file from now on is opened.
#[derive(Default)]
struct AtOpening(Mutex<(usize, Option<Meanwhile>)>);

type Meanwhile = Box<dyn FnOnce() + Send>;

impl AtOpening {
    fn arm(&self, n: usize, meanwhile: Option<Meanwhile>) {
        *self.0.lock() = (n, meanwhile);
    }

    fn is_armed(&self) -> bool {
        self.0.lock().0 > 0
    }

    fn opens(&self) {
        let mut left = self.0.lock();
        left.0 = left.0.saturating_sub(1);
        let meanwhile = if left.0 == 0 { left.1.take() } else { None };
        drop(left);
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }
}

fn watched(source: &Path, commit: Preference) -> (Arc<Tree>, Arc<AtOpening>) {
    let local = Arc::new(LocalStore::open(source, source).unwrap());
    let disk = Arc::new(LocalDisk::new(Arc::clone(&local)));
    let (local, opening): (Arc<dyn Store>, _) = (local, Arc::new(AtOpening::default()));
    let watch = Arc::clone(&opening);
    let store = WrappingStore::new(&local, move |_, source| {
        watch.opens();
        source
    });
    let settings = Settings {
        containers: ContainerSettings {
            commit,
            ..ContainerSettings::default()
        },
        ..Settings::default()
    };
    let (cache, workers) = (BlockCache::new(1 << 20), ReadAheadWorkers::new(1).unwrap());
    let (store, root) = (Arc::new(store), Path::new(""));
    let tree = Tree::new(store, Some(disk), root, cache, workers, settings);
    (Arc::new(tree.unwrap().0), opening)
}

/// Up to the moment in which the file becomes another one: from there on who reads what is stored
/// waits for the new one.
#[test]
fn readers_and_writers_do_not_wait_for_what_a_commit_opens() {
    let expected = Arc::new(after_first());
    for preference in [Preference::Replace, Preference::InPlace] {
        let (met, was_met) = channel();
        for opened in 1.. {
            let directory = ground();
            let file = directory.path().join("one.blp");
            let stored = std::fs::read(&file).unwrap();
            let (tree, opening) = watched(directory.path(), preference);
            let written = tree.written(ARRAY, false).unwrap();
            let read = tree.reading.open(written.0).unwrap().handle;
            put(&tree, written, b"first");
            let (other, expected) = (Arc::clone(&tree), Arc::clone(&expected));
            let met = met.clone();
            let meanwhile = move || {
                if std::fs::read(&file).unwrap() == stored {
                    let what = format!("{preference:?}, opened {opened}");
                    assert_nobody_waits(&other, (written, read), &expected, &what);
                    met.send(()).unwrap();
                }
            };
            opening.arm(opened, Some(Box::new(meanwhile)));
            tree.closing.close(written.1).unwrap();
            let is_over = opening.is_armed();
            opening.arm(0, None);
            tree.closing.release(written.1);
            tree.closing.release(read);
            if is_over {
                break;
            }
        }
        // What stays is read from the file, and the new version is opened.
        let met = was_met.try_iter().count();
        assert!(met >= 2, "{preference:?}: {met}");
    }
}

/// What was written is there and stored, wherever that is then, and nothing is left beside it.
#[test]
fn a_directory_that_is_moved_during_a_commit_loses_nothing() {
    for preference in [Preference::Replace, Preference::InPlace] {
        for call in 1.. {
            let directory = ground();
            let above = directory.path().join("above");
            std::fs::create_dir(&above).unwrap();
            std::fs::copy(directory.path().join("one.blp"), above.join("x.blp")).unwrap();
            let (tree, failure) = waiting(directory.path(), preference);
            let written = tree.written("above/x.blp/data", false).unwrap();
            put(&tree, written, b"first");
            let is_over = close_while_moving(&tree, &failure, written.1, call);
            drop(tree);
            let what = format!("{preference:?}, call {call}");
            let name = if is_over { "above" } else { "elsewhere" };
            let left = hidden(&directory.path().join(name));
            assert!(left.is_empty(), "{what}: {left:?}");
            let (tree, _) = waiting(directory.path(), preference);
            let inode = tree.inode(&format!("{name}/x.blp/data")).expect(&what);
            let read = tree.reading.open(inode).unwrap().handle;
            assert_eq!(first_bytes(&tree, read), b"first", "{what}");
            tree.closing.release(read);
            let left = tree.containers().commit_all(InUse::Ignored);
            assert!(left.is_empty(), "{what}: {left:?}");
            if is_over {
                break;
            }
        }
    }
}

/// Says whether the commit had come to its end before this call.
fn close_while_moving(
    tree: &Arc<Tree>,
    failure: &Arc<Failure>,
    handle: HandleId,
    call: usize,
) -> bool {
    let mover = Arc::clone(tree);
    let (moving, moved) = channel();
    failure.arm_with(call, move || {
        let rename = std::thread::spawn(move || {
            let names = ["above", "elsewhere"].map(OsStr::new);
            mover
                .renames
                .rename((ROOT, names[0]), (ROOT, names[1]), Renaming::Over)
        });
        // It may have to wait for the call, if that makes a log.
        let until = std::time::Instant::now() + MOMENT;
        while !rename.is_finished() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        moving.send(rename).unwrap();
    });
    // The close began before the move and does not know the new place: then its bytes remain
    // staged.
    let _ = tree.fs.moves.retry(|| tree.closing.close(handle));
    let is_over = failure.is_armed();
    failure.arm(0);
    if let Ok(rename) = moved.try_recv() {
        rename.join().unwrap().unwrap();
    }
    tree.closing.release(handle);
    is_over
}

/// As many syncs as there are: of the log, of new files, of directories, of files changed in place.
#[test]
fn nobody_waits_for_an_fsync() {
    for preference in [Preference::Replace, Preference::InPlace] {
        for round in 1..=6 {
            let directory = ground();
            let (tree, failure) = waiting(directory.path(), preference);
            let written = tree.written(ARRAY, false).unwrap();
            let read = tree.reading.open(written.0).unwrap().handle;
            put(&tree, written, b"first");
            let (met, was_met) = channel();
            wait_at(&tree, &failure, (written, read), round, met);
            tree.closing.sync(written.0, written.1, false).unwrap();
            tree.closing.close(written.1).unwrap();
            tree.closing.release(written.1);
            tree.closing.release(read);
            let names = was_met.try_iter().count();
            assert!(names > 0 || round > 1, "{preference:?}: nothing is synced");
        }
    }
}

/// A log is there: writing to it keeps nothing waiting, whatever call of the disk that has come to.
#[test]
fn no_move_waits_while_a_log_is_written() {
    for call in 1.. {
        let directory = ground();
        let above = directory.path().join("above");
        std::fs::create_dir(&above).unwrap();
        std::fs::copy(directory.path().join("one.blp"), above.join("x.blp")).unwrap();
        let (tree, failure) = waiting(directory.path(), Preference::Replace);
        let written = tree.written("above/x.blp/data", false).unwrap();
        put(&tree, written, b"first");
        tree.closing.sync(written.0, written.1, false).unwrap();
        put(&tree, written, &[7; 3 << 20]);
        let movers = Arc::clone(&tree);
        failure.arm_with(call, move || {
            let moves = move || {
                rename(&movers, ["file", "elsewhere"]);
                rename(&movers, ["above", "moved"]);
            };
            assert!(is_done(moves), "call {call}: a move waits");
        });
        tree.closing.sync(written.0, written.1, false).unwrap();
        let is_over = failure.is_armed();
        failure.arm(0);
        tree.closing.close(written.1).unwrap();
        tree.closing.release(written.1);
        if is_over {
            assert!(call > 1, "nothing is written");
            break;
        }
    }
}

/// At the n-th sync from now on others read, write, and move what lies elsewhere.
fn wait_at(
    tree: &Arc<Tree>,
    failure: &Arc<Failure>,
    (written, read): ((InodeId, HandleId), HandleId),
    round: usize,
    met: std::sync::mpsc::Sender<()>,
) {
    let (tree, again) = (Arc::clone(tree), Arc::clone(failure));
    failure.at_sync(move || match round {
        1 => {
            let readers = Arc::clone(&tree);
            let reading = move || drop(first_bytes(&readers, read));
            assert!(is_done(reading), "a reader waits");
            let writers = Arc::clone(&tree);
            assert!(
                is_done(move || put(&writers, written, b"later")),
                "a writer waits"
            );
            let movers = Arc::clone(&tree);
            let moves = move || rename(&movers, ["file", "elsewhere"]);
            assert!(is_done(moves), "a move waits");
            let _ = met.send(());
        }
        _ => wait_at(&tree, &again, (written, read), round - 1, met),
    });
}

/// There and back.
fn rename(tree: &Tree, names: [&str; 2]) {
    let names = names.map(OsStr::new);
    for (from, to) in [(names[0], names[1]), (names[1], names[0])] {
        tree.names.lookup(ROOT, from).unwrap();
        tree.renames
            .rename((ROOT, from), (ROOT, to), Renaming::Over)
            .unwrap();
    }
}
