//! Who waits for the disk holds up nobody else.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{NOBODY, ROOT, ground, tree_with};
use crate::commit::Preference;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::{Putting, Renaming};
use crate::live::ContainerSettings;
use crate::tree::{HandleId, InodeId, PageCache, Tree};

/// Whoever is held up for so long waits for what will not come before.
const PATIENCE: Duration = Duration::from_secs(60);

const ARRAY: &str = "one.blp/data";

fn waiting(source: &std::path::Path, commit: Preference) -> (Arc<Tree>, Arc<Failure>) {
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

/// At the n-th sync from now on others read, write, and move what lies elsewhere and what lies
/// above.
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
            assert!(is_done(move || rename(&movers)), "a move waits");
            let _ = met.send(());
        }
        _ => wait_at(&tree, &again, (written, read), round - 1, met),
    });
}

fn rename(tree: &Tree) {
    let names = ["file", "elsewhere"].map(std::ffi::OsStr::new);
    for (from, to) in [(names[0], names[1]), (names[1], names[0])] {
        tree.lookup(ROOT, from).unwrap();
        tree.rename((ROOT, from), (ROOT, to), Renaming::Over)
            .unwrap();
    }
}
