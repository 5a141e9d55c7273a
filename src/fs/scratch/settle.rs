//! Storing everything: when a command asks for it, and at the end of a mount.
//!
//! What cannot be merged for want of space may still be logged; a file of which nothing was ever
//! synced has no log, so what is told of it needs free space. Where only what is cheap is to
//! be merged, the rest has its log, which the next mount reads. Uses [`super::store`] and
//! [`super::recovery`]; used by [`super::disk`], for the tree and for [`super::mount`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::file::ScratchFile;
use super::files::ScratchFiles;
use super::recovery;
use super::snapshot::FlushExtent;
use super::store::ScratchStore;
use crate::disk::{HeldBack, Settling};
use crate::error::{Error, Result};
use crate::source::FileId;

/// What could not be put where it belongs when everything was to be, and why.
#[derive(Default, Clone)]
pub(super) struct Unsettled {
    /// It is nowhere else.
    failed: Vec<(PathBuf, Error)>,
    /// It is in the file's log.
    unmerged: Vec<(PathBuf, Error)>,
}

/// Stores one file, or all of them.
pub(super) fn settle(store: &ScratchStore, one: Option<FileId>, how: Settling) -> Unsettled {
    let mut unsettled = Unsettled::default();
    let merges_old = one.is_none() && how == Settling::Everything;
    if merges_old && store.has_old_logs.swap(false, Ordering::AcqRel) {
        unsettled.unmerged = recovery::merge_logs(store);
        store
            .has_old_logs
            .fetch_or(!unsettled.unmerged.is_empty(), Ordering::AcqRel);
    }
    let extent = match how {
        Settling::Everything => FlushExtent::All,
        Settling::IfCheap => FlushExtent::IfCheap,
    };
    let files = store.files.changed_files().into_iter();
    for file in files.filter(|file| one.is_none_or(|one| one == file.id)) {
        if let Err(e) = store.files.settle_one(&file, extent) {
            unsettled.log_instead(&file, e);
        }
    }
    unsettled
}

impl Unsettled {
    /// And what could not be put where it belongs of another file.
    pub(super) fn add(&mut self, other: Unsettled) {
        self.failed.extend(other.failed);
        self.unmerged.extend(other.unmerged);
    }

    /// A file that could not be stored has everything in its log at least, if it can have one.
    fn log_instead(&mut self, file: &Arc<ScratchFile>, e: Error) {
        let path = file.path.clone();
        match log_all(file) {
            Some(Ok(())) => self.unmerged.push((path, e)),
            logged => {
                let e = logged.and_then(Result::err).unwrap_or(e);
                log::error!("{}: not all of it is stored: {e}", path.display());
                self.failed.push((path, e));
            }
        }
    }

    pub(super) fn held_back(self, files: &ScratchFiles) -> HeldBack {
        let mut held = HeldBack {
            failed: self.failed,
            unmerged: self.unmerged,
            encoded: files.shared.encoded(),
            ..HeldBack::default()
        };
        for file in files.changed_files() {
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

/// Has everything of a file in its log, which the next mount reads; none if it can have none.
fn log_all(file: &ScratchFile) -> Option<Result<()>> {
    if file.is_unsynced() {
        return None;
    }
    // It is this one that is just being dealt with.
    let _ = file.take_failure();
    let synced = file.sync(true);
    file.is_deferred.store(synced.is_ok(), Ordering::Relaxed);
    Some(synced)
}
