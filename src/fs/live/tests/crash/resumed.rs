//! A log that cannot be gone on with, because a file cannot be opened just then: it is read
//! through, and tried again.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::forged::{read, staged};
use super::image::{Image, scratch};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::Putting;
use crate::disk::local::LocalDisk;
use crate::error::{Error, Result};
use crate::source::Store;
use crate::source::local::LocalStore;
use crate::source::wrapping::WrappingStore;
use crate::tree::driven::NOBODY;
use crate::tree::{HandleId, InUse, InodeId, Settings, Tree};

/// What a file cannot be opened for: a failing disk, and no memory.
const CAUSES: [i32; 2] = [libc::EIO, libc::ENOMEM];

/// A tree whose container cannot be opened the n-th time.
fn tree_failing(directory: &Path, left: &Arc<AtomicUsize>, code: i32) -> Tree {
    let local = Arc::new(LocalStore::open(directory, directory).unwrap());
    let disk = Arc::new(LocalDisk::new(Arc::clone(&local)));
    let (local, left): (Arc<dyn Store>, _) = (local, Arc::clone(left));
    let count = |left: usize| left.checked_sub(1);
    let store = WrappingStore::new(&local, move |path, source| {
        let is_it = path == Path::new("x.blp");
        match is_it && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) == Ok(1) {
            true => {
                let cause = std::io::Error::from_raw_os_error(code);
                Err(Error::io("failing as it was told", cause))
            }
            false => source,
        }
    });
    let (cache, workers) = (BlockCache::new(1 << 20), ReadAheadWorkers::new(1).unwrap());
    let (root, settings) = (Path::new(""), Settings::default());
    let tree = Tree::new(Arc::new(store), Some(disk), root, cache, workers, settings);
    tree.unwrap().0
}

/// As the kernel does it: what is of an older version is looked up afresh.
fn tried<T>(tree: &Tree, open: impl Fn(&Tree, InodeId) -> Result<T>) -> Result<T> {
    for _ in 0..3 {
        match tree.inode("x.blp/data").and_then(|inode| open(tree, inode)) {
            Err(Error::Changed { .. }) => {}
            opened => return opened,
        }
    }
    Err(Error::NotFound)
}

fn written(tree: &Tree) -> Result<(InodeId, HandleId)> {
    tried(tree, |tree, inode| {
        let open = tree.contents.open_for_writing(inode)?;
        Ok((inode, open.handle))
    })
}

#[test]
fn a_log_that_cannot_be_gone_on_with_is_read_through_and_tried_again() {
    for code in CAUSES {
        tried_again_after_each_failure(code);
    }
}

fn tried_again_after_each_failure(code: i32) {
    let (image, session) = staged();
    let mut expected = session.first[0].clone();
    expected[16..80].fill(3);
    let mut failures = 0;
    for call in 1.. {
        let directory = scratch();
        image.store(directory.path());
        let left = Arc::new(AtomicUsize::new(call));
        let tree = tree_failing(directory.path(), &left, code);
        let opened = tried(&tree, |tree, inode| tree.reading.open(inode));
        if opened.is_ok() {
            assert!(read(&tree, "x.blp/data") == expected, "call {call}");
        }
        left.store(0, Ordering::SeqCst);
        // It has got so far that it was gone on with, and committed: what fails from here on is the
        // commit.
        let stored = std::fs::read(directory.path().join("x.blp")).unwrap();
        let is_committed = stored != image.files[OsStr::new("x.blp")].bytes;
        if is_committed && !tree.containers().written.all().is_empty() {
            break;
        }
        failures += 1;
        let (inode, handle) = written(&tree).unwrap();
        assert!(read(&tree, "x.blp/data") == expected, "call {call}");
        let how = Putting::default();
        tree.contents
            .write(inode, handle, 0, b"go on", how, NOBODY)
            .unwrap();
        tree.closing.close(handle).unwrap();
        tree.closing.release(handle);
        let mut expected = expected.clone();
        expected[..5].copy_from_slice(b"go on");
        assert!(read(&tree, "x.blp/data") == expected, "call {call}");
        assert!(
            tree.containers().commit_all(InUse::Ignored).is_empty(),
            "call {call}"
        );
        assert_eq!(
            Image::load(directory.path()).names(),
            ["x.blp"],
            "call {call}"
        );
    }
    assert!(failures > 2, "{failures} of {code}");
}
