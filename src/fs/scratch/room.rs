//! What all files of a scratch mount share: memory, threads, and which of them are open or have
//! something that is not stored yet.
//!
//! Held chunks are charged to the mount's budget as a table, which is never refused; so programs
//! that write faster than the disk are held up here: who would hold more than a part of the budget
//! flushes first. What was closed a moment ago, and what has been open and changed for long, is
//! stored by threads of its own ([`super::due`]). Used by [`super::store`] and [`super::disk`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use super::due::{DueFiles, look_after};
use super::encode::EncodeOptions;
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::mark::Epoch;
use super::raw::RawFiles;
use super::settle::Unsettled;
use super::times::ShownClock;
use crate::cache::{BlockCache, VersionId};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::memory::budget::TableCharge;
use crate::source::{FileId, PosixStore, Store};
use crate::sync::{Mutex, MutexGuard};
use crate::workers::WorkerThreads;

/// How long the room left on the disk is taken for what it was.
const SPACE_KNOWN: Duration = Duration::from_millis(200);

/// So much of a file that is written as it comes is flushed at once.
const STREAM: u64 = 8 << 20;

/// Files that are stored at once where too many are open.
const STORED_AT_ONCE: usize = 16;

/// What is touched so soon after it was stored could pass for not touched: more than a few stamps.
const MASKED: Duration = Duration::from_millis(500);

pub struct ScratchRoom {
    pub(super) cache: Arc<BlockCache>,
    pub(super) options: EncodeOptions,
    /// What the stored files are changed through; none where they are only read.
    pub(super) disk: Option<Arc<dyn Disk>>,
    inner: Arc<dyn Store>,
    space: Mutex<Option<(Instant, u64)>>,
    /// The file system has no way to reserve room.
    pub(super) cannot_reserve: AtomicBool,
    held: TableCharge,
    /// What is known of where chunks lie.
    pub(super) places: TableCharge,
    held_most: u64,
    pub(super) raw_files: RawFiles,
    files: Mutex<HashMap<FileId, Weak<ScratchFile>>>,
    changed: Mutex<HashMap<FileId, Arc<ScratchFile>>>,
    pub(super) due: DueFiles,
    pub(super) clock: ShownClock,
    /// Of this mount, once that may write.
    epoch: OnceLock<Epoch>,
    /// When a file was stored last.
    settled: Mutex<Option<Instant>>,
    versions: AtomicU64,
    /// Plain bytes that were encoded, and what became of them.
    encoded: [AtomicU64; 2],
    encoders: Option<WorkerThreads>,
    /// Files have logs from before this mount, which are not to be merged yet.
    pub(super) has_old_logs: AtomicBool,
    pub(super) unsettled: Mutex<Unsettled>,
    /// Files with something to be stored at most, as far as that can be.
    open_most: usize,
}

impl ScratchRoom {
    /// A chunk has been encoded: its length before and after.
    pub(super) fn note_encoded(&self, plain: usize, stored: usize) {
        self.encoded[0].fetch_add(plain as u64, Ordering::Relaxed);
        self.encoded[1].fetch_add(stored as u64, Ordering::Relaxed);
    }

    /// All of these together.
    pub(super) fn encoded(&self) -> [u64; 2] {
        self.encoded
            .each_ref()
            .map(|bytes| bytes.load(Ordering::Relaxed))
    }

    pub(super) fn new(
        cache: Arc<BlockCache>,
        options: EncodeOptions,
        inner: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
    ) -> Arc<ScratchRoom> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let is_writable = disk.is_some();
        let room = Arc::new(ScratchRoom {
            held: TableCharge::new(Arc::clone(cache.budget())),
            places: TableCharge::new(Arc::clone(cache.budget())),
            held_most: cache.limit() / 4,
            cache,
            options,
            disk,
            inner,
            space: Mutex::new(None),
            cannot_reserve: AtomicBool::new(false),
            raw_files: RawFiles::default(),
            files: Mutex::default(),
            changed: Mutex::default(),
            due: DueFiles::default(),
            clock: ShownClock::default(),
            epoch: OnceLock::new(),
            // The mount before may just have ended.
            settled: Mutex::new(Some(Instant::now())),
            versions: AtomicU64::new(1 << 62),
            encoded: Default::default(),
            open_most: most_open(),
            has_old_logs: AtomicBool::new(false),
            unsettled: Mutex::default(),
            encoders: is_writable.then(|| WorkerThreads::as_many("flush", cores, cores)),
        });
        if is_writable {
            let of = Arc::downgrade(&room);
            let thread = std::thread::Builder::new().name("scratch".into());
            if let Err(e) = thread.spawn(move || look_after(&of)) {
                log::error!("files are stored at fsync and unmount alone: no thread: {e}");
            }
        }
        room
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

    fn files(&self) -> MutexGuard<'_, HashMap<FileId, Weak<ScratchFile>>> {
        self.files.lock()
    }

    pub(super) fn changed(&self) -> MutexGuard<'_, HashMap<FileId, Arc<ScratchFile>>> {
        self.changed.lock()
    }

    /// The file, if it is open or has something to be stored.
    pub(super) fn find(&self, id: FileId) -> Option<Arc<ScratchFile>> {
        self.files().get(&id).and_then(Weak::upgrade)
    }

    /// One that has just been opened; the one that others have, if there is one.
    pub(super) fn share(&self, file: ScratchFile) -> Arc<ScratchFile> {
        let mut files = self.files();
        let known = files.get(&file.id).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.is_same_version(&file)) {
            drop(files);
            return known;
        }
        let file = Arc::new(file);
        if files.len() >= 1024 && files.len().is_power_of_two() {
            files.retain(|_, file| file.strong_count() > 0);
        }
        files.insert(file.id, Arc::downgrade(&file));
        file
    }

    /// Whether so much room is left on the disk beside twice what is held. Asked for now and then.
    pub(super) fn has_plenty(&self, plenty: u64) -> bool {
        let mut known = self.space.lock();
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

    /// It has something to be stored.
    pub(super) fn note_changed(&self, file: &Arc<ScratchFile>) {
        self.changed()
            .entry(file.id)
            .or_insert_with(|| Arc::clone(file));
    }

    pub(super) fn changed_files(&self) -> Vec<Arc<ScratchFile>> {
        self.changed().values().cloned().collect()
    }

    /// Of what is written from now on.
    pub(super) fn set_epoch(&self, epoch: Epoch) {
        let _ = self.epoch.set(epoch);
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch.get().copied().unwrap_or(Epoch::NONE)
    }

    pub(super) fn note_settled(&self, at: Instant) {
        *self.settled.lock() = Some(at);
    }

    /// Some file was stored a moment ago: one that is touched now may look as if it had been that.
    pub(super) fn settled_lately(&self) -> bool {
        let settled = *self.settled.lock();
        settled.is_some_and(|at| at.elapsed() < MASKED)
    }

    /// To be called before so much is written to a file: waits while too much is held.
    pub(super) fn make_room(&self, file: &Arc<ScratchFile>, bytes: u64) -> Result<()> {
        if self.held.used().saturating_add(bytes) <= self.held_most {
            return Ok(());
        }
        file.check_room()?;
        file.flush(FlushExtent::of_writer(file))?;
        for other in self.changed_files() {
            if self.held.used().saturating_add(bytes) <= self.held_most {
                return Ok(());
            }
            // One that is just being stored may take long, and who writes to it waits for it.
            if !other.is_being_stored()
                && other.check_room().is_ok()
                && let Err(e) = other.flush(FlushExtent::All)
            {
                other.note_failure(&e);
            }
        }
        // What is left are ends of chunks: more than is to be held, but not much.
        Ok(())
    }

    /// A file has been written to: what is enough for a flush is given to a thread.
    pub(super) fn order(&self, file: &Arc<ScratchFile>, held: u64) {
        let enough = match file.streams.load(Ordering::Relaxed) {
            true => STREAM.min(self.held_most / 4),
            false => self.held_most / 2,
        };
        let is_in_vain = || file.check_room().is_err();
        if held < enough || is_in_vain() || file.is_ordered.swap(true, Ordering::AcqRel) {
            return;
        }
        let extent = FlushExtent::of_writer(file);
        let ordered = Arc::clone(file);
        let work = move || {
            ordered.is_ordered.store(false, Ordering::Release);
            if let Err(e) = ordered.flush(extent) {
                log::error!("{}", e.told_of(&ordered.path, ""));
                ordered.note_failure(&e);
            }
        };
        if !self
            .encoders
            .as_ref()
            .is_some_and(|threads| threads.order(work))
        {
            file.is_ordered.store(false, Ordering::Release);
        }
    }

    /// Each file that has something to be stored is open: before there are too many, some are
    /// stored by who makes more.
    pub(super) fn limit_open(&self) {
        if self.changed().len() < self.open_most {
            return;
        }
        let closed = self
            .changed_files()
            .into_iter()
            .filter(|file| !file.is_open() && !file.is_being_stored());
        for file in closed.take(STORED_AT_ONCE) {
            if let Err(e) = self.settle_one(&file, FlushExtent::IfCheap) {
                file.note_failure(&e);
            }
        }
    }

    /// Nobody can read it any more.
    pub(super) fn forget(&self, file: &ScratchFile) {
        self.changed().remove(&file.id);
    }
}

/// A quarter of the descriptors that the process may have.
fn most_open() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
}
