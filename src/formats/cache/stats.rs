//! Counters of the cache, read by `arrayfs status`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

#[derive(Default)]
pub struct Stats {
    hits: AtomicU64,
    waits: AtomicU64,
    misses: AtomicU64,
    prefetched: AtomicU64,
    evicted: AtomicU64,
    decoded_bytes: AtomicU64,
}

/// The cache at one moment, as the status of a mount tells of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStatus {
    pub limit: u64,
    pub used: u64,
    pub blocks: usize,
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
    /// Share of blocks that a reader found decoded, or being decoded, when it asked.
    pub hit_rate: Option<f64>,
}

impl Stats {
    /// What was counted.
    pub(super) fn snapshot(&self) -> CacheStatus {
        let mut now = CacheStatus {
            hits: self.hits.load(Relaxed),
            waits: self.waits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            prefetched: self.prefetched.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            decoded_bytes: self.decoded_bytes.load(Relaxed),
            ..CacheStatus::default()
        };
        let (found, asked) = (now.hits + now.waits, now.hits + now.waits + now.misses);
        now.hit_rate = (asked > 0).then(|| found as f64 / asked as f64);
        now
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
