//! What all objects of a store share, and what is counted of them. Used by [`super::store`] and
//! [`super::object`].

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk_cache::DiskCache;
use super::piece::PieceMemory;
use super::transport::Transport;
use crate::source::FarTraffic;
use crate::sync::Mutex;

pub(super) struct Shared {
    pub(super) transport: Transport,
    pub(super) memory: Arc<PieceMemory>,
    pub(super) served: ServedBytes,
    pub(super) disk: Option<Arc<DiskCache>>,
    /// Directories in which something is another version than was listed.
    pub(super) outdated: Mutex<HashSet<PathBuf>>,
}

/// Stored bytes that readers got.
#[derive(Default)]
pub(super) struct ServedBytes {
    all: AtomicU64,
    /// That were not there when they were read.
    waited: AtomicU64,
}

impl ServedBytes {
    pub(super) fn add(&self, bytes: usize, was_there: bool) {
        self.all.fetch_add(bytes as u64, Ordering::Relaxed);
        if !was_there {
            self.waited.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl Shared {
    pub(super) fn traffic(&self) -> FarTraffic {
        let counters = &self.transport.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let disk = self.disk.as_ref();
        FarTraffic {
            disk_hit_bytes: disk.map_or(0, |disk| of(&disk.hit_bytes)),
            disk_put_bytes: disk.map_or(0, |disk| of(&disk.put_bytes)),
            requests: of(&counters.requests),
            retries: of(&counters.retries),
            failures: of(&counters.failures),
            bytes: of(&counters.bytes),
            seconds: of(&counters.nanos) as f64 / 1e9,
            read_bytes: of(&self.served.all),
            waited_bytes: of(&self.served.waited),
            held_bytes: self.memory.held(),
        }
    }
}
