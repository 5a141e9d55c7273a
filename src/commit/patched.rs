//! A container's file as a commit in place will have made it, read through the log that tells of it.
//!
//! Used by [`super::recovery`] for who may not write: the file itself may be changed in part.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::recovery::Left;
use crate::error::{Fault, Result};
use crate::source::{Fetch, FileId, FileIdentity, FileKind, Source, Space, Stat, Store};

pub(super) struct Patched {
    stored: Arc<dyn Source>,
    left: Arc<Left>,
    /// Numbers of redo records, by where they begin in the file; a later one counts.
    order: Vec<(Range<u64>, usize)>,
    len: u64,
}

impl Patched {
    pub(super) fn new(stored: Arc<dyn Source>, left: Arc<Left>, len: u64) -> Patched {
        let redo = left.state().redo().iter().enumerate();
        let order = redo.map(|(n, redo)| (redo.offset..redo.offset + redo.len, n));
        let order = order.collect();
        Patched {
            stored,
            left,
            order,
            len,
        }
    }

    fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(buf.len() as u64);
        if end > self.len {
            let fault = Fault::new("a range beyond the end of the file").bytes(at..end);
            return Err(fault.expected(self.len).into());
        }
        let there = self.stored.len().clamp(at, end) - at;
        self.stored.fetch_one(at, &mut buf[..there as usize])?;
        buf[there as usize..].fill(0);
        for (range, number) in &self.order {
            let (from, to) = (range.start.max(at), range.end.min(end));
            if from < to {
                let redo = &self.left.state().redo()[*number];
                let out = &mut buf[(from - at) as usize..(to - at) as usize];
                self.left.state().read_redo(redo, from - range.start, out)?;
            }
        }
        Ok(())
    }
}

impl Source for Patched {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> FileIdentity {
        self.stored.identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.stored.stat()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let mut ranges = ranges.iter_mut();
        ranges.try_for_each(|fetch| self.fill(fetch.offset, fetch.buf))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fill(offset, &mut buf[..n]).map(|()| n)
    }
}

/// A store in which one container's file is read through its log.
pub(super) struct ThroughLog {
    store: Arc<dyn Store>,
    path: PathBuf,
    left: Arc<Left>,
}

impl ThroughLog {
    pub(super) fn new(store: &Arc<dyn Store>, path: &Path, left: &Arc<Left>) -> ThroughLog {
        ThroughLog {
            store: Arc::clone(store),
            path: path.to_owned(),
            left: Arc::clone(left),
        }
    }
}

impl Store for ThroughLog {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let source = self.store.open(path)?;
        Ok(match path == self.path {
            true => self.left.source(source),
            false => source,
        })
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.store.stat(path)
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(&OsStr, FileKind)) -> Result<()> {
        self.store.list(path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.store.head(path, buf)
    }

    fn read_link(&self, path: &Path) -> Result<OsString> {
        self.store.read_link(path)
    }

    fn space(&self) -> Result<Space> {
        self.store.space()
    }

    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>> {
        self.store.xattr(path, file, name)
    }

    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>> {
        self.store.xattr_names(path, file)
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.store.display(path)
    }
}
