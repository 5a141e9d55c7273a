//! Open files: what a handle stands for.
//!
//! A handle keeps what it opened: the container as it was, or the file, whatever happens to its name.
//! Read by many threads at once; the table is locked only to find the handle.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::InodeId;
use super::open_container::OpenContainer;
use crate::array::prefetch::{ReadAhead, ReadAheadWorkers};
use crate::array::read::{CachedArray, Tail};
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::source::Source;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// What becomes of the bytes of a read: whether the kernel keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    Used,
    /// They go straight to the application.
    Bypassed,
}

pub(super) struct OpenFile {
    content: FileContent,
    /// The container that it belongs to: as long as it is here, its version can be described.
    _opened: Option<Arc<OpenContainer>>,
}

pub(super) enum FileContent {
    Array(OpenArray),
    Bytes(Arc<Vec<u8>>),
    /// A file shown as it is.
    File(Arc<dyn Source>),
}

pub(super) struct OpenArray {
    array: Arc<CachedArray>,
    stream: ReadAhead,
}

impl OpenArray {
    pub(super) fn new(array: CachedArray) -> Self {
        let stream = ReadAhead::new(array.cache.limit());
        OpenArray {
            array: Arc::new(array),
            stream,
        }
    }

    /// Orders read-ahead, and says what the reader has passed and the kernel keeps.
    fn read_ahead(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
    ) -> Option<Range<u64>> {
        let before = self.array.prefix.len() as u64;
        let start = offset.saturating_sub(before);
        let end = offset
            .saturating_add(len as u64)
            .saturating_sub(before)
            .min(self.array.bytes);
        let advance = self.stream.advance(start..end, self.array.bytes);
        if let Some(ahead) = advance.ahead {
            workers.order(&self.array, ahead);
        }
        advance.passed.filter(|_| pages == PageCache::Used)
    }
}

impl OpenFile {
    pub(super) fn inside(content: FileContent, opened: Arc<OpenContainer>) -> Self {
        OpenFile {
            content,
            _opened: Some(opened),
        }
    }

    pub(super) fn ordinary(source: Arc<dyn Source>) -> Self {
        OpenFile {
            content: FileContent::File(source),
            _opened: None,
        }
    }

    /// The file, if it is shown as it is.
    pub(super) fn source(&self) -> Option<&dyn Source> {
        match &self.content {
            FileContent::File(source) => Some(&**source),
            _ => None,
        }
    }

    pub(super) fn read<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match &self.content {
            FileContent::Array(open) => {
                // First, so that it runs while this read is served.
                if let Some(passed) = open.read_ahead(workers, offset, len, pages) {
                    open.array.let_go(passed);
                }
                open.array.read(offset, len, Tail::Whole, reply)
            }
            FileContent::Bytes(bytes) => reply(Ok(part(bytes, offset, len))),
            FileContent::File(source) => {
                let buf = fallible::zeros(len as u64, "cannot read a file");
                let read = buf.and_then(|mut buf| {
                    let n = source.read(offset, &mut buf)?;
                    buf.truncate(n);
                    Ok(buf)
                });
                match read {
                    Ok(bytes) => reply(Ok(&bytes)),
                    Err(e) => reply(Err(e)),
                }
            }
        }
    }

    /// As [`OpenFile::read`], from memory. None if the bytes are not there; then nobody has been told anything.
    pub(super) fn read_in_memory<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        match &self.content {
            FileContent::Array(open) => {
                let replied = open.array.read_cached(offset, len, reply)?;
                let passed = open.read_ahead(workers, offset, len, pages);
                // What the format has forgotten by now, the cache forgets in its own time.
                if let Some(passed) = passed.filter(|passed| open.array.array.places_known(passed))
                {
                    open.array.let_go(passed);
                }
                Some(replied)
            }
            FileContent::Bytes(bytes) => Some(reply(part(bytes, offset, len))),
            FileContent::File(_) => None,
        }
    }
}

fn part(bytes: &[u8], offset: u64, len: usize) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let start = start.min(bytes.len());
    let end = start.saturating_add(len).min(bytes.len());
    &bytes[start..end]
}

#[derive(Default)]
pub(super) struct OpenFiles {
    table: RwLock<HashMap<HandleId, (InodeId, Arc<OpenFile>)>>,
    next: AtomicU64,
}

impl OpenFiles {
    pub(super) fn insert(&self, inode: InodeId, handle: OpenFile) -> HandleId {
        let id = HandleId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(id, (inode, Arc::new(handle)));
        id
    }

    pub(super) fn get(&self, id: HandleId) -> Result<Arc<OpenFile>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let found = table.get(&id).map(|(_, handle)| Arc::clone(handle));
        found.ok_or(Error::NotFound)
    }

    /// One of the handles of an inode, if it is open.
    pub(super) fn of_inode(&self, inode: InodeId) -> Option<Arc<OpenFile>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut handles = table.values();
        let found = handles.find(|(of, _)| *of == inode);
        found.map(|(_, handle)| Arc::clone(handle))
    }

    pub(super) fn remove(&self, id: HandleId) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let closed = table.remove(&id);
        drop(table);
        drop(closed);
    }

    pub(super) fn len(&self) -> usize {
        self.table
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}
