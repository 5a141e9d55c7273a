//! The files of a scratch mount that are open, or of which something is not stored yet.
//!
//! Held chunks are charged to the mount's budget as a table, which is never refused; so programs
//! that write faster than the disk are held up here: who would hold more than a part of the budget
//! flushes first. Uses [`super::flush`]; used by all that opens or changes files.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use rustix::process::{Resource, getrlimit};

use super::file::ScratchFile;
use super::shared::ScratchShared;
use super::snapshot::FlushExtent;
use crate::error::Result;
use crate::processors::processors;
use crate::source::FileId;
use crate::sync::Mutex;
use crate::workers::WorkerThreads;

/// So much of a file that is written as it comes is flushed at once.
const STREAM: u64 = 8 << 20;

/// Files that are stored at once where too many are open.
const STORED_AT_ONCE: usize = 16;

pub(super) struct ScratchFiles {
    pub(super) shared: Arc<ScratchShared>,
    held_most: u64,
    known: Mutex<HashMap<FileId, Weak<ScratchFile>>>,
    changed: Mutex<HashMap<FileId, Arc<ScratchFile>>>,
    encoders: Option<WorkerThreads>,
    /// Files with something to be stored at most, as far as that can be.
    open_most: usize,
}

impl ScratchFiles {
    pub(super) fn new(shared: ScratchShared) -> ScratchFiles {
        let encoders = || WorkerThreads::as_many("flush", processors(), processors());
        ScratchFiles {
            held_most: shared.cache.limit() / 4,
            encoders: shared.is_writable().then(encoders),
            shared: Arc::new(shared),
            known: Mutex::default(),
            changed: Mutex::default(),
            open_most: most_open(),
        }
    }

    /// The file, if it is open or has something to be stored.
    pub(super) fn find(&self, id: FileId) -> Option<Arc<ScratchFile>> {
        self.known.lock().get(&id).and_then(Weak::upgrade)
    }

    /// One that has just been opened; the one that others have, if there is one.
    pub(super) fn share(&self, file: ScratchFile) -> Arc<ScratchFile> {
        let mut files = self.known.lock();
        let known = files.get(&file.id).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.is_current(file.opened)) {
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

    /// It has something to be stored.
    pub(super) fn note_changed(&self, file: &Arc<ScratchFile>) {
        let mut changed = self.changed.lock();
        changed.entry(file.id).or_insert_with(|| Arc::clone(file));
    }

    pub(super) fn changed_files(&self) -> Vec<Arc<ScratchFile>> {
        self.changed.lock().values().cloned().collect()
    }

    /// Nobody can read it any more.
    pub(super) fn forget(&self, file: &ScratchFile) {
        self.changed.lock().remove(&file.id);
    }

    /// Stores a file, which is known no longer then if nobody has it open.
    pub(super) fn settle_one(&self, file: &Arc<ScratchFile>, extent: FlushExtent) -> Result<()> {
        file.flush(extent)?;
        if !file.is_open() {
            let mut changed = self.changed.lock();
            // One that is being changed is noted again after that.
            if file.has_all_stored() {
                changed.remove(&file.id);
            }
        }
        Ok(())
    }

    /// To be called before so much is written to a file: waits while too much is held.
    pub(super) fn limit_held(&self, file: &Arc<ScratchFile>, bytes: u64) -> Result<()> {
        let held = &self.shared.held;
        let fits = || held.used().saturating_add(bytes) <= self.held_most;
        if fits() {
            return Ok(());
        }
        file.check_space()?;
        file.flush(FlushExtent::of_writer(file))?;
        for other in self.changed_files() {
            if fits() {
                return Ok(());
            }
            // One that is just being stored may take long, and who writes to it waits for it.
            if !other.is_being_stored()
                && other.check_space().is_ok()
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
        let is_in_vain = || file.check_space().is_err();
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
        let threads = self.encoders.as_ref();
        if !threads.is_some_and(|threads| threads.order(work)) {
            file.is_ordered.store(false, Ordering::Release);
        }
    }

    /// Each file that has something to be stored is open: before there are too many, some are
    /// stored by who makes more.
    pub(super) fn limit_open(&self) {
        if self.changed.lock().len() < self.open_most {
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
}

/// A quarter of the descriptors that the process may have.
fn most_open() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
}
