//! A file that is read, and is open while that is done.
//!
//! Opened again it must be what it was, or reading fails as it does of every file that has changed.
//! Used by `tree`, for the files of containers, and by `commit`.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use super::descriptors::{Reopened, Reopening};
use super::{Fetch, PosixFile, Source, SourceIdentity, Stat, Store};
use crate::error::{Error, Result};

pub struct ReopenedSource {
    file: Arc<Reopened<SourceOpener>>,
    identity: SourceIdentity,
    is_far: bool,
}

struct SourceOpener(Box<dyn Fn() -> Result<Arc<dyn Source>> + Send + Sync>);

impl Reopening for SourceOpener {
    type File = dyn Source;

    fn open(&self) -> Result<Arc<dyn Source>> {
        (self.0)()
    }
}

impl ReopenedSource {
    /// `open` opens the same file again, wherever it lies by then: [`open_same`].
    pub fn new(
        source: Arc<dyn Source>,
        open: impl Fn() -> Result<Arc<dyn Source>> + Send + Sync + 'static,
    ) -> ReopenedSource {
        ReopenedSource {
            identity: source.identity(),
            is_far: source.is_far(),
            file: Reopened::new(SourceOpener(Box::new(open)), source),
        }
    }

    fn open(&self) -> Result<Arc<dyn Source>> {
        self.file.get()
    }
}

/// Opens a file that must be this one, unchanged.
pub fn open_same(
    store: &dyn Store,
    path: &Path,
    identity: &SourceIdentity,
) -> Result<Arc<dyn Source>> {
    let changed = || Error::Changed {
        path: store.display(path),
    };
    match store.open(path) {
        Ok(source) if source.identity() == *identity => Ok(source),
        Ok(_) => Err(changed()),
        Err(e) if e.is_not_found() => Err(changed()),
        Err(e) => Err(e),
    }
}

impl Source for ReopenedSource {
    fn len(&self) -> u64 {
        self.identity.size()
    }

    fn identity(&self) -> SourceIdentity {
        self.identity
    }

    fn stat(&self) -> Result<Stat> {
        self.open()?.stat()
    }

    fn stat_opened(&self) -> Result<Stat> {
        self.open()?.stat_opened()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.open()?.fetch(ranges)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.open()?.read(offset, buf)
    }

    fn is_far(&self) -> bool {
        self.is_far
    }

    fn kept(&self, what: &str) -> Option<Vec<u8>> {
        self.open().ok()?.kept(what)
    }

    fn keep(&self, what: &str, found: &[u8]) {
        if let Ok(source) = self.open() {
            source.keep(what, found);
        }
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        if let Ok(source) = self.open() {
            source.expect(ranges);
        }
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl PosixFile for ReopenedSource {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.open()?.posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.open()?.posix()?.xattr_names()
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.open()?.posix()?.seek(offset, hole)
    }

    fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        self.open()?.posix()?.with_descriptor(with)
    }
}
