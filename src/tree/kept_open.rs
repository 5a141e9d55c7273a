//! Opened containers that are kept although nobody reads them: opening again costs reads, and for HDF5 a
//! request to another process. Bounded in number and in arrays, so in descriptors and memory. Used by
//! `version`.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::opened::Opened;
use crate::cache::VersionId;

const CONTAINERS: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// An array of an opened container takes about 2 KiB.
const ARRAYS: usize = 16_384;

pub(super) struct KeptOpen {
    list: LruCache<VersionId, Arc<Opened>>,
    arrays: usize,
}

impl Default for KeptOpen {
    fn default() -> Self {
        KeptOpen {
            list: LruCache::new(CONTAINERS),
            arrays: 0,
        }
    }
}

impl KeptOpen {
    /// Keeps a container, as the one used last, and returns those that go: to be dropped without a lock.
    pub(super) fn keep(&mut self, id: VersionId, opened: &Arc<Opened>) -> Vec<Arc<Opened>> {
        let mut gone = Vec::new();
        self.arrays += opened.array_count();
        if let Some((_, old)) = self.list.push(id, Arc::clone(opened)) {
            self.arrays -= old.array_count();
            gone.push(old);
        }
        while self.arrays > ARRAYS && self.list.len() > 1 {
            let Some((_, old)) = self.list.pop_lru() else {
                break;
            };
            self.arrays -= old.array_count();
            gone.push(old);
        }
        gone
    }

    pub(super) fn drop_one(&mut self, id: VersionId) -> Option<Arc<Opened>> {
        let opened = self.list.pop(&id)?;
        self.arrays -= opened.array_count();
        Some(opened)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}
