//! What all files of a scratch mount share, and that knows none of them: memory, the disk and how
//! much of it is free, the clock, and what is counted.
//!
//! Uses [`super::encode`], [`super::mark`] and [`super::times`] for their types; used by
//! [`super::file`], and by all that works on files.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::encode::EncodeOptions;
use super::mark::Epoch;
use super::times::ShownClock;
use crate::cache::{BlockCache, VersionId};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::memory::budget::TableCharge;
use crate::source::{PosixStore, Store};
use crate::sync::Mutex;

/// How long the free space of the disk is taken for what it was.
const SPACE_KNOWN: Duration = Duration::from_millis(200);

/// What is touched so soon after it was stored could pass for not touched: more than a few stamps.
const MASKED: Duration = Duration::from_millis(500);

/// What the system would say of something that cannot be done.
pub(super) fn refused(doing: &str, name: &OsStr, code: i32) -> Error {
    let cause = std::io::Error::from_raw_os_error(code);
    Error::io(format!("cannot {doing} {}", name.display()), cause)
}

pub(super) struct ScratchShared {
    pub(super) cache: Arc<BlockCache>,
    pub(super) options: EncodeOptions,
    /// Where the stored files lie.
    pub(super) inner: Arc<dyn Store>,
    /// What they are changed through; none where they are only read.
    disk: Option<Arc<dyn Disk>>,
    free: Mutex<Option<(Instant, u64)>>,
    /// The file system has no way to reserve space.
    pub(super) cannot_reserve: AtomicBool,
    /// Bytes of chunks that have changed.
    pub(super) held: TableCharge,
    /// What is known of where chunks lie.
    pub(super) places: TableCharge,
    pub(super) clock: ShownClock,
    /// Of this mount, once that may write.
    epoch: OnceLock<Epoch>,
    /// When a file was stored last.
    stored: Mutex<Option<Instant>>,
    versions: AtomicU64,
    /// Plain bytes that were encoded, and what became of them.
    encoded: [AtomicU64; 2],
}

impl ScratchShared {
    pub(super) fn new(
        cache: Arc<BlockCache>,
        options: EncodeOptions,
        inner: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
    ) -> ScratchShared {
        ScratchShared {
            held: TableCharge::new(Arc::clone(cache.budget())),
            places: TableCharge::new(Arc::clone(cache.budget())),
            cache,
            options,
            inner,
            disk,
            free: Mutex::new(None),
            cannot_reserve: AtomicBool::new(false),
            clock: ShownClock::default(),
            epoch: OnceLock::new(),
            // The mount before may just have ended.
            stored: Mutex::new(Some(Instant::now())),
            versions: AtomicU64::new(1 << 62),
            encoded: Default::default(),
        }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.disk.is_some()
    }

    pub(super) fn disk(&self) -> Result<&dyn Disk> {
        self.disk.as_deref().ok_or(Error::ReadOnly)
    }

    pub(super) fn next_version(&self) -> VersionId {
        VersionId(self.versions.fetch_add(1, Ordering::Relaxed))
    }

    /// So much more is held, or less.
    pub(super) fn charge(&self, more: i64) {
        match more {
            0.. => self.held.add(more.unsigned_abs()),
            _ => self.held.remove(more.unsigned_abs()),
        }
    }

    /// Whether so much of the disk is free beside twice what is held. Asked for now and then.
    pub(super) fn has_free(&self, plenty: u64) -> bool {
        let mut known = self.free.lock();
        let is_fresh = |at: &Instant| at.elapsed() < SPACE_KNOWN;
        let free = match *known {
            Some((at, free)) if is_fresh(&at) => free,
            _ => {
                let space = self.inner.posix().and_then(PosixStore::space);
                let free = space.map_or(0, |space| {
                    space.available.saturating_mul(space.fragment_size.into())
                });
                *known = Some((Instant::now(), free));
                free
            }
        };
        free > plenty.saturating_add(self.held.used().saturating_mul(2))
    }

    /// Of what is written from now on.
    pub(super) fn set_epoch(&self, epoch: Epoch) {
        let _ = self.epoch.set(epoch);
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch.get().copied().unwrap_or(Epoch::NONE)
    }

    pub(super) fn note_stored(&self, at: Instant) {
        *self.stored.lock() = Some(at);
    }

    /// Some file was stored a moment ago: one that is touched now may look as if it had been that.
    pub(super) fn stored_lately(&self) -> bool {
        let stored = *self.stored.lock();
        stored.is_some_and(|at| at.elapsed() < MASKED)
    }

    /// A chunk has been encoded: its length before and after.
    pub(super) fn note_encoded(&self, plain: usize, stored: usize) {
        self.encoded[0].fetch_add(plain as u64, Ordering::Relaxed);
        self.encoded[1].fetch_add(stored as u64, Ordering::Relaxed);
    }

    /// The lengths of all these chunks together.
    pub(super) fn encoded(&self) -> [u64; 2] {
        self.encoded
            .each_ref()
            .map(|bytes| bytes.load(Ordering::Relaxed))
    }
}
