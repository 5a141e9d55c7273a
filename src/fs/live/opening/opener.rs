//! Opening a version when it is first looked into.
//!
//! A bounded number stays open; the others are opened again when they are wanted, if the source
//! still holds them. Used by all of `live`, and by `tree`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::open_cache::OpenCache;
use super::pinned::pinned;
use crate::commit::through_log::open_through;
use crate::container::StillStored;
use crate::error::{Error, Result};
use crate::live::ground::Ground;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::live::versions::Versions;
use crate::memory::budget::Reclaim;
use crate::memory::{is_short, no_memory};
use crate::sync::{Mutex, MutexGuard};

/// The state of opening a version's container, from its beginning to its end.
#[derive(Default)]
pub(crate) struct VersionOpening {
    opened: Mutex<OpenedAs>,
    /// The source holds another one, or it cannot be found any more: it is not kept open for its
    /// own sake.
    retired: AtomicBool,
}

/// The container that a version was opened as.
#[derive(Default)]
struct OpenedAs {
    opened: Weak<OpenContainer>,
    /// Opened with a fault that may pass, and when to try again: kept open until then, because it
    /// might have other entries.
    passing: Option<(Arc<OpenContainer>, Instant)>,
    /// Opened with faults, of whatever kind.
    damaged: bool,
    /// There was no memory to open it, and when to try again: to find that out may take long, and a
    /// listing of its directory comes back for every entry.
    refused: Option<(Error, Instant)>,
}

/// How long opening is not tried again after there was no memory for it.
const REFUSED_FOR: Duration = Duration::from_secs(5);

impl OpenedAs {
    /// The error with which it is still refused.
    fn refusal(&self, now: Instant) -> Option<Error> {
        let (error, until) = self.refused.as_ref()?;
        (now < *until).then(|| error.clone())
    }

    /// Passes on the result of opening it, and remembers a refusal.
    fn note<T>(&mut self, opened: Result<T>, now: Instant) -> Result<T> {
        let refused = opened.as_ref().err().filter(|e| e.is_no_memory());
        self.refused = refused.map(|e| (e.clone(), now + REFUSED_FOR));
        opened
    }
}

impl VersionOpening {
    /// Whether it was opened with a fault that may have passed by now. False while a thread is
    /// opening it, which may take long: a look at the container does not wait for that.
    pub(crate) fn may_have_passed(&self) -> bool {
        let passing = |opened: &OpenedAs| opened.passing.as_ref().map(|(_, again)| *again);
        let again = self.look(passing).flatten();
        again.is_some_and(|again| Instant::now() > again)
    }

    /// Whether it was opened with faults.
    pub(crate) fn is_damaged(&self) -> bool {
        self.look(|opened| opened.damaged).unwrap_or(false)
    }

    /// What tells whether the container, as it is open now, is still what is stored.
    pub(crate) fn unchanged(&self) -> Option<Arc<dyn StillStored>> {
        let opened = self.look(|opened| opened.opened.upgrade()).flatten()?;
        opened.outermost().ok()?.unchanged.clone()
    }

    fn look<T>(&self, at: impl FnOnce(&OpenedAs) -> T) -> Option<T> {
        self.opened.try_lock().map(|opened| at(&opened))
    }
}

/// The versions that are kept open.
#[derive(Default)]
pub(crate) struct OpenVersions {
    kept: Mutex<OpenCache>,
}

impl OpenVersions {
    /// Returns those that are kept no more.
    fn keep(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
    ) -> Vec<Arc<OpenContainer>> {
        let mut kept = self.kept();
        // Asked under the lock under which it is retired.
        match version.opening.retired.load(Ordering::Relaxed) {
            true => Vec::new(),
            false => kept.keep(version.id, opened),
        }
    }

    pub(crate) fn retire(&self, version: &ContainerVersion) {
        let mut kept = self.kept();
        version.opening.retired.store(true, Ordering::Relaxed);
        let closed = kept.drop_one(version.id);
        drop(kept);
        drop(closed);
    }

    /// The next use opens it anew.
    pub(crate) fn close(&self, version: &ContainerVersion) {
        let closed = self.kept().drop_one(version.id);
        drop(closed);
        *version.opening.opened.lock() = OpenedAs::default();
    }

    pub(crate) fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, OpenCache> {
        self.kept.lock()
    }
}

/// Lends the tables of containers that are not in use. No memory is asked for under the lock of the
/// list.
impl Reclaim for OpenVersions {
    fn reclaimable(&self) -> u64 {
        0
    }

    fn give_up(&self) -> bool {
        false
    }

    fn give_up_kept(&self) -> bool {
        let closed = self.kept().take_idle();
        closed.is_some()
    }
}

/// Opens versions, each once for all who want it.
pub(crate) struct Opener {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
}

impl Opener {
    /// The opened container of a version. Readers of the same container wait for one opening.
    pub(crate) fn open(&self, version: &ContainerVersion) -> Result<Arc<OpenContainer>> {
        let opening = &version.opening.opened;
        let mut slot = opening.lock();
        let opened = match slot.opened.upgrade() {
            Some(opened) => opened,
            None => {
                if let Some(refused) = slot.refusal(Instant::now()) {
                    return Err(refused);
                }
                let path = self.ground.places.known_path(version.container)?;
                let budget = self.ground.budget();
                budget.relieve();
                if is_short() {
                    return Err(no_memory("cannot open a container"));
                }
                // A log that could not be recovered is read through, as a mount without writing
                // does.
                let recovered = self.ground.disk.is_some() && !version.writes.log.keeps_out();
                let opened = open_unchanged(&self.ground, version, &path, recovered);
                let opened = Arc::new(slot.note(opened, Instant::now())?);
                slot.opened = Arc::downgrade(&opened);
                let container = opened.outermost()?;
                let faults = &container.faults;
                slot.damaged = !container.all_faults().is_empty();
                if let Some(retry_after) = faults.iter().filter_map(|fault| fault.passing).max() {
                    slot.passing = Some((Arc::clone(&opened), Instant::now() + retry_after));
                }
                opened
            }
        };
        drop(slot);
        for closed in self.versions.open.keep(version, &opened) {
            self.ground.order(move || drop(closed));
        }
        Ok(opened)
    }

    /// Opens a version again after we have changed its stored bytes. Handles that have it open keep
    /// it as it was.
    pub(crate) fn reopen(
        &self,
        version: &ContainerVersion,
        path: &Path,
    ) -> Result<Arc<OpenContainer>> {
        let mut slot = version.opening.opened.lock();
        let opened = Arc::new(open_unchanged(&self.ground, version, path, true)?);
        slot.opened = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Has a version go on as a container that was opened before we changed its stored bytes.
    pub(super) fn take(&self, version: &ContainerVersion, opened: &Arc<OpenContainer>) {
        version.opening.opened.lock().opened = Arc::downgrade(opened);
    }
}

/// Opens a container and makes sure that it is the version: the sources were opened one after
/// another, so it is looked at again afterwards. `recovered`: whether its log has been recovered,
/// and belongs to this mount's stage; else it is read through.
fn open_unchanged(
    ground: &Ground,
    version: &ContainerVersion,
    path: &Path,
    recovered: bool,
) -> Result<OpenContainer> {
    let (store, budget) = (&*ground.store, ground.budget());
    let pinned = pinned(ground, version, path);
    let recognised = &version.recognised;
    let (container, is_staged) = match recovered {
        true => (recognised.open(&pinned, path, budget)?, false),
        false => open_through(recognised, &pinned, path, budget)?,
    };
    version.writes.log.note_read_through(is_staged);
    let opened = OpenContainer::new(version, path, container, store, budget);
    let (opened, identity) = opened.map_err(|e| e.of_container(&store.display(path)))?;
    let documents = opened.outermost()?.unchanged.as_ref();
    let documents = documents.map(|unchanged| unchanged.documents());
    let are_same = documents.is_none_or(|documents| version.note_documents(documents));
    if identity != version.identity() || !are_same {
        return Err(Error::Changed {
            path: store.display(path),
        });
    }
    for fault in opened.outermost()?.all_faults() {
        log::warn!("{fault}");
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::no_memory;

    #[test]
    fn a_refusal_is_remembered_for_some_seconds() {
        let (mut slot, start) = (OpenedAs::default(), Instant::now());
        assert!(slot.note::<()>(Err(no_memory("tables")), start).is_err());
        let refused = slot.refusal(start + REFUSED_FOR / 2);
        assert!(refused.is_some_and(|e| e.is_no_memory()));
        assert!(slot.refusal(start + REFUSED_FOR).is_none());
        assert!(slot.note(Ok(()), start).is_ok());
        assert!(slot.refusal(start).is_none(), "it has been opened since");
        assert!(slot.note::<()>(Err(Error::NotFound), start).is_err());
        assert!(slot.refusal(start).is_none());
    }
}
