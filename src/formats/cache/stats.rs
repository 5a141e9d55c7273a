//! Counters of the cache, read by `arrayfs status`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
pub struct Stats {
    hits: AtomicU64,
    waits: AtomicU64,
    misses: AtomicU64,
    prefetched: AtomicU64,
    evicted: AtomicU64,
    decoded_bytes: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Blocks that were there.
    pub hits: u64,
    /// Blocks that another thread was decoding.
    pub waits: u64,
    /// Blocks that the reader had to decode itself.
    pub misses: u64,
    /// Blocks decoded ahead of a sequential reader.
    pub prefetched: u64,
    pub evicted: u64,
    pub decoded_bytes: u64,
}

impl Stats {
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            hits: self.hits.load(Relaxed),
            waits: self.waits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            prefetched: self.prefetched.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            decoded_bytes: self.decoded_bytes.load(Relaxed),
        }
    }

    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    pub(super) fn wait(&self) {
        self.waits.fetch_add(1, Relaxed);
    }

    pub(super) fn miss(&self) {
        self.misses.fetch_add(1, Relaxed);
    }

    pub(super) fn prefetch(&self) {
        self.prefetched.fetch_add(1, Relaxed);
    }

    pub(super) fn evict(&self) {
        self.evicted.fetch_add(1, Relaxed);
    }

    pub(super) fn decoded(&self, bytes: u64) {
        self.decoded_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Snapshot {
    /// Share of blocks that a reader found decoded, or being decoded, when it asked.
    pub fn hit_rate(&self) -> Option<f64> {
        let asked = self.hits + self.waits + self.misses;
        (asked > 0).then(|| (self.hits + self.waits) as f64 / asked as f64)
    }
}
