//! Which files were made or written through the mount.
//!
//! They stay ordinary as long as the mount lives: programs write a file in several steps, close it
//! in between, and expect it to be there when they go on. Of each only the number of the file is
//! kept, and charged. Used by `tree`.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::memory::budget::{Budget, TableCharge};
use crate::memory::{is_short, no_memory};
use crate::source::FileId;
use crate::sync::RwLock;

/// What a file takes, in a table that has doubled some time ago.
const FILE: u64 = 48;

pub(super) struct WrittenHere {
    files: RwLock<HashSet<FileId>>,
    charge: TableCharge,
}

impl WrittenHere {
    pub(super) fn new(budget: &Arc<Budget>) -> WrittenHere {
        WrittenHere {
            files: RwLock::default(),
            charge: TableCharge::new(Arc::clone(budget)),
        }
    }

    pub(super) fn contains(&self, file: FileId) -> bool {
        let files = self.files.read();
        files.contains(&file)
    }

    pub(super) fn is_empty(&self) -> bool {
        let files = self.files.read();
        files.is_empty()
    }

    pub(super) fn add(&self, file: FileId) -> Result<()> {
        if self.contains(file) {
            return Ok(());
        }
        let mut files = self.files.write();
        if files.try_reserve(1).is_err() || is_short() {
            return Err(no_memory("cannot remember a file"));
        }
        let is_new = files.insert(file);
        drop(files);
        if is_new {
            self.charge.add(FILE);
        }
        Ok(())
    }

    /// It has no name any more.
    pub(super) fn remove(&self, file: FileId) {
        let mut files = self.files.write();
        let was_there = files.remove(&file);
        drop(files);
        if was_there {
            self.charge.remove(FILE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counting::held_after;

    /// As many as fill most of a table of 8192 places.
    const FILES: u64 = 6000;

    /// What the charge may lag behind a table, or be ahead of it.
    const STEP: u64 = 128 << 10;

    fn file(number: u64) -> FileId {
        FileId {
            device: 1,
            inode: number,
            birth: 3 * number,
        }
    }

    #[test]
    fn each_file_is_charged_once_as_long_as_it_has_a_name() {
        let budget = Budget::new(16 << 20);
        let written = WrittenHere::new(&budget);
        let files = || (0..FILES).map(file);
        let ((), held) = held_after(|| files().for_each(|file| written.add(file).unwrap()));
        let charged = budget.used();
        assert!(charged >= FILES * FILE, "{charged} bytes are charged");
        assert!(
            charged <= FILES * FILE + STEP,
            "{charged} bytes are charged"
        );
        assert!(held <= (FILES * FILE) as i64, "{held} bytes are taken");
        files().for_each(|file| written.add(file).unwrap());
        assert_eq!(budget.used(), charged, "what is written again");
        files().for_each(|file| written.remove(file));
        assert!(written.is_empty());
        let left = budget.used();
        assert!(left <= STEP, "{left} bytes are charged");
        files().for_each(|file| written.remove(file));
        assert_eq!(budget.used(), left, "what was not written here");
        drop(written);
        assert_eq!(budget.used(), 0);
    }
}
