//! The chunks that were found last, so that neighbouring reads need not look for them again.
//!
//! Used by [`super::ChunkFinder`] alone.

use std::collections::BTreeMap;
use std::ops::Range;

use lru::LruCache;

use super::step::Whereabouts;
use super::{ChunkExtent, ChunkFinder};

/// Chunks whose places are remembered.
pub(super) const REMEMBERED: usize = 2048;

pub(super) struct Remembered {
    pub(super) places: LruCache<u64, Whereabouts>,
    /// By their first plain byte; of a file whose sizes were walked.
    extents: BTreeMap<u64, ChunkExtent>,
}

impl Default for Remembered {
    fn default() -> Self {
        Remembered {
            places: LruCache::unbounded(),
            extents: BTreeMap::new(),
        }
    }
}

impl Remembered {
    pub(super) fn extent_at(&self, plain: u64) -> Option<ChunkExtent> {
        let (_, extent) = self.extents.range(..=plain).next_back()?;
        extent.plain.contains(&plain).then(|| extent.clone())
    }

    pub(super) fn put(&mut self, number: u64, found: Whereabouts) {
        self.places.put(number, found);
        if self.places.len() > REMEMBERED {
            self.places.pop_lru();
        }
    }

    pub(super) fn remember(&mut self, extent: ChunkExtent, found: Whereabouts) {
        self.put(extent.number, found);
        if self.extents.len() >= REMEMBERED {
            self.extents.clear();
        }
        if !extent.plain.is_empty() {
            self.extents.insert(extent.plain.start, extent);
        }
    }
}

impl ChunkFinder {
    /// Whether all chunks that a range of the array lies in are remembered.
    pub(crate) fn remembers(&self, range: &Range<u64>) -> bool {
        let remembered = self.lock();
        let mut at = range.start;
        while at < range.end.min(self.sizes.bytes()) {
            let known = self.sizes.extent_at(at);
            match known.or_else(|| remembered.extent_at(at)) {
                Some(extent) if remembered.places.contains(&extent.number) => at = extent.plain.end,
                _ => return false,
            }
        }
        true
    }
}
