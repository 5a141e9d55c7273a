//! A source that stands for another one, not always the same: everything is asked of the one that
//! it is at that moment. Used by [`super::switched`] and [`super::bound`].

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{Fetch, PosixFile, Source, SourceIdentity, Stat};
use crate::error::Result;

pub(super) trait Current: Send + Sync {
    fn current(&self) -> Arc<dyn Source>;

    /// See [`Source::switched`].
    fn is_switched(&self) -> bool {
        false
    }
}

impl<T: Current> Source for T {
    fn switched(&self) -> Option<Arc<dyn Source>> {
        self.is_switched().then(|| self.current())
    }

    fn len(&self) -> u64 {
        self.current().len()
    }

    fn identity(&self) -> SourceIdentity {
        self.current().identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.current().stat()
    }

    fn stat_opened(&self) -> Result<Stat> {
        self.current().stat_opened()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.current().fetch(ranges)
    }

    fn is_far(&self) -> bool {
        self.current().is_far()
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        self.current().expect(ranges);
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.current().read(offset, buf)
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl<T: Current> PosixFile for T {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.current().posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.current().posix()?.xattr_names()
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.current().posix()?.seek(offset, hole)
    }

    fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        self.current().posix()?.with_descriptor(with)
    }
}
