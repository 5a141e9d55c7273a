//! A request that waits for the disk holds up no other.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{NOBODY, ROOT, ground, tree_with};
use crate::commit::Preference;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::{Putting, Renaming};
use crate::live::ContainerSettings;
use crate::stage::is_hidden_name;
use crate::tree::{HandleId, InUse, InodeId, PageCache, Tree};

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
    let n = tree.write(inode, handle, 0, bytes, how, NOBODY).unwrap();
    assert_eq!(n, bytes.len());
}

/// Hidden files in a directory.
fn hidden(directory: &Path) -> Vec<OsString> {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    names.filter(|name| is_hidden_name(name)).collect()
}

fn first_bytes(tree: &Tree, handle: HandleId) -> Vec<u8> {
    tree.read(handle, 0, 5, PageCache::Used, |read| read.unwrap().to_vec())
}

#[test]
fn readers_and_writers_do_not_wait_for_a_commit() {
    for call in 1.. {
        let directory = ground();
        let (tree, failure) = waiting(directory.path(), Preference::Replace);
        let written = tree.written(ARRAY, false).unwrap();
        let read = tree.open(written.0).unwrap().handle;
        put(&tree, written, b"first");
        let other = Arc::clone(&tree);
        failure.arm_with(call, move || {
            let reads = Arc::clone(&other);
            let read = move || assert_eq!(first_bytes(&reads, read), b"first");
            assert!(is_done(read), "call {call}: a reader waits");
        });
        tree.close(written.1).unwrap();
        let is_over = failure.is_armed();
        failure.arm(0);
        tree.release(written.1);
        tree.release(read);
        if is_over {
            assert!(call > 5, "a commit makes {call} calls");
            break;
        }
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
            let read = tree.open(inode).unwrap().handle;
            assert_eq!(first_bytes(&tree, read), b"first", "{what}");
            tree.release(read);
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
            mover.rename((ROOT, names[0]), (ROOT, names[1]), Renaming::Over)
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
    let _ = tree.retry(|| tree.close(handle));
    let is_over = failure.is_armed();
    failure.arm(0);
    if let Ok(rename) = moved.try_recv() {
        rename.join().unwrap().unwrap();
    }
    tree.release(handle);
    is_over
}

/// As many syncs as there are: of the log, of new files, of directories, of files changed in place.
#[test]
fn nobody_waits_for_an_fsync() {
    for preference in [Preference::Replace, Preference::InPlace] {
        for round in 1..=4 {
            let directory = ground();
            let (tree, failure) = waiting(directory.path(), preference);
            let written = tree.written(ARRAY, false).unwrap();
            let read = tree.open(written.0).unwrap().handle;
            put(&tree, written, b"first");
            let (met, was_met) = channel();
            wait_at(&tree, &failure, (written, read), round, met);
            tree.sync(written.0, written.1, false).unwrap();
            tree.close(written.1).unwrap();
            tree.release(written.1);
            tree.release(read);
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
        tree.sync(written.0, written.1, false).unwrap();
        put(&tree, written, &[7; 3 << 20]);
        let movers = Arc::clone(&tree);
        failure.arm_with(call, move || {
            let moves = move || {
                rename(&movers, ["file", "elsewhere"]);
                rename(&movers, ["above", "moved"]);
            };
            assert!(is_done(moves), "call {call}: a move waits");
        });
        tree.sync(written.0, written.1, false).unwrap();
        let is_over = failure.is_armed();
        failure.arm(0);
        tree.close(written.1).unwrap();
        tree.release(written.1);
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
        tree.lookup(ROOT, from).unwrap();
        tree.rename((ROOT, from), (ROOT, to), Renaming::Over)
            .unwrap();
    }
}
