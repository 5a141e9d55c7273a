//! Versions of containers: what a container was when it was opened.
//!
//! A version is opened when it is first looked into. A bounded number stays open; the others are opened
//! again when they are wanted, if the source still holds them. Used by `tree`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Instant;

use super::entries::Part;
use super::kept_open::KeptOpen;
use super::opened::Opened;
use super::pinned::Pinned;
use crate::cache::VersionId;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::{Identity, Store};

pub(super) struct Version {
    pub(super) id: VersionId,
    pub(super) path: PathBuf,
    pub(super) recognised: Recognised,
    pub(super) identity: Identity,
    opened: Mutex<Slot>,
    /// The source holds another one, or nobody can find it any more: it is not kept open for its own sake.
    retired: AtomicBool,
}

/// What a version was opened as.
#[derive(Default)]
struct Slot {
    opened: Weak<Opened>,
    /// Opened with a fault that may pass, and when to try again: kept open until then, because it might
    /// have other entries.
    passing: Option<(Arc<Opened>, Instant)>,
}

impl Version {
    /// Whether it was opened with a fault that may have passed by now. Not while somebody is opening it,
    /// which may take long: who only looks at the container does not wait for that.
    pub(super) fn may_have_passed(&self) -> bool {
        let slot = match self.opened.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let opened = slot.passing.as_ref();
        opened.is_some_and(|(_, again)| Instant::now() > *again)
    }
}

#[derive(Default)]
pub(super) struct Versions {
    last: AtomicU64,
    kept_open: Mutex<KeptOpen>,
}

impl Versions {
    pub(super) fn create(
        &self,
        path: &Path,
        recognised: Recognised,
        identity: Identity,
    ) -> Arc<Version> {
        let id = VersionId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let opened = Mutex::default();
        Arc::new(Version {
            id,
            path: path.to_owned(),
            recognised,
            identity,
            opened,
            retired: AtomicBool::new(false),
        })
    }

    /// The opened container of a version. Readers of the same container wait for one opening.
    pub(super) fn open(
        &self,
        version: &Version,
        store: &Arc<dyn Store>,
        budget: &Arc<Budget>,
    ) -> Result<Arc<Opened>> {
        let mut slot = version
            .opened
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let opened = match slot.opened.upgrade() {
            Some(opened) => opened,
            None => {
                let opened = Arc::new(open_unchanged(version, store, budget)?);
                slot.opened = Arc::downgrade(&opened);
                let faults = &opened.container(Part(0))?.faults;
                if let Some(retry_after) = faults.iter().filter_map(|fault| fault.passing).max() {
                    slot.passing = Some((Arc::clone(&opened), Instant::now() + retry_after));
                }
                opened
            }
        };
        drop(slot);
        let mut kept = self.kept();
        // Asked under the lock under which it is retired.
        if !version.retired.load(Ordering::Relaxed) {
            let closed = kept.keep(version.id, &opened);
            drop(kept);
            drop(closed);
        }
        Ok(opened)
    }

    pub(super) fn retire(&self, version: &Version) {
        let mut kept = self.kept();
        version.retired.store(true, Ordering::Relaxed);
        let closed = kept.drop_one(version.id);
        drop(kept);
        drop(closed);
    }

    pub(super) fn kept_open(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, KeptOpen> {
        self.kept_open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a container and makes sure that it is the version: the sources were opened one after another,
/// so it is looked at again afterwards.
fn open_unchanged(
    version: &Version,
    store: &Arc<dyn Store>,
    budget: &Arc<Budget>,
) -> Result<Opened> {
    let pinned: Arc<dyn Store> = Arc::new(Pinned::new(store, version));
    let container = version.recognised.open(&pinned, &version.path, budget)?;
    let (opened, identity) = Opened::new(version, container, &**store)?;
    if identity != version.identity {
        return Err(Error::Changed {
            path: store.display(&version.path),
        });
    }
    for fault in opened.container(Part(0))?.all_faults() {
        log::warn!("{fault}");
    }
    Ok(opened)
}
