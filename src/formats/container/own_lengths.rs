//! Lengths with which arrays are shown for the life of a mount, where the file says another.
//!
//! A format may have one length for several arrays: when one of them has grown, the others have
//! grown in the file, too, which their readers know to be filled, and writers in the mount must
//! not: they append to what they wrote. They belong to a version of a container; a commit sets
//! them, and `live` keeps them from one version to the next. Used by `live`, and by the formats
//! when a container is opened.

use std::collections::BTreeMap;

use crate::sync::{Mutex, MutexGuard};

/// By the names of arrays, in bytes.
pub type ArrayLengths = BTreeMap<String, u64>;

/// Small as long as there are none.
#[derive(Debug, Default)]
pub struct OwnLengths(Mutex<Option<Box<ArrayLengths>>>);

impl OwnLengths {
    /// The length of an array, if it has one of its own.
    pub fn of(&self, array: &str) -> Option<u64> {
        self.lock().as_ref()?.get(array).copied()
    }

    /// All of them.
    pub fn all(&self) -> ArrayLengths {
        self.lock().as_deref().cloned().unwrap_or_default()
    }

    /// Sets all of them, and returns those before.
    pub fn replace(&self, lengths: ArrayLengths) -> ArrayLengths {
        let new = (!lengths.is_empty()).then(|| Box::new(lengths));
        let before = std::mem::replace(&mut *self.lock(), new);
        before.map_or_else(ArrayLengths::new, |before| *before)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<ArrayLengths>>> {
        self.0.lock()
    }
}
