//! Storing everything: when a command asks for it, and at the end of a mount.
//!
//! What cannot be merged for want of room may still be logged; a file of which nothing was ever
//! synced has no log, so what is told of it has to be made room for. Where only what is cheap is to
//! be merged, the rest has its log, which the next mount reads. Used by [`super::disk`] for the
//! tree, by [`super::ScratchMount`], and file by file by [`super::room`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::disk::ScratchDisk;
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::recovery;
use super::room::ScratchRoom;
use crate::disk::{HeldBack, Settling};
use crate::error::Result;
use crate::source::FileId;

impl ScratchDisk {
    /// Stores one file, or all of them.
    pub(super) fn settle_all(&self, one: Option<FileId>, how: Settling) {
        let room = &self.store.room;
        let mut failed = Vec::new();
        let merges_old = one.is_none() && how == Settling::Everything;
        if merges_old && room.has_old_logs.swap(false, Ordering::AcqRel) {
            failed = recovery::merge_logs(self);
            room.has_old_logs
                .fetch_or(!failed.is_empty(), Ordering::AcqRel);
        }
        let files = room.changed_files().into_iter();
        for file in files.filter(|file| one.is_none_or(|one| one == file.id)) {
            if let Err(e) = room.settle_or_log(&file, how) {
                log::error!("{}: not all of it is stored: {e}", file.path.display());
                failed.push((file.path.clone(), e));
            }
        }
        let mut known = room.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match one {
            None => *known = failed,
            // Of the others nothing new is known.
            Some(_) => known.extend(failed),
        }
    }
}

impl ScratchRoom {
    fn settle_or_log(&self, file: &Arc<ScratchFile>, how: Settling) -> Result<()> {
        let extent = match how {
            Settling::Everything => FlushExtent::All,
            Settling::IfCheap => FlushExtent::IfCheap,
        };
        let settled = self.settle_one(file, extent);
        settled.or_else(|e| {
            if file.is_unsynced() {
                return Err(e);
            }
            // It is this one that is just being dealt with.
            let _ = file.take_failure();
            file.sync(true)?;
            file.is_deferred.store(true, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Stores a file, which is known no longer then if nobody has it open.
    pub(super) fn settle_one(&self, file: &Arc<ScratchFile>, extent: FlushExtent) -> Result<()> {
        file.flush(extent)?;
        if !file.is_open() {
            let mut changed = self.changed();
            // One that is being changed is noted again after that.
            if file.has_all_stored() {
                changed.remove(&file.id);
            }
        }
        Ok(())
    }

    pub(super) fn held_back(&self) -> HeldBack {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = HeldBack {
            failed: failed.clone(),
            encoded: self.encoded(),
            ..HeldBack::default()
        };
        drop(failed);
        for file in self.changed_files() {
            // One that is just being merged is looked at when that is done.
            let Some(bytes) = file.held_back() else {
                held.files += 1;
                continue;
            };
            if bytes > 0 {
                (held.files, held.bytes) = (held.files + 1, held.bytes.saturating_add(bytes));
            }
            if bytes > 0 && file.is_deferred.load(Ordering::Relaxed) {
                held.logged.push(file.path.clone());
            }
        }
        held
    }
}
