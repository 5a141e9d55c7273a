//! Which files were made or written through the mount.
//!
//! They stay ordinary as long as the mount lives: programs write a file in several steps, close it in between, and
//! expect it to be there when they go on. Of each only the number of the file is kept (about 50 bytes). Used by `tree`.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use crate::error::Result;
use crate::memory::{is_short, no_memory};
use crate::source::FileId;

#[derive(Default)]
pub(super) struct OurFiles {
    files: RwLock<HashSet<FileId>>,
}

impl OurFiles {
    pub(super) fn contains(&self, file: FileId) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.contains(&file)
    }

    pub(super) fn is_empty(&self) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.is_empty()
    }

    pub(super) fn add(&self, file: FileId) -> Result<()> {
        if self.contains(file) {
            return Ok(());
        }
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if files.try_reserve(1).is_err() || is_short() {
            return Err(no_memory("cannot remember a file"));
        }
        files.insert(file);
        Ok(())
    }

    /// It has no name any more.
    pub(super) fn remove(&self, file: FileId) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.remove(&file);
    }
}
