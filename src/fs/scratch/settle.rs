//! Storing everything: when a command asks for it, and at the end of a mount.
//!
//! What cannot be merged for want of room may still be logged; a file of which nothing was ever
//! synced has no log, so what is told of it has to be made room for. Where only what is cheap is to
//! be merged, the rest has its log, which the next mount reads. Used by [`super::disk`] for the
//! tree, by [`super::ScratchMount`], and file by file by [`super::room`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::disk::ScratchDisk;
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::recovery;
use super::room::ScratchRoom;
use crate::disk::{HeldBack, Settling};
use crate::error::{Error, Result};
use crate::source::FileId;
use crate::sync::MutexGuard;

/// What could not be put where it belongs when everything was to be, and why.
#[derive(Default)]
pub(super) struct Unsettled {
    /// It is nowhere else.
    failed: Vec<(PathBuf, Error)>,
    /// It is in the file's log.
    unmerged: Vec<(PathBuf, Error)>,
}

impl ScratchDisk {
    /// Stores one file, or all of them.
    pub(super) fn settle_all(&self, one: Option<FileId>, how: Settling) {
        let room = &self.store.room;
        let mut unsettled = Unsettled::default();
        let merges_old = one.is_none() && how == Settling::Everything;
        if merges_old && room.has_old_logs.swap(false, Ordering::AcqRel) {
            unsettled.unmerged = recovery::merge_logs(self);
            room.has_old_logs
                .fetch_or(!unsettled.unmerged.is_empty(), Ordering::AcqRel);
        }
        let files = room.changed_files().into_iter();
        for file in files.filter(|file| one.is_none_or(|one| one == file.id)) {
            room.settle_or_log(&file, how, &mut unsettled);
        }
        let mut known = room.unsettled();
        match one {
            None => *known = unsettled,
            // Of the others nothing new is known.
            Some(_) => {
                known.failed.extend(unsettled.failed);
                known.unmerged.extend(unsettled.unmerged);
            }
        }
    }
}

impl ScratchRoom {
    fn unsettled(&self) -> MutexGuard<'_, Unsettled> {
        self.unsettled.lock()
    }

    fn settle_or_log(&self, file: &Arc<ScratchFile>, how: Settling, unsettled: &mut Unsettled) {
        let extent = match how {
            Settling::Everything => FlushExtent::All,
            Settling::IfCheap => FlushExtent::IfCheap,
        };
        let Err(e) = self.settle_one(file, extent) else {
            return;
        };
        let path = file.path.clone();
        match self.log_instead(file) {
            Some(Ok(())) => unsettled.unmerged.push((path, e)),
            logged => {
                let e = logged.and_then(Result::err).unwrap_or(e);
                log::error!("{}: not all of it is stored: {e}", path.display());
                unsettled.failed.push((path, e));
            }
        }
    }

    /// Has everything of a file in its log, which the next mount reads; none if it can have none.
    fn log_instead(&self, file: &ScratchFile) -> Option<Result<()>> {
        if file.is_unsynced() {
            return None;
        }
        // It is this one that is just being dealt with.
        let _ = file.take_failure();
        let synced = file.sync(true);
        file.is_deferred.store(synced.is_ok(), Ordering::Relaxed);
        Some(synced)
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
        let unsettled = self.unsettled();
        let mut held = HeldBack {
            failed: unsettled.failed.clone(),
            unmerged: unsettled.unmerged.clone(),
            encoded: self.encoded(),
            ..HeldBack::default()
        };
        drop(unsettled);
        for file in self.changed_files() {
            // One that is just being merged is looked at when that is done.
            let Some(bytes) = file.held_back() else {
                held.files += 1;
                continue;
            };
            if bytes > 0 {
                (held.files, held.bytes) = (held.files + 1, held.bytes.saturating_add(bytes));
            }
            let is_told = || held.unmerged.iter().any(|(path, _)| *path == file.path);
            if bytes > 0 && file.is_deferred.load(Ordering::Relaxed) && !is_told() {
                held.logged.push(file.path.clone());
            }
        }
        held
    }
}
