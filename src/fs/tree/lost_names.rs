//! Names that entries of a container have lost to others: labels of a frame were written, after
//! which its columns go by them.
//!
//! The kernel drops them before the request that did it is answered: a program that opens a column
//! afterwards by a name that another one has now must not be given the one that had it. Dropping a
//! name waits for the kernel's lock of its directory, so the tree only says which are to go;
//! `kernel::lost_names` takes them from here. Used by `places`.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender};

use super::InodeId;
use super::inode::Dirent;

/// Of a tree.
pub(super) struct LostNames {
    queue: Sender<LostName>,
    taken: Receiver<LostName>,
    left: Arc<AtomicUsize>,
}

/// A name that is to be dropped, until this is.
pub struct LostName {
    pub parent: InodeId,
    pub name: OsString,
    left: Arc<AtomicUsize>,
}

impl Default for LostNames {
    fn default() -> Self {
        let (queue, taken) = crossbeam_channel::unbounded();
        LostNames {
            queue,
            taken,
            left: Arc::default(),
        }
    }
}

impl LostNames {
    pub(super) fn add(&self, link: Dirent) {
        self.left.fetch_add(1, Ordering::AcqRel);
        let _ = self.queue.send(LostName {
            parent: link.parent,
            name: link.name,
            left: Arc::clone(&self.left),
        });
    }

    /// In the order in which they were lost.
    pub(super) fn taken(&self) -> &Receiver<LostName> {
        &self.taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

impl Drop for LostName {
    fn drop(&mut self) {
        self.left.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_name_is_lost_until_it_has_been_dropped() {
        let lost = LostNames::default();
        assert!(lost.is_empty());
        let names = [1, 2].map(|parent| Dirent::new(InodeId(parent), OsStr::new("a")));
        names.into_iter().for_each(|name| lost.add(name));
        let taken: Vec<_> = lost.taken().try_iter().collect();
        assert_eq!([taken[0].parent, taken[1].parent], [1, 2].map(InodeId));
        assert!(!lost.is_empty());
        drop(taken);
        assert!(lost.is_empty());
    }
}
