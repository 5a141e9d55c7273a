//! Entries of a container that were removed, each by itself.
//!
//! A container is one file, or files that only make sense together: it is removed as a whole, when
//! its directory is. Until then entries that were unlinked are hidden, so that `rm -r` finds the
//! directory empty in the end. A container that was only half removed is whole again in the next
//! mount, or when the container changes. Used by `live::version`, `open_container`, and
//! `tree::writing`, which hides.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::entry_table::EntryIndex;
use crate::sync::{Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct Tombstones {
    /// Whether there are any; hardly ever.
    any: AtomicBool,
    entries: Mutex<HashSet<EntryIndex>>,
}

impl Tombstones {
    pub(crate) fn contains(&self, entry: EntryIndex) -> bool {
        self.any.load(Ordering::Acquire) && self.entries().contains(&entry)
    }

    pub(crate) fn add(&self, entry: EntryIndex) {
        self.entries().insert(entry);
        self.any.store(true, Ordering::Release);
    }

    /// How many of them are such entries.
    pub(crate) fn count(&self, is_such: impl Fn(EntryIndex) -> bool) -> usize {
        if !self.any.load(Ordering::Acquire) {
            return 0;
        }
        let entries = self.entries();
        entries.iter().filter(|entry| is_such(**entry)).count()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<EntryIndex> {
        self.entries().iter().copied().collect()
    }

    /// It is there again.
    pub(crate) fn remove(&self, entry: EntryIndex) {
        self.entries().remove(&entry);
    }

    /// The container could not be removed: all of it is there.
    pub(crate) fn clear(&self) {
        self.entries().clear();
        self.any.store(false, Ordering::Release);
    }

    fn entries(&self) -> MutexGuard<'_, HashSet<EntryIndex>> {
        self.entries.lock()
    }
}
