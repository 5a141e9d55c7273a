//! A store that is mounted for scratch, and what commands do with a stored file's log.
//!
//! Uses what [`super`] lists below it; used by `cli` and [`super::convert`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::disk::ScratchDisk;
use super::due::DueFiles;
use super::encode::EncodeOptions;
use super::mark::Epoch;
use super::recovery;
use super::store::ScratchStore;
use super::store_mark::{LeftStore, StoreMark};
use crate::cache::BlockCache;
use crate::disk::{Disk, HeldBack, Settling};
use crate::error::{Error, Result};
use crate::memory::limit::default_limit;
use crate::source::Store;

/// What is said of a file of which a merge would move very much.
pub const STAYS_LOGGED: &str =
    "its latest changes stay in its log for now: merging them would move very much";

/// What is said of a file that could not be merged.
pub const UNMERGED: &str = "its latest changes are safe, and stay in its log";

/// A store that is mounted for scratch.
pub struct ScratchMount {
    pub(super) store: Arc<ScratchStore>,
    changing: Option<ChangingMount>,
}

/// One that may be changed.
struct ChangingMount {
    disk: Arc<ScratchDisk>,
    mark: StoreMark,
    /// Whether nothing is left of an earlier crash.
    is_whole: bool,
    /// Stores what nobody waits for, as long as the mount is there.
    _due: Arc<DueFiles>,
}

/// Merges a stored file's log. Nobody else may write to the store.
pub fn merge_log(store: Arc<dyn Store>, disk: Arc<dyn Disk>, path: &Path) -> Result<()> {
    let cache = BlockCache::new(default_limit());
    let store = ScratchStore::new(cache, EncodeOptions::default(), store, Some(disk));
    recovery::merge_log(&store, path)
}

impl ScratchMount {
    /// Over a directory; `disk`: what it is changed through, if it may be. Recovers first what a
    /// crash has left.
    pub fn new(
        inner: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        cache: Arc<BlockCache>,
        options: EncodeOptions,
    ) -> Result<ScratchMount> {
        let store = Arc::new(ScratchStore::new(cache, options, inner, disk.clone()));
        let changing = match disk {
            Some(disk) => Some(ChangingMount::begin(&store, disk)?),
            None => {
                // The mark may be one that only another user reads.
                if let Err(e @ Error::NotShown(_)) = LeftStore::read(store.inner()) {
                    return Err(e);
                }
                None
            }
        };
        Ok(ScratchMount { store, changing })
    }

    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        let changing = self.changing.as_ref();
        changing.map(|changing| Arc::clone(&changing.disk) as _)
    }

    /// Stores what is cheap to store, and logs the rest. Returns what is held back then.
    pub fn settle(&self) -> HeldBack {
        let settled = self.changing.as_ref().and_then(|changing| {
            changing.disk.settle(None, Settling::IfCheap);
            changing.disk.held_back()
        });
        settled.unwrap_or_default()
    }

    /// Everything has been stored or logged, and has reached the disk.
    pub fn end(&self) -> Result<()> {
        let changing = self.changing.as_ref();
        let Some(changing) = changing.filter(|changing| changing.is_whole) else {
            return Ok(());
        };
        let held = changing.disk.held_back().unwrap_or_default();
        let has_logs = self.store.has_old_logs.load(Ordering::Acquire)
            || !held.logged.is_empty()
            || !held.unmerged.is_empty();
        changing.mark.end(self.store.disk()?, has_logs)
    }
}

impl ChangingMount {
    fn begin(store: &Arc<ScratchStore>, inner: Arc<dyn Disk>) -> Result<ChangingMount> {
        let (mark, mut left) = StoreMark::open(store)?;
        let has_old_logs = &store.has_old_logs;
        has_old_logs.store(left.has_logs, Ordering::Release);
        let is_whole = left.is_clean || recovery::recover(store, &left.epochs);
        left.has_logs = has_old_logs.load(Ordering::Acquire);
        let epoch = Epoch::random();
        mark.begin(&*inner, &left, epoch)?;
        store.files.shared.set_epoch(epoch);
        Ok(ChangingMount {
            disk: Arc::new(ScratchDisk::new(Arc::clone(store), inner)),
            mark,
            is_whole,
            _due: DueFiles::of(&store.files),
        })
    }
}
