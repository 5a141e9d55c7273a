//! A file that is read as it is going to be, and then as it is.
//!
//! What is planned by it holds for both: they are the same bytes. Used by `live`, which opens a
//! container before a commit makes its files visible, and by containers that live on through
//! commits.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Fetch, FileIdentity, Source, Stat};
use crate::error::Result;

pub struct SwitchedSource {
    now: RwLock<Arc<dyn Source>>,
}

impl SwitchedSource {
    pub fn new(future: Arc<dyn Source>) -> SwitchedSource {
        SwitchedSource {
            now: RwLock::new(future),
        }
    }

    /// The file is what it was going to be.
    pub fn switch(&self, file: Arc<dyn Source>) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = file;
    }

    pub fn now(&self) -> Arc<dyn Source> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&now)
    }
}

impl Source for SwitchedSource {
    fn switched(&self) -> Option<Arc<dyn Source>> {
        Some(self.now())
    }

    fn len(&self) -> u64 {
        self.now().len()
    }

    fn identity(&self) -> FileIdentity {
        self.now().identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.now().stat()
    }

    fn stat_opened(&self) -> Result<Stat> {
        self.now().stat_opened()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.now().fetch(ranges)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.now().read(offset, buf)
    }

    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.now().xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.now().xattr_names()
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.now().seek(offset, hole)
    }

    fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        self.now().with_descriptor(with)
    }
}
