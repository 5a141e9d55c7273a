//! Writes past the page cache, of files that others read through it.
//!
//! The kernel drops its pages of a range before such a write, and again afterwards; but not
//! afterwards if the write is asynchronous (libaio, io_uring), and no request says whether it is.
//! Pages that are read into the cache meanwhile remain there, old. So the pages are dropped by us
//! before the write is answered, if a program has read through the page cache since the file was
//! opened so: reading must stay asynchronous, because that is what has large reads past the page
//! cache served side by side (`FUSE_ASYNC_DIO`). Used by `adapter` and `serving`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use fuser::INodeNo;

use crate::sync::{Mutex, MutexGuard};
use crate::tree::HandleId;

/// Files that are open for writing past the page cache.
#[derive(Default)]
pub(super) struct DirectWrites {
    files: Mutex<HashMap<INodeNo, DirectlyWritten>>,
    /// How many these are, for readers that take no lock: mostly none.
    count: AtomicUsize,
}

#[derive(Default)]
struct DirectlyWritten {
    handles: HashSet<HandleId>,
    /// A program has read through the page cache since.
    cached: bool,
}

/// What the flags of a file say: opened for writing, and past the page cache.
pub(super) fn writes_directly(flags: i32) -> bool {
    flags & libc::O_DIRECT != 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

impl DirectWrites {
    /// A file is opened so.
    pub(super) fn opened(&self, ino: INodeNo, handle: HandleId) {
        let mut files = self.lock();
        files.entry(ino).or_default().handles.insert(handle);
        self.count.store(files.len(), Ordering::Release);
    }

    /// A handle ends, which may have been opened so.
    pub(super) fn closed(&self, ino: INodeNo, handle: HandleId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut files = self.lock();
        if let Some(file) = files.get_mut(&ino)
            && file.handles.remove(&handle)
            && file.handles.is_empty()
        {
            files.remove(&ino);
        }
        self.count.store(files.len(), Ordering::Release);
    }

    /// A file is about to be read through the page cache.
    pub(super) fn note_cached(&self, ino: INodeNo) {
        if self.count.load(Ordering::Acquire) > 0
            && let Some(file) = self.lock().get_mut(&ino)
        {
            file.cached = true;
        }
    }

    /// Whether the kernel may have old pages of what has been written. One that was not opened so
    /// has become so since (fcntl(2)), and its pages are not recorded.
    pub(super) fn leaves_pages(&self, ino: INodeNo) -> bool {
        self.lock().get(&ino).is_none_or(|file| file.cached)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<INodeNo, DirectlyWritten>> {
        self.files.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_reads_beside_a_direct_writer_costs_pages() {
        let (writes, file) = (DirectWrites::default(), INodeNo(7));
        writes.note_cached(file);
        assert!(writes.leaves_pages(file), "nothing is known of it");
        let handles = [1, 2, 3].map(HandleId);
        writes.opened(file, handles[0]);
        writes.opened(file, handles[1]);
        writes.note_cached(INodeNo(8));
        assert!(!writes.leaves_pages(file));
        writes.note_cached(file);
        writes.closed(file, handles[0]);
        writes.closed(file, handles[2]);
        assert!(writes.leaves_pages(file));
        writes.closed(file, handles[1]);
        writes.opened(file, handles[2]);
        assert!(!writes.leaves_pages(file));
        assert_eq!(writes.count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn only_writers_past_the_page_cache_write_directly() {
        assert!(writes_directly(libc::O_DIRECT | libc::O_RDWR));
        assert!(!writes_directly(libc::O_DIRECT | libc::O_RDONLY));
        assert!(!writes_directly(libc::O_RDWR));
    }
}
