//! A store that passes on everything, and looks at the files that it opens.
//!
//! The result of opening a file is handed to a function, which may refuse it or give another source
//! in its place. Used by the tree, for which files of a version are these and no others, and for
//! reading a container through its log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FarTraffic, Listed, PosixStore, Source, Stat, Store};
use crate::error::Result;

pub struct WrappingStore<F> {
    store: Arc<dyn Store>,
    opened: F,
}

impl<F> WrappingStore<F>
where
    F: Fn(&Path, Result<Arc<dyn Source>>) -> Result<Arc<dyn Source>> + Send + Sync,
{
    /// `opened` is given the path by which a file was opened.
    pub fn new(store: &Arc<dyn Store>, opened: F) -> WrappingStore<F> {
        WrappingStore {
            store: Arc::clone(store),
            opened,
        }
    }
}

impl<F> Store for WrappingStore<F>
where
    F: Fn(&Path, Result<Arc<dyn Source>>) -> Result<Arc<dyn Source>> + Send + Sync,
{
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        (self.opened)(path, self.store.open(path))
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.store.stat(path)
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        self.store.list(path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        let (source, mut done) = (self.open(path)?, 0);
        while done < buf.len() {
            match source.read(done as u64, &mut buf[done..])? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
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
