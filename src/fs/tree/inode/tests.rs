//! What the tree takes for each thing that the kernel knows: the figures of docs/operations.md.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::super::{InodeId, Settings, Tree};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::live::shown::cookie::Cookie;
use crate::memory::counting::held_after;
use crate::source::local::LocalStore;

/// Just more than fit into tables of 4096 places, so that these have doubled.
const FILES: usize = 3600;

/// More than are kept open.
const CONTAINERS: usize = 400;
const KEPT_OPEN: usize = 150;

fn tree_of(source: &Path) -> Tree {
    let store = Arc::new(LocalStore::open(source, source).unwrap());
    let (cache, workers) = (BlockCache::new(16 << 20), ReadAheadWorkers::new(1).unwrap());
    let (root, settings) = (Path::new(""), Settings::default());
    Tree::new(store, None, root, cache, workers, settings)
        .unwrap()
        .0
}

fn look_up(tree: &Tree, directory: InodeId, name: &str) -> InodeId {
    tree.names
        .lookup(directory, OsStr::new(name))
        .unwrap()
        .inode
}

#[test]
fn a_file_takes_at_most_300_bytes_which_are_charged() {
    let source = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("a file, {number:06}.dat");
    for number in 0..FILES {
        std::fs::write(source.path().join(name(number)), "").unwrap();
    }
    let tree = tree_of(source.path());
    let charged = || tree.status.cache.budget().used();
    let look = || (0..FILES).map(|n| look_up(&tree, InodeId::ROOT, &name(n)));
    let (inodes, held) = held_after(|| look().collect::<Vec<_>>());
    let held = held - (FILES * size_of::<InodeId>()) as i64;
    assert!(held <= 300 * FILES as i64, "{}", held / FILES as i64);
    assert!(charged() as i64 >= held, "{} bytes are charged", charged());
    let forgotten = inodes
        .into_iter()
        .filter(|&inode| tree.names.forget(inode, 1));
    assert_eq!(forgotten.count(), FILES);
    assert!(charged() <= 128 << 10, "{} bytes are charged", charged());
}

/// What a container takes, and each of its entries, when others are kept open.
#[test]
fn an_entry_takes_at_most_150_bytes_and_a_container_2000() {
    let source = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    let container = golden.join("bloscpack/sources/chunk-4k.blp");
    let name = |number: usize| format!("{number:06}.blp");
    for number in 0..CONTAINERS {
        std::fs::copy(&container, source.path().join(name(number))).unwrap();
    }
    let tree = tree_of(source.path());
    let list = |number| {
        let inode = look_up(&tree, InodeId::ROOT, &name(number));
        tree.listing.list(inode, Cookie::START).unwrap();
        inode
    };
    let mut inodes: Vec<InodeId> = Vec::with_capacity(CONTAINERS);
    inodes.extend((0..KEPT_OPEN).map(list));
    let (more, held) = held_after(|| inodes.extend((KEPT_OPEN..CONTAINERS).map(list)));
    let each = held / (CONTAINERS - KEPT_OPEN) as i64;
    assert!(each <= 2000, "{each} bytes for a container, {more:?}");
    let look = |inode: &InodeId| {
        let views = look_up(&tree, *inode, "views");
        look_up(&tree, *inode, "data");
        look_up(&tree, *inode, "arrays.json");
        look_up(&tree, views, "data.npy");
    };
    let (first, others) = inodes.split_at(KEPT_OPEN);
    first.iter().for_each(look);
    let ((), held) = held_after(|| others.iter().for_each(look));
    let each = held / (4 * others.len()) as i64;
    assert!(each <= 150, "{each} bytes for an entry");
    let least = (CONTAINERS * (2000 + 4 * 150)) as u64;
    assert!(
        tree.status.cache.budget().used() >= least,
        "all of it is charged"
    );
}

/// What is staged of a container is found at unmount, whatever the kernel has forgotten.
#[test]
fn directories_above_what_is_kept_are_kept() {
    let source = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(source.path().join("a/b")).unwrap();
    std::fs::write(source.path().join("a/b/file"), "").unwrap();
    let tree = tree_of(source.path());
    let a = look_up(&tree, InodeId::ROOT, "a");
    let b = look_up(&tree, a, "b");
    let file = look_up(&tree, b, "file");
    tree.fs.inodes.hold(file);
    for inode in [file, b, a] {
        tree.names.forget(inode, 1);
    }
    let path = tree.fs.inodes.path(file).unwrap();
    assert_eq!(path, Path::new("a/b/file"));
    assert!(!tree.fs.inodes.is_unnamed(file));
    let mut gone = tree.fs.inodes.let_go(file);
    gone.sort();
    let mut above = vec![a, b];
    above.sort();
    assert_eq!(gone, above);
    assert!(tree.names.forget(file, 1));
}
