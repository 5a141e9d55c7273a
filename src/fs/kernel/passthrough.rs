//! Files that the kernel reads by itself.
//!
//! It wants all opens of an inode to be alike: either each goes by the kernel itself, with one
//! backing file, or none does. So the first open of an inode decides for those that follow until
//! the last is closed: an open for reading goes by the kernel, one for writing does not (measured:
//! writing gains nothing by it, and what the daemon does not see it cannot write as the caller).
//! Used by `adapter`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fuser::{BackingId, FileHandle, FopenFlags, INodeNo, ReplyOpen};

use crate::sync::{Mutex, MutexGuard};
use crate::tree::{HandleId, Tree};

#[derive(Default)]
pub(super) struct Passthrough {
    by_inode: Mutex<HashMap<INodeNo, Opens>>,
}

/// The opens of an inode.
#[derive(Default)]
struct Opens {
    /// None if the daemon reads and writes.
    backing: Option<Arc<BackingId>>,
    handles: HashSet<HandleId>,
    /// One that went by the kernel was for writing: a mapping of it, whose end is not reported, may
    /// outlive it, and has other pages than those of a file that the daemon serves.
    written: bool,
}

impl Passthrough {
    /// Answers an open with a backing file, or gives the reply back if the daemon is to serve it.
    /// Whether the open is for writing, and whether it may be the first that goes by the kernel:
    /// not where a write takes away bits of the mode (set-user-id), which a kernel that writes by
    /// itself leaves to us without telling.
    pub(super) fn open(
        &self,
        ino: INodeNo,
        tree: &Tree,
        handle: HandleId,
        (writes, may_begin): (bool, bool),
        reply: ReplyOpen,
    ) -> Option<ReplyOpen> {
        let mut table = self.lock();
        let opens = table.entry(ino).or_default();
        if opens.handles.is_empty() && may_begin {
            let opened = tree
                .reading
                .with_fd(handle, |fd| reply.open_backing(fd).ok().map(Arc::new));
            opens.backing = opened.flatten();
        }
        opens.handles.insert(handle);
        opens.written |= writes;
        let backing = opens.backing.clone();
        drop(table);
        let Some(backing) = backing else {
            return Some(reply);
        };
        let flags = match writes {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_NOFLUSH,
        };
        reply.opened_passthrough(FileHandle(handle.0), flags, &backing);
        None
    }

    /// A file that has just been made is open, and the daemon serves it.
    pub(super) fn created(&self, ino: INodeNo, handle: HandleId) {
        self.lock().entry(ino).or_default().handles.insert(handle);
    }

    /// Whether the kernel reads an inode by itself now.
    pub(super) fn has(&self, ino: INodeNo) -> bool {
        let table = self.lock();
        table.get(&ino).is_some_and(|opens| opens.backing.is_some())
    }

    pub(super) fn release(&self, ino: INodeNo, handle: HandleId) {
        let mut table = self.lock();
        if let Some(opens) = table.get_mut(&ino)
            && opens.handles.remove(&handle)
            && opens.handles.is_empty()
            && !(opens.written && opens.backing.is_some())
        {
            table.remove(&ino);
        }
    }

    /// The kernel knows the inode no more, so nothing of it is open or mapped.
    pub(super) fn forget(&self, ino: INodeNo) {
        self.lock().remove(&ino);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<INodeNo, Opens>> {
        self.by_inode.lock()
    }
}
