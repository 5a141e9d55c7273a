//! A store in which a container lies where it was when it was opened, wherever it lies by now.
//!
//! A container whose files are opened when they are read, and not before, asks for them by the
//! paths that it knows. What has been moved through the mount is found at its place. Used by
//! [`super::pinned`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::reopened::{AtPath, opened_at};
use crate::error::Result;
use crate::source::{FarTraffic, Listed, PosixStore, Source, Stat, Store};

pub(super) struct MovedStore {
    store: Arc<dyn Store>,
    /// Where the container lay.
    was: PathBuf,
    now: AtPath,
}

impl MovedStore {
    pub(super) fn new(store: &Arc<dyn Store>, was: &Path, now: AtPath) -> MovedStore {
        MovedStore {
            store: Arc::clone(store),
            was: was.to_owned(),
            now,
        }
    }

    /// Does something with the path at which a file of the container lies by now.
    fn at<T>(&self, path: &Path, with: &dyn Fn(&Path) -> Result<T>) -> Result<T> {
        match path.strip_prefix(&self.was) {
            Ok(below) if below.as_os_str().is_empty() => opened_at(&self.now, with),
            Ok(below) => opened_at(&self.now, |now: &Path| with(&now.join(below))),
            Err(_) => with(path),
        }
    }
}

impl Store for MovedStore {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        self.at(path, &|path| self.store.open(path))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.at(path, &|path| self.store.stat(path))
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        // Names may be told twice only if the first listing failed.
        let path = self.at(path, &|path| self.store.stat(path).map(|_| path.to_owned()))?;
        self.store.list(&path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.open(path)?.read(0, buf)
    }

    fn is_far(&self) -> bool {
        self.store.is_far()
    }

    fn is_looked_into(&self, path: &Path) -> bool {
        self.store.is_looked_into(path)
    }

    fn knows_all_names(&self, directory: &Path) -> bool {
        self.store.knows_all_names(directory)
    }

    fn expect_heads(&self, paths: &mut dyn Iterator<Item = PathBuf>) {
        self.store.expect_heads(paths);
    }

    fn refresh(&self, path: &Path) {
        self.store.refresh(path);
    }

    fn traffic(&self) -> Option<FarTraffic> {
        self.store.traffic()
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.store.display(path)
    }

    fn as_posix(&self) -> Option<&dyn PosixStore> {
        self.store.as_posix()
    }
}
