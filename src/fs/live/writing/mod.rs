//! The bytes written to the arrays of a container that are not committed yet, and how its open
//! handles show them.
//!
//! A version of a container has one stage, from the first time that an array of it is opened for
//! writing on. Handles share their shown content ([`SharedArray`]): the stored array, under the
//! layers of the stage. Whenever these change (a stage begins, a commit begins, fails or ends) all
//! of them are given the new ones while no thread reads, so that written bytes are never out of
//! sight. Used by all of `live`.

pub mod arrays;
pub mod before_close;
pub mod container;
pub mod discard;
pub mod outcome;
pub mod remembered;
pub mod replacing;
pub mod runs;
pub mod turns;
pub mod unrecovered;
pub mod writable;
pub mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::shown::entry_table::{ArrayNumber, EntryIndex};
use super::shown::open_container::OpenContainer;
use super::shown::shared_array::{SharedArray, StoredBytes, ViewHeader};
use crate::cache::BlockCache;
use crate::error::{Error, Fault, Result};
use crate::stage::{ShowLayers, Syncing, WrittenArray};
use crate::sync::Mutex;

use outcome::CommitOutcomes;
use replacing::Replacements;
use turns::CommitTurns;
use unrecovered::UnrecoveredLogs;

pub(crate) use arrays::ArrayWriting;
pub(crate) use before_close::BeforeClose;
pub(crate) use container::LayeredContainer;
pub(crate) use discard::Discarding;
pub(crate) use remembered::WrittenVersions;
pub(crate) use runs::StoredRuns;
pub(crate) use turns::CommitTurn;
pub(crate) use unrecovered::{Unrecovered, UnrecoveredLog};
pub(crate) use writable::WritableArrays;
pub(crate) use writer::ArrayWriter;

/// Of a version of a container.
#[derive(Default)]
pub(crate) struct VersionWrites {
    pub(crate) stored: StoredBytes,
    open: Mutex<HashMap<ArrayNumber, Weak<SharedArray>>>,
    views: Mutex<HashMap<ArrayNumber, Weak<ViewHeader>>>,
    /// Of files that follow from arrays: the last edition at which the kernel dropped its pages of
    /// earlier ones.
    editions: Mutex<HashMap<EntryIndex, u64>>,
    /// None before an array is opened for writing.
    now: Mutex<Option<Arc<LayeredContainer>>>,
    turns: CommitTurns,
    commits: AtomicU64,
    pub(crate) replacements: Arc<Replacements>,
    pub(crate) log: UnrecoveredLogs,
    pub(crate) outcome: CommitOutcomes,
}

impl VersionWrites {
    pub(crate) fn now(&self) -> Option<Arc<LayeredContainer>> {
        self.now.lock().clone()
    }

    /// The stage, begun by `begin` if there is none.
    pub(crate) fn begun(
        &self,
        cache: &Arc<BlockCache>,
        begin: impl FnOnce() -> Result<LayeredContainer>,
    ) -> Result<Arc<LayeredContainer>> {
        let open = self.open.lock();
        let mut now = self.now.lock();
        if let Some(container) = &*now {
            return Ok(Arc::clone(container));
        }
        let container = Arc::new(begin()?.of(&self.stored));
        container.show(&open, &container.stage.layers(), cache)?;
        *now = Some(Arc::clone(&container));
        Ok(container)
    }

    /// Another version goes on with what is staged.
    pub(crate) fn forget_stage(&self) {
        *self.now.lock() = None;
        self.outcome.note_why(None);
    }

    /// An array as the stage numbers it; its handles show bytes that are written from now on.
    pub(crate) fn stage_array(
        &self,
        container: &LayeredContainer,
        number: ArrayNumber,
        cache: &Arc<BlockCache>,
    ) -> Result<WrittenArray> {
        // One at a time: an array is added once.
        let open = self.open.lock();
        let array = container.add(number)?;
        if let Some(shared) = open.get(&number).and_then(Weak::upgrade) {
            shared.replace(container.shown(number, container.stage.layers(), cache)?);
        }
        Ok(array)
    }

    /// Has the stage change its layers, which all handles show before a write into them is
    /// answered.
    pub(crate) fn change_layers<T>(
        &self,
        container: &LayeredContainer,
        cache: &Arc<BlockCache>,
        change: impl FnOnce(ShowLayers<'_>) -> T,
    ) -> Result<T> {
        let open = self.open.lock();
        let mut shown = Ok(());
        let done = change(&mut |layers| shown = container.show(&open, layers, cache));
        shown.map(|()| done)
    }

    /// The frozen layer is staged as before.
    pub(crate) fn unfreeze(
        &self,
        container: &LayeredContainer,
        cache: &Arc<BlockCache>,
    ) -> Result<()> {
        self.change_layers(container, cache, |show| container.stage.unfreeze(show))?
    }

    /// Removes the log of a stage of which nothing is staged.
    pub(crate) fn tidy(&self, container: &LayeredContainer, cache: &Arc<BlockCache>) -> Result<()> {
        match container.stage.has_log() {
            true => self.tidy_by(container, cache, container.stage.alone_in_place()),
            false => Ok(()),
        }
    }

    /// Removes the log of a stage of which nothing is staged, unless it would have to wait: a move
    /// may wait for a lock that the caller holds.
    pub(crate) fn try_tidy(
        &self,
        container: &LayeredContainer,
        cache: &Arc<BlockCache>,
    ) -> Result<()> {
        match container.stage.try_alone_in_place() {
            Some(alone) if container.stage.has_log() => self.tidy_by(container, cache, alone),
            _ => Ok(()),
        }
    }

    fn tidy_by(
        &self,
        container: &LayeredContainer,
        cache: &Arc<BlockCache>,
        alone: Syncing<'_>,
    ) -> Result<()> {
        let tidy = |show: ShowLayers<'_>| container.stage.tidy(&alone, show);
        self.change_layers(container, cache, tidy)??;
        drop(alone);
        container.stage.sync_log()
    }

    /// Discards the stage.
    pub(crate) fn discard(
        &self,
        container: &LayeredContainer,
        cache: &Arc<BlockCache>,
    ) -> Result<()> {
        let alone = container.stage.alone_in_place();
        let discard = |show: ShowLayers<'_>| container.stage.discard(&alone, show);
        self.change_layers(container, cache, discard)??;
        drop(alone);
        container.stage.sync_log()
    }

    /// One commit at a time.
    pub(crate) fn take_turn(&self) -> CommitTurn<'_> {
        self.turns.take()
    }

    /// One commit at a time, if who waits for it is not killed meanwhile.
    pub(crate) fn wait_for_turn(&self) -> Result<CommitTurn<'_>> {
        self.turns.wait()
    }

    /// Numbers the shown content of the version: another number whenever something may have been
    /// written, thrown away or committed.
    pub(crate) fn edition(&self) -> u64 {
        let changes = self.now().map_or(0, |now| now.stage.changes());
        changes.saturating_add(self.commits.load(Ordering::Acquire))
    }

    /// The edition that the kernel's pages of a file that follows from arrays are of, at the least.
    pub(crate) fn edition_of_pages(&self, entry: EntryIndex) -> u64 {
        self.editions.lock().get(&entry).copied().unwrap_or(0)
    }

    /// A file that was opened as this edition, for which the kernel has dropped all older pages,
    /// has been closed.
    pub(crate) fn note_edition(&self, entry: EntryIndex, edition: u64) {
        if edition > 0 {
            let mut editions = self.editions.lock();
            let of_pages = editions.entry(entry).or_default();
            *of_pages = edition.max(*of_pages);
        }
    }

    pub(crate) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::AcqRel);
    }

    /// What the next version finds beside the container: a log of this one, which is kept.
    pub(crate) fn leaves(&self, path: &Path) -> Option<Unrecovered> {
        let is_staged = self.now().is_some_and(|now| !now.stage.is_clean());
        let old = || {
            let what = "somebody else has changed the container; what is staged of it is kept in its log, and `arrayfs stage` settles that";
            Unrecovered {
                why: Error::from(Fault::new(what).container(path)),
                log: UnrecoveredLog::Held,
            }
        };
        let half_done = || self.now().and_then(|now| now.half_done());
        let found = self.log.unrecovered().or_else(half_done);
        found.or_else(|| is_staged.then(old))
    }

    /// Why a log of the container, which goes by its name, would be left behind if it got another
    /// one. Changes that are in memory alone go with it.
    pub(crate) fn keeps_place(&self) -> Option<String> {
        if let Some(unrecovered) = self.log.own() {
            return Some(unrecovered.why.to_string());
        }
        self.now().filter(|now| now.stage.has_log())?;
        let why = self.outcome.why();
        Some(why.unwrap_or_else(|| "it is being written".to_owned()))
    }

    /// For the attribute of the container: none if nothing is staged.
    pub(crate) fn state(&self) -> Option<String> {
        if let Some(unrecovered) = self.log.own() {
            return Some(format!("staged: {}", unrecovered.why));
        }
        match self.now().filter(|now| !now.stage.is_clean()) {
            Some(_) => Some(match self.outcome.why() {
                Some(why) => format!("staged: {why}"),
                None => "staged: it is being written".to_owned(),
            }),
            None => {
                let is_read = self.log.is_read_through() && self.now().is_none();
                is_read.then(|| "staged: its log is read, and left as it is".to_owned())
            }
        }
    }

    /// An array as all handles share it.
    pub(crate) fn share(
        &self,
        number: ArrayNumber,
        opened: &Arc<OpenContainer>,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<SharedArray>> {
        let mut open = self.open.lock();
        if let Some(shared) = open.get(&number).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let shown = match self.now() {
            Some(container) => container.shown(number, container.stage.layers(), cache)?,
            None => opened.cached_array(number, Arc::from([]), cache)?,
        };
        let shared = SharedArray::new(shown, self.stored.clone());
        open.retain(|_, shared| shared.strong_count() > 0);
        open.insert(number, Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Sets the header that all handles of an array's view have before its bytes.
    pub(crate) fn view_header(&self, number: ArrayNumber, bytes: Vec<u8>) -> Arc<ViewHeader> {
        let mut views = self.views.lock();
        if let Some(header) = views.get(&number).and_then(Weak::upgrade) {
            header.set(bytes);
            return header;
        }
        let header = ViewHeader::new(bytes);
        views.retain(|_, header| header.strong_count() > 0);
        views.insert(number, Arc::downgrade(&header));
        header
    }

    /// Has all handles show the stored arrays, where nothing is staged.
    pub(crate) fn show_stored(
        &self,
        opened: &OpenContainer,
        cache: &Arc<BlockCache>,
    ) -> Result<()> {
        for (number, shared) in self.open.lock().iter() {
            if let Some(shared) = shared.upgrade() {
                shared.replace(opened.cached_array(*number, Arc::from([]), cache)?);
            }
        }
        Ok(())
    }

    /// Has all handles show the stored and staged bytes of now.
    pub(crate) fn show(&self, cache: &Arc<BlockCache>) -> Result<()> {
        let open = self.open.lock();
        match self.now() {
            Some(container) => container.show(&open, &container.stage.layers(), cache),
            None => Ok(()),
        }
    }
}
