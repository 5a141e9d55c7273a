//! Entries of a container of which an array has been opened for writing: what follows from arrays
//! has other attributes from now on, without the kernel's knowing.
//!
//! Before that the kernel believes what it has been told of them. It forgets that before the first
//! request is answered that may write. Used by `writing`, and by `kernel::serving`.

use super::inode::InodeId;
use crate::sync::Mutex;

#[derive(Default)]
pub(crate) struct FollowingEntries(Mutex<Vec<InodeId>>);

impl FollowingEntries {
    pub(super) fn add(&self, entries: Vec<InodeId>) {
        let mut all = self.0.lock();
        all.extend(entries);
    }

    /// Gives each of them away. Whoever comes meanwhile waits until that is done.
    pub(crate) fn drain(&self, each: impl FnMut(InodeId)) {
        let mut all = self.0.lock();
        all.drain(..).for_each(each);
    }
}
