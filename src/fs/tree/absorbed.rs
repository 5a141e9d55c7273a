//! Files that have become the content of arrays, as long as the kernel knows them: programs may
//! have them open, and write to the arrays through these handles.
//!
//! Few at any time, and nearly always none. Used by `writing`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::inode::InodeId;
use crate::cache::VersionId;
use crate::live::shown::entry_table::EntryIndex;
use crate::sync::Mutex;

/// An array, by its version and entry.
pub(super) type AbsorbingArray = (VersionId, EntryIndex);

#[derive(Default)]
pub(crate) struct AbsorbedFiles {
    files: Mutex<HashMap<InodeId, AbsorbingArray>>,
    /// How many there are: asked at every write to an array.
    count: AtomicUsize,
}

impl AbsorbedFiles {
    pub(super) fn note(&self, file: InodeId, by: AbsorbingArray) {
        let mut files = self.files.lock();
        files.insert(file, by);
        self.count.store(files.len(), Ordering::Release);
    }

    /// The array that a file has become.
    pub(super) fn of(&self, file: InodeId) -> Option<AbsorbingArray> {
        match self.count.load(Ordering::Acquire) {
            0 => None,
            _ => self.files.lock().get(&file).copied(),
        }
    }

    /// Whether a file has become the content of an array.
    pub(crate) fn has(&self, file: InodeId) -> bool {
        self.of(file).is_some()
    }

    /// The kernel does not know the file any more.
    pub(super) fn forget(&self, file: InodeId) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut files = self.files.lock();
            files.remove(&file);
            self.count.store(files.len(), Ordering::Release);
        }
    }
}
