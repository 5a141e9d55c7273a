//! Open files: what a handle stands for.
//!
//! A handle keeps what it opened: the container as it was, or the file, whatever happens to its
//! name. Read by many threads at once; the table is locked only to find the handle.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::inode::InodeId;
use super::node::Node;
use super::ordinary::{OrdinaryFile, SET_ID, StillKnown};
use crate::array::prefetch::ReadAheadWorkers;
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::live::shown::open_entry::{OpenEntry, PageCache};
use crate::live::writing::ArrayWriter;
use crate::memory::fallible;
use crate::source::Source;
use crate::sync::RwLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// An opened file.
pub struct Open {
    pub handle: HandleId,
    /// Whether the kernel's cached pages of this inode still hold.
    pub keep_cache: bool,
    /// Whether the kernel may hold an older size of it.
    pub size_is_old: bool,
    /// The file is shown as it is.
    pub ordinary: bool,
    /// It has bits of its mode that a write takes away.
    pub set_id: bool,
}

impl Open {
    /// Of a mode without such bits.
    pub(super) fn new(handle: HandleId, known: StillKnown, ordinary: bool) -> Open {
        Open {
            handle,
            keep_cache: known.pages,
            size_is_old: !known.size,
            ordinary,
            set_id: false,
        }
    }
}

pub(super) enum OpenFile {
    /// An entry of a container.
    Entry(OpenEntry),
    /// A file shown as it is, and its node.
    Ordinary(Stored, Arc<Node>),
}

/// How a file of the source is open.
pub(super) enum Stored {
    Read(Arc<dyn Source>),
    Written(Arc<dyn DiskFile>),
}

/// Whether a write takes away bits of the mode (set-user-id, set-group-id).
pub(super) fn takes_away_bits(file: &Stored) -> bool {
    let stat = file.source().stat();
    stat.is_ok_and(|stat| stat.mode & SET_ID != 0)
}

impl Stored {
    fn source(&self) -> &dyn Source {
        match self {
            Stored::Read(source) => &**source,
            Stored::Written(file) => file.source(),
        }
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut buf = fallible::zeros(len as u64, "cannot read a file")?;
        let n = self.source().read(offset, &mut buf)?;
        buf.truncate(n);
        Ok(buf)
    }
}

impl OpenFile {
    pub(super) fn entry(&self) -> Option<&OpenEntry> {
        match self {
            OpenFile::Entry(entry) => Some(entry),
            OpenFile::Ordinary(..) => None,
        }
    }

    /// The file, if it is shown as it is.
    pub(super) fn source(&self) -> Option<&dyn Source> {
        match self {
            OpenFile::Ordinary(stored, _) => Some(stored.source()),
            OpenFile::Entry(_) => None,
        }
    }

    /// The file, if it is shown as it is and open for writing, with its [`OrdinaryFile`].
    pub(super) fn written(&self) -> Option<(&dyn DiskFile, &OrdinaryFile)> {
        match self {
            OpenFile::Ordinary(Stored::Written(file), node) => Some((&**file, node.ordinary()?)),
            _ => None,
        }
    }

    /// The array that is written through this handle.
    pub(super) fn array_writer(&self) -> Option<&ArrayWriter> {
        self.entry()?.array_writer()
    }

    /// Bytes of what is shown.
    pub(super) fn len(&self) -> u64 {
        match self {
            OpenFile::Entry(entry) => entry.len(),
            OpenFile::Ordinary(stored, _) => stored.source().len(),
        }
    }

    pub(super) fn read<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match self {
            OpenFile::Entry(entry) => entry.read(workers, offset, len, pages, reply),
            OpenFile::Ordinary(stored, _) => match stored.read(offset, len) {
                Ok(bytes) => reply(Ok(&bytes)),
                Err(e) => reply(Err(e)),
            },
        }
    }

    /// As [`OpenFile::read`], from memory. None if the bytes are not there; then `reply` has not
    /// been called.
    pub(super) fn read_in_memory<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        self.entry()?
            .read_in_memory(workers, offset, len, pages, reply)
    }
}

#[derive(Default)]
pub(super) struct OpenFiles {
    table: RwLock<HandleTable>,
    next: AtomicU64,
}

#[derive(Default)]
struct HandleTable {
    files: HashMap<HandleId, (InodeId, Arc<OpenFile>)>,
    by_inode: HashMap<InodeId, Vec<HandleId>>,
}

impl OpenFiles {
    pub(super) fn insert(&self, inode: InodeId, handle: OpenFile) -> HandleId {
        self.share(inode, Arc::new(handle))
    }

    /// One more handle of an open file. No position is shared: there is none.
    pub(super) fn share(&self, inode: InodeId, handle: Arc<OpenFile>) -> HandleId {
        let id = HandleId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let mut table = self.table.write();
        table.files.insert(id, (inode, handle));
        table.by_inode.entry(inode).or_default().push(id);
        id
    }

    pub(super) fn get(&self, id: HandleId) -> Result<Arc<OpenFile>> {
        let table = self.table.read();
        let found = table.files.get(&id).map(|(_, handle)| Arc::clone(handle));
        found.ok_or(Error::NotFound)
    }

    pub(super) fn inode_of(&self, id: HandleId) -> Result<InodeId> {
        let table = self.table.read();
        let found = table.files.get(&id);
        found.map(|(inode, _)| *inode).ok_or(Error::NotFound)
    }

    /// What is open.
    pub(super) fn inodes(&self) -> Vec<InodeId> {
        let table = self.table.read();
        table.by_inode.keys().copied().collect()
    }

    /// The handles of an inode.
    pub(super) fn of_inode(&self, inode: InodeId) -> Vec<Arc<OpenFile>> {
        let table = self.table.read();
        let handles = table.by_inode.get(&inode).into_iter().flatten();
        let files = handles.filter_map(|handle| table.files.get(handle));
        files.map(|(_, file)| Arc::clone(file)).collect()
    }

    /// Asks what is left of an entry whose names have gone, or are other files' now: the file, if
    /// it is open.
    pub(super) fn ask<T>(
        &self,
        inode: InodeId,
        missing: Error,
        ask: impl FnOnce(&dyn Source) -> Result<T>,
    ) -> Result<T> {
        let open = self.of_inode(inode);
        match open.iter().find_map(|file| file.source()) {
            Some(source) => ask(source),
            None => Err(missing),
        }
    }

    /// Has handles of an inode stand for what `by` makes of each, and returns what they stood for.
    pub(super) fn replace(
        &self,
        inode: InodeId,
        by: impl Fn(&OpenFile) -> Option<OpenFile>,
    ) -> Vec<Arc<OpenFile>> {
        let handles = {
            let table = self.table.read();
            table.by_inode.get(&inode).cloned().unwrap_or_default()
        };
        let mut replaced = Vec::new();
        for id in handles {
            // What it is replaced by is opened without the lock.
            let Some(file) = self.get(id).ok().and_then(|file| by(&file)) else {
                continue;
            };
            let mut table = self.table.write();
            if let Some((_, open)) = table.files.get_mut(&id) {
                replaced.push(std::mem::replace(open, Arc::new(file)));
            }
        }
        replaced
    }

    pub(super) fn remove(&self, id: HandleId) {
        let mut table = self.table.write();
        let closed = table.files.remove(&id);
        if let Some((inode, _)) = &closed
            && let Some(handles) = table.by_inode.get_mut(inode)
        {
            handles.retain(|handle| *handle != id);
            if handles.is_empty() {
                table.by_inode.remove(inode);
            }
        }
        drop(table);
        drop(closed);
    }

    pub(super) fn len(&self) -> usize {
        let table = self.table.read();
        table.files.len()
    }
}
