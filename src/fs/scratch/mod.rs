//! Scratch mode: a directory whose files are stored compressed, without the programs that use it
//! knowing.
//!
//! It lies between `tree` and the local source, and has the same traits: [`ScratchStore`] shows
//! stored files as what they hold, [`ScratchDisk`] changes them. Each regular file is one Bloscpack
//! file, which keeps its inode for life; so hard links, open unlinked files, owners and quotas are
//! the source's own.
//!
//! The way of a write: [`handles`] checks it and has room reserved ([`reserve`]), [`content`] holds
//! it in chunks ([`copy`] takes whole ones from another file), [`room`], [`due`] and [`settle`] say
//! when it is stored, [`flush`] has it taken and encoded ([`snapshot`], [`encode`]), laid out
//! ([`merge`], in [`pieces`] and [`places`]) and written, at once or by a [`redo`]; [`logging`] is
//! what an fsync costs, [`tail`] how both look, [`at_rest`] and [`mark`] the end of a file that has
//! neither. The way of a read: [`replay`] of what [`overlay`] finds in a log, [`content`], then the
//! cache, then [`base`]. [`times`] are those that programs see. [`names`] and [`find`] know how
//! names are stored, [`renaming`] replaces one kind by another, [`raw`] is what lay there before.
//! [`recovery`] knows what a crash leaves, [`relaid`] and [`logged`] show that to those who only
//! read, and [`convert`] makes a store of a directory, and a directory of a store.
//!
//! Assumes that no other daemon writes to the store (`cli::writing`). Used by `cli::mount`.

mod append;
mod at_rest;
mod base;
mod bytes;
mod content;
mod convert;
mod copy;
mod disk;
mod due;
mod each_file;
mod encode;
mod file;
mod find;
mod flush;
#[doc(hidden)]
pub mod fuzzed;
mod handles;
mod holes;
mod logged;
mod logging;
mod mark;
mod merge;
mod names;
mod overlay;
mod pieces;
mod places;
mod raw;
mod recovery;
mod redo;
mod relaid;
mod renaming;
mod replay;
mod reserve;
mod room;
mod settle;
mod snapshot;
mod store;
mod store_mark;
mod tail;
#[cfg(test)]
mod tests;
mod times;

#[doc(hidden)]
pub use convert::fuzzed::conversion as convert_log;
pub use convert::{ConvertDirection, ConvertWatch, Converted, convert, is_being_converted};
pub use encode::EncodeOptions;
pub use relaid::read_through_log;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cache::BlockCache;
use crate::disk::{Disk, HeldBack, Settling};
use crate::error::{Error, Result};
use crate::memory::limit::default_limit;
use crate::source::{Source, Store};
use disk::ScratchDisk;
use mark::Epoch;
use room::ScratchRoom;
use store::ScratchStore;
use store_mark::{LeftStore, OldLogs, StoreMark};

/// What is said of a file of which a merge would move very much.
pub const STAYS_LOGGED: &str =
    "its latest changes stay in its log for now: merging them would move very much";

/// What is said of a file that could not be merged.
pub const UNMERGED: &str = "its latest changes are safe, and stay in its log";

/// A store that is mounted for scratch.
pub struct ScratchMount {
    store: Arc<ScratchStore>,
    disk: Option<(Arc<ScratchDisk>, StoreMark)>,
    /// Whether nothing is left of an earlier crash.
    is_whole: bool,
}

/// Bytes of the log that a stored file has; none if it has none.
pub fn left_log(source: &dyn Source) -> Result<Option<u64>> {
    recovery::left_log(source, EncodeOptions::default().chunk_size)
}

/// Merges a stored file's log. Nobody else may write to the store.
pub fn merge_log(store: Arc<dyn Store>, disk: Arc<dyn Disk>, path: &Path) -> Result<()> {
    let cache = BlockCache::new(default_limit());
    let options = EncodeOptions::default();
    let room = ScratchRoom::new(cache, options, Arc::clone(&store), Some(Arc::clone(&disk)));
    let store = Arc::new(ScratchStore { inner: store, room });
    let disk = ScratchDisk { store, inner: disk };
    recovery::merge_log(&disk, path)
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
        let room = ScratchRoom::new(cache, options, Arc::clone(&inner), disk.clone());
        let store = Arc::new(ScratchStore { inner, room });
        let Some(inner) = disk else {
            // The mark may be one that only another user reads.
            if let Err(e @ Error::NotShown(_)) = LeftStore::read(&*store.inner) {
                return Err(e);
            }
            return Ok(ScratchMount {
                store,
                disk: None,
                is_whole: true,
            });
        };
        let disk = Arc::new(ScratchDisk {
            store: Arc::clone(&store),
            inner,
        });
        let (mark, mut left) = StoreMark::open(&disk)?;
        let room = &disk.store.room;
        let has_old_logs = &room.has_old_logs;
        has_old_logs.store(left.logs == OldLogs::Some, Ordering::Release);
        let is_whole = left.is_clean || recovery::recover(&disk, &left.epochs);
        left.logs = OldLogs::of(has_old_logs.load(Ordering::Acquire));
        let epoch = Epoch::random();
        mark.begin(&*disk.inner, &left, epoch)?;
        room.set_epoch(epoch);
        Ok(ScratchMount {
            store,
            disk: Some((disk, mark)),
            is_whole,
        })
    }

    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.as_ref().map(|(disk, _)| Arc::clone(disk) as _)
    }

    /// Stores what is cheap to store, and logs the rest. Returns what is held back then.
    pub fn settle(&self) -> HeldBack {
        if let Some((disk, _)) = &self.disk {
            disk.settle(None, Settling::IfCheap);
        }
        self.store.room.held_back()
    }

    /// Everything has been stored or logged, and has reached the disk.
    pub fn end(&self) -> Result<()> {
        let Some((disk, mark)) = self.disk.as_ref().filter(|_| self.is_whole) else {
            return Ok(());
        };
        let held = self.store.room.held_back();
        let has_logs = self.store.room.has_old_logs.load(Ordering::Acquire)
            || !held.logged.is_empty()
            || !held.unmerged.is_empty();
        let logs = OldLogs::of(has_logs);
        mark.end(&*disk.inner, logs)
    }
}
