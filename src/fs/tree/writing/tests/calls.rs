//! How often the source is asked where a file is made, written and closed: each look at a path
//! costs the opening of its directory.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{NOBODY, ROOT};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::local::LocalDisk;
use crate::disk::{Disk, Putting};
use crate::error::Result;
use crate::source::local::LocalStore;
use crate::source::{FileId, Listed, PosixStore, Source, Space, Stat, Store};
use crate::sync::Mutex;
use crate::tree::{Settings, Tree};

/// Writes down what it is asked by a path.
struct CountingStore {
    store: Arc<LocalStore>,
    asked: Mutex<Vec<&'static str>>,
}

impl CountingStore {
    fn note(&self, what: &'static str) -> &LocalStore {
        self.asked.lock().push(what);
        &self.store
    }

    fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.asked.lock())
    }
}

impl Store for CountingStore {
    fn stat(&self, path: &Path) -> Result<Stat> {
        self.note("stat").stat(path)
    }

    fn stat_in(
        &self,
        directory: &Path,
        is_it: &dyn Fn(&Stat) -> bool,
        name: &OsStr,
    ) -> Result<Option<Stat>> {
        self.note("stat in").stat_in(directory, is_it, name)
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        self.note("list").list(path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.note("head").head(path, buf)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        self.note("open").open(path)
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.store.display(path)
    }

    fn as_posix(&self) -> Option<&dyn PosixStore> {
        Some(self)
    }
}

impl PosixStore for CountingStore {
    fn stat_with_list(&self, path: &Path) -> Result<Stat> {
        self.stat(path)
    }

    fn serve_others(&self) {}

    fn has_lists(&self) -> bool {
        self.store.has_lists()
    }

    fn stat_made(&self, file: &dyn Source) -> Result<Stat> {
        self.store.stat_made(file)
    }

    fn read_link(&self, path: &Path) -> Result<OsString> {
        self.note("read link").read_link(path)
    }

    fn space(&self) -> Result<Space> {
        self.store.space()
    }

    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>> {
        self.note("attribute").xattr(path, file, name)
    }

    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>> {
        self.note("attributes").xattr_names(path, file)
    }
}

#[test]
fn a_new_file_costs_one_look_at_its_directory_and_none_at_itself() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("a/b/c")).unwrap();
    let local = Arc::new(LocalStore::open(directory.path(), directory.path()).unwrap());
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(Arc::clone(&local)));
    let store = Arc::new(CountingStore {
        store: local,
        asked: Mutex::default(),
    });
    let (cache, workers) = (BlockCache::new(1 << 20), ReadAheadWorkers::new(1).unwrap());
    let (root, settings) = (Path::new(""), Settings::default());
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let (tree, _) = Tree::new(shared, Some(disk), root, cache, workers, settings).unwrap();
    let found = ["a", "b", "c"].iter().try_fold(ROOT, |at, name| {
        tree.names
            .lookup(at, OsStr::new(name))
            .map(|attr| attr.inode)
    });
    let (parent, name) = (found.unwrap(), OsStr::new("new"));
    store.asked();
    assert!(tree.names.lookup(parent, name).unwrap_err().is_not_found());
    assert_eq!(store.asked(), ["stat in"]);
    let (attr, open) = tree
        .making
        .create(parent, name, 0o644, true, NOBODY)
        .unwrap();
    let how = Putting::default();
    let n = tree
        .contents
        .write(attr.inode, open.handle, 0, b"some bytes", how, NOBODY);
    assert_eq!(n.unwrap(), 10);
    tree.closing.close(open.handle).unwrap();
    tree.closing.release(open.handle);
    assert_eq!(store.asked(), [""; 0]);
    let stored = std::fs::read(directory.path().join("a/b/c/new")).unwrap();
    assert_eq!(stored, b"some bytes");
    // A second look-up finds it remembered: it is not opened again.
    assert_eq!(tree.names.lookup(parent, name).unwrap().inode, attr.inode);
    assert_eq!(store.asked(), ["stat in"]);
}

/// Where a directory is moved, and another one put in its place, nothing is found and nothing is
/// made.
#[test]
fn another_directory_of_that_name_is_not_looked_into() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    std::fs::create_dir_all(at("a/b")).unwrap();
    std::fs::write(at("a/b/file"), "").unwrap();
    let tree = super::tree_of(directory.path(), |disk| disk);
    let inode = |at, name: &str| tree.names.lookup(at, OsStr::new(name)).unwrap().inode;
    let parent = inode(inode(ROOT, "a"), "b");
    std::fs::rename(at("a/b"), at("a/c")).unwrap();
    for other in ["directory", "link"] {
        match other {
            "link" => std::os::unix::fs::symlink("c", at("a/b")).unwrap(),
            _ => std::fs::create_dir(at("a/b")).unwrap(),
        }
        let found = tree.names.lookup(parent, OsStr::new("file"));
        let changed = matches!(found, Err(crate::error::Error::Changed { .. }));
        assert!(changed, "{other}: {:?}", found.map(|attr| attr.inode));
        let made = tree
            .making
            .create(parent, OsStr::new("new"), 0o644, true, NOBODY);
        assert!(made.is_err(), "{other}");
        if other == "directory" {
            std::fs::remove_dir(at("a/b")).unwrap();
        }
    }
}
