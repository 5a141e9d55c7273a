//! Open files.
//!
//! A handle keeps its container's version open, so it goes on reading what it opened. Read by many
//! threads at once; the table is locked only to find the handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::array::prefetch::{Stream, Workers};
use crate::array::read::{CachedArray, Tail};
use crate::error::{Error, Result};
use crate::source::Source;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// What becomes of the bytes of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The kernel's page cache keeps them.
    ByKernel,
    /// They go straight to the application.
    Nowhere,
}

pub(super) enum Handle {
    Array(ArrayHandle),
    Bytes(Arc<[u8]>),
    /// A file shown as it is.
    File(Arc<dyn Source>),
}

pub(super) struct ArrayHandle {
    array: Arc<CachedArray>,
    stream: Stream,
}

impl ArrayHandle {
    pub(super) fn new(array: CachedArray) -> Self {
        let stream = Stream::new(array.cache.limit());
        ArrayHandle {
            array: Arc::new(array),
            stream,
        }
    }

    /// Orders read-ahead first, so that it runs while this read is served.
    fn read_ahead(&self, workers: &Workers, offset: u64, len: usize, kept: Kept) {
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
        if let (Some(passed), Kept::ByKernel) = (advance.passed, kept) {
            self.array.let_go(passed);
        }
    }
}

impl Handle {
    pub(super) fn read<R>(
        &self,
        workers: &Workers,
        offset: u64,
        len: usize,
        kept: Kept,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match self {
            Handle::Array(handle) => {
                handle.read_ahead(workers, offset, len, kept);
                handle.array.read(offset, len, Tail::Whole, reply)
            }
            Handle::Bytes(bytes) => {
                let start = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let end = start.saturating_add(len).min(bytes.len());
                reply(Ok(&bytes[start..end]))
            }
            Handle::File(source) => {
                let mut buf = vec![0; len];
                match source.read(offset, &mut buf) {
                    Ok(n) => reply(Ok(&buf[..n])),
                    Err(e) => reply(Err(e)),
                }
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Handles {
    table: RwLock<HashMap<HandleId, Arc<Handle>>>,
    next: AtomicU64,
}

impl Handles {
    pub(super) fn insert(&self, handle: Handle) -> HandleId {
        let id = HandleId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(id, Arc::new(handle));
        id
    }

    pub(super) fn get(&self, id: HandleId) -> Result<Arc<Handle>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&id).cloned().ok_or(Error::NotFound)
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
