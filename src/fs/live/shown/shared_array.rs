//! An array of a container as all its handles see it: the stored array, under the layers written
//! since.
//!
//! A handle outlives commits: each replaces the stored array beneath it, and changes nothing that
//! is shown. In a mount that cannot be written nothing is ever replaced. Used by `open_file`, and
//! by `staged`, which replaces.

use std::sync::{Arc, OnceLock};

use crate::array::read::CachedArray;
use crate::error::Error;
use crate::sync::{Mutex, RwLock, RwLockReadGuard};

/// Nothing stored changes in its place before this is dropped.
pub(crate) type Unchanged<'a> = RwLockReadGuard<'a, ()>;

/// The stored bytes of a version, behind their locks.
#[derive(Default, Clone)]
pub(crate) struct StoredBytes(Arc<StoredLocks>);

#[derive(Default)]
struct StoredLocks {
    /// Held shared by readers of stored bytes, alone by a commit that changes them in place.
    bytes: RwLock<()>,
    /// Held by a commit that puts new files at the place of the old ones, until handles show them.
    publishing: Mutex<()>,
    /// Why a commit has changed files in place in part and could not go on.
    half_changed: OnceLock<Error>,
}

impl StoredBytes {
    fn read(&self) -> Unchanged<'_> {
        self.0.bytes.read()
    }

    /// Files have been changed in part, for this reason.
    pub(crate) fn note_half_changed(&self, why: Error) {
        self.0.half_changed.get_or_init(|| why);
    }

    pub(crate) fn half_changed(&self) -> Option<&Error> {
        self.0.half_changed.get()
    }

    /// The error to report: a change that we have half made ourselves is not reported as another
    /// process's.
    pub(crate) fn told(&self, e: Error) -> Error {
        match (&e, self.half_changed()) {
            (Error::Changed { .. }, Some(why)) => why.clone(),
            _ => e,
        }
    }

    /// Runs `publish`, which puts new files at the place of the old ones and has handles show them.
    pub(crate) fn while_publishing<T>(&self, publish: impl FnOnce() -> T) -> T {
        let _publishing = self.0.publishing.lock();
        publish()
    }

    /// Runs `read` while nothing stored changes in its place.
    pub(crate) fn while_it_stays<T>(&self, read: impl FnOnce() -> T) -> T {
        let _still = self.read();
        read()
    }

    /// Runs `change` while no thread reads.
    pub(crate) fn while_nobody_reads<T>(&self, change: impl FnOnce() -> T) -> T {
        let _alone = self.0.bytes.write();
        change()
    }
}

/// The header of a view, before the array's bytes. All handles of a view share it, as they share
/// the kernel's pages: it is written anew whenever the view is opened.
pub(crate) struct ViewHeader(RwLock<Arc<[u8]>>);

impl ViewHeader {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<ViewHeader> {
        Arc::new(ViewHeader(RwLock::new(Arc::from(bytes))))
    }

    pub(crate) fn now(&self) -> Arc<[u8]> {
        let now = self.0.read();
        Arc::clone(&now)
    }

    pub(crate) fn set(&self, bytes: Vec<u8>) {
        *self.0.write() = Arc::from(bytes);
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

    /// As it is now. The stored array may be replaced meanwhile, which reading notices.
    pub(crate) fn now(&self) -> Arc<CachedArray> {
        let now = self.now.read();
        Arc::clone(&now)
    }

    /// Reads while nothing stored changes in its place: until the guard that is given to `read` is
    /// dropped.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Arc<CachedArray>, Unchanged<'_>) -> T) -> T {
        let still = self.stored.read();
        read(&self.now(), still)
    }

    /// Reads while nothing stored changes in its place, unless a commit changes stored bytes right
    /// now.
    pub(crate) fn try_read<T>(
        &self,
        read: impl FnOnce(&Arc<CachedArray>, Unchanged<'_>) -> T,
    ) -> Option<T> {
        let still = self.stored.0.bytes.try_read()?;
        Some(read(&self.now(), still))
    }

    /// Whether something else is shown by now than this, of which the files have changed: a commit
    /// has put others at their place. Waits for a commit that is just doing that, so the caller
    /// must not hold the lock of the bytes.
    pub(crate) fn is_replaced(&self, shown: &Arc<CachedArray>) -> bool {
        let now = self.stored.while_publishing(|| self.now());
        !Arc::ptr_eq(shown, &now)
    }

    /// Why something could not be read.
    pub(crate) fn told(&self, e: Error) -> Error {
        self.stored.told(e)
    }

    pub(crate) fn replace(&self, array: CachedArray) {
        let mut now = self.now.write();
        *now = Arc::new(array);
    }
}
