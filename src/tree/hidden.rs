//! Entries of a container that were removed, each by itself.
//!
//! A container is one file, or files that only make sense together: it is removed as a whole, when its directory is.
//! Until then entries that were unlinked are hidden, so that `rm -r` finds the directory empty in the end. What was only
//! half removed is there again in the next mount, or when the container changes. Used by `version`, `open_container` and
//! `writing`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry_table::EntryIndex;
use super::inode::InodeId;
use super::version::ContainerVersion;

#[derive(Default)]
pub(super) struct HiddenEntries {
    /// Whether there are any; hardly ever.
    any: AtomicBool,
    entries: Mutex<HashSet<EntryIndex>>,
}

impl HiddenEntries {
    pub(super) fn contains(&self, entry: EntryIndex) -> bool {
        self.any.load(Ordering::Acquire) && self.entries().contains(&entry)
    }

    pub(super) fn add(&self, entry: EntryIndex) {
        self.entries().insert(entry);
        self.any.store(true, Ordering::Release);
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<EntryIndex> {
        self.entries().iter().copied().collect()
    }

    /// It is there again.
    pub(super) fn remove(&self, entry: EntryIndex) {
        self.entries().remove(&entry);
    }

    /// The container could not be removed: all of it is there.
    pub(super) fn clear(&self) {
        self.entries().clear();
        self.any.store(false, Ordering::Release);
    }

    fn entries(&self) -> MutexGuard<'_, HashSet<EntryIndex>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions of which arrays have been removed, by the inodes of their containers.
#[derive(Default)]
pub(super) struct HalfRemoved(Mutex<HashMap<InodeId, Arc<ContainerVersion>>>);

impl HalfRemoved {
    /// Says whether the container was not among them.
    pub(super) fn insert(&self, container: InodeId, version: &Arc<ContainerVersion>) -> bool {
        let before = self.lock().insert(container, Arc::clone(version));
        before.is_none()
    }

    /// Says whether it was.
    pub(super) fn remove(&self, container: InodeId) -> bool {
        self.lock().remove(&container).is_some()
    }

    pub(super) fn all(&self) -> Vec<(InodeId, Arc<ContainerVersion>)> {
        let all = self.lock();
        let each = all.iter();
        each.map(|(inode, version)| (*inode, Arc::clone(version)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InodeId, Arc<ContainerVersion>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
