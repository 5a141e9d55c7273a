//! An array of a container as all its handles see it: what is stored, under what has been written since.
//!
//! A handle outlives commits: each replaces what is stored beneath it, and nothing that is shown. In a mount that cannot be
//! written nothing is ever replaced. Used by `open_file`, and by `staged`, which replaces.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::array::read::CachedArray;

/// Held shared by whoever reads what is stored, alone by whoever changes stored bytes in their place.
#[derive(Default, Clone)]
pub(crate) struct StoredBytes(Arc<RwLock<()>>);

impl StoredBytes {
    fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` while nothing stored changes in its place.
    pub(crate) fn while_it_stays<T>(&self, read: impl FnOnce() -> T) -> T {
        let _still = self.read();
        read()
    }

    /// Runs `change` while nobody reads.
    pub(crate) fn while_nobody_reads<T>(&self, change: impl FnOnce() -> T) -> T {
        let _alone = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change()
    }
}

/// What a view of an array has before the array's bytes. All handles of a view share it, as they share the kernel's pages: it
/// is written anew whenever the view is opened.
pub(crate) struct ViewHeader(RwLock<Arc<[u8]>>);

impl ViewHeader {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<ViewHeader> {
        Arc::new(ViewHeader(RwLock::new(Arc::from(bytes))))
    }

    pub(crate) fn now(&self) -> Arc<[u8]> {
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&now)
    }

    pub(crate) fn set(&self, bytes: Vec<u8>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::from(bytes);
    }
}

pub(crate) struct SharedArray {
    now: RwLock<Arc<CachedArray>>,
    stored: StoredBytes,
}

impl SharedArray {
    pub(crate) fn new(array: CachedArray, stored: StoredBytes) -> Arc<SharedArray> {
        Arc::new(SharedArray {
            now: RwLock::new(Arc::new(array)),
            stored,
        })
    }

    /// As it is now. What is stored may be replaced meanwhile, which reading notices.
    pub(crate) fn now(&self) -> Arc<CachedArray> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&now)
    }

    /// Reads while nothing stored changes in its place.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Arc<CachedArray>) -> T) -> T {
        let _still = self.stored.read();
        read(&self.now())
    }

    /// The same, unless somebody changes stored bytes right now.
    pub(crate) fn try_read<T>(&self, read: impl FnOnce(&Arc<CachedArray>) -> T) -> Option<T> {
        let _still = self.stored.0.try_read().ok()?;
        Some(read(&self.now()))
    }

    pub(crate) fn replace(&self, array: CachedArray) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        *now = Arc::new(array);
    }
}
