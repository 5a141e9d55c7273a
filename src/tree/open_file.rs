//! Open files: what a handle stands for.
//!
//! A handle keeps what it opened: the container as it was, or the file, whatever happens to its name.
//! Read by many threads at once; the table is locked only to find the handle.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::InodeId;
use super::entry_table::EntryIndex;
use super::node::Node;
use super::open_container::OpenContainer;
use super::ordinary::{OrdinaryFile, SET_ID};
use super::shared_array::{SharedArray, ViewHeader};
use super::staged::ArrayWriter;
use super::version::ContainerVersion;
use crate::array::prefetch::{ReadAhead, ReadAheadWorkers};
use crate::array::read::{CachedArray, Tail};
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::memory::budget::Hold;
use crate::memory::fallible;
use crate::source::Source;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// What becomes of the bytes of a read: whether the kernel keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    Used,
    /// They go straight to the application.
    Bypassed,
}

pub(super) struct OpenFile {
    content: FileContent,
    /// The container that it belongs to: as long as it is here, its version can be described.
    _opened: Option<Arc<OpenContainer>>,
    /// For bytes that were made for this handle.
    _charge: Option<Hold>,
    /// If it follows from arrays that may be written.
    derived: Option<DerivedFile>,
}

/// What follows from arrays, and what they were when it was opened.
pub(super) struct DerivedFile {
    pub(super) version: Arc<ContainerVersion>,
    pub(super) entry: EntryIndex,
    pub(super) edition: u64,
}

pub(super) enum FileContent {
    Array(OpenArray),
    Bytes(Arc<Vec<u8>>),
    /// The file that a container is, as long as it is what was opened.
    Stored(Arc<dyn Source>),
    /// A file shown as it is, and its node.
    File(Stored, Arc<Node>),
}

/// How a file of the source is open.
pub(super) enum Stored {
    Read(Arc<dyn Source>),
    Written(Arc<dyn DiskFile>),
}

/// Whether a write by somebody takes away bits of the mode (set-user-id, set-group-id).
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
}

pub(super) struct OpenArray {
    array: Arc<SharedArray>,
    /// If this is a view of it.
    header: Option<Arc<ViewHeader>>,
    stream: ReadAhead,
    /// If it is open for writing.
    writer: Option<ArrayWriter>,
}

impl OpenArray {
    pub(super) fn new(array: Arc<SharedArray>, writer: Option<ArrayWriter>) -> Self {
        let stream = ReadAhead::new(array.now().cache.limit());
        OpenArray {
            array,
            header: None,
            stream,
            writer,
        }
    }

    /// A view of it.
    pub(super) fn view(array: Arc<SharedArray>, header: Arc<ViewHeader>) -> Self {
        OpenArray {
            header: Some(header),
            ..OpenArray::new(array, None)
        }
    }

    /// What is shown of an array, behind the view's header if it has one.
    fn shown(&self, array: &Arc<CachedArray>) -> Arc<CachedArray> {
        match &self.header {
            Some(header) => Arc::new(array.behind(header.now())),
            None => Arc::clone(array),
        }
    }

    /// Orders read-ahead, and says what the reader has passed and the kernel keeps.
    fn read_ahead(
        &self,
        array: &Arc<CachedArray>,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
    ) -> Option<Range<u64>> {
        let (before, bytes) = (array.prefix.len() as u64, array.len_now());
        let start = offset.saturating_sub(before);
        let end = offset
            .saturating_add(len as u64)
            .saturating_sub(before)
            .min(bytes);
        let advance = self.stream.advance(start..end, bytes);
        if let Some(ahead) = advance.ahead {
            workers.order(array, ahead);
        }
        advance.passed.filter(|_| pages == PageCache::Used)
    }
}

impl OpenFile {
    pub(super) fn inside(content: FileContent, opened: Arc<OpenContainer>) -> Self {
        OpenFile {
            content,
            _opened: Some(opened),
            _charge: None,
            derived: None,
        }
    }

    /// Bytes that were made for this handle alone, and are charged.
    pub(super) fn computed(bytes: Vec<u8>, charge: Hold, opened: Arc<OpenContainer>) -> Self {
        let content = FileContent::Bytes(Arc::new(bytes));
        OpenFile {
            _charge: Some(charge),
            ..OpenFile::inside(content, opened)
        }
    }

    pub(super) fn derived_from(self, derived: Option<DerivedFile>) -> Self {
        OpenFile { derived, ..self }
    }

    pub(super) fn derived(&self) -> Option<&DerivedFile> {
        self.derived.as_ref()
    }

    pub(super) fn ordinary(stored: Stored, node: Arc<Node>) -> Self {
        OpenFile {
            content: FileContent::File(stored, node),
            _opened: None,
            _charge: None,
            derived: None,
        }
    }

    /// The file, if it is shown as it is.
    pub(super) fn source(&self) -> Option<&dyn Source> {
        match &self.content {
            FileContent::File(stored, _) => Some(stored.source()),
            _ => None,
        }
    }

    /// The same, if it is open for writing, with what is known of its content.
    pub(super) fn written(&self) -> Option<(&dyn DiskFile, &OrdinaryFile)> {
        match &self.content {
            FileContent::File(Stored::Written(file), node) => Some((&**file, node.ordinary()?)),
            _ => None,
        }
    }

    /// The array that is written through this handle.
    pub(super) fn array_writer(&self) -> Option<&ArrayWriter> {
        match &self.content {
            FileContent::Array(open) => open.writer.as_ref(),
            _ => None,
        }
    }

    /// Bytes of what is shown of a container.
    pub(super) fn len(&self) -> u64 {
        match &self.content {
            FileContent::Array(open) => open.shown(&open.array.now()).size(),
            FileContent::Bytes(bytes) => bytes.len() as u64,
            FileContent::Stored(source) => source.len(),
            FileContent::File(stored, _) => stored.source().len(),
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
        match &self.content {
            FileContent::Array(open) => open.array.read(|array| {
                let array = &open.shown(array);
                // First, so that it runs while this read is served.
                if let Some(passed) = open.read_ahead(array, workers, offset, len, pages) {
                    array.let_go(passed);
                }
                array.read(offset, len, Tail::Whole, reply)
            }),
            FileContent::Bytes(bytes) => reply(Ok(part(bytes, offset, len))),
            FileContent::Stored(source) => match stored_part(&**source, offset, len) {
                Ok(bytes) => reply(Ok(&bytes)),
                Err(e) => reply(Err(e)),
            },
            FileContent::File(stored, _) => {
                let source = stored.source();
                let buf = fallible::zeros(len as u64, "cannot read a file");
                let read = buf.and_then(|mut buf| {
                    let n = source.read(offset, &mut buf)?;
                    buf.truncate(n);
                    Ok(buf)
                });
                match read {
                    Ok(bytes) => reply(Ok(&bytes)),
                    Err(e) => reply(Err(e)),
                }
            }
        }
    }

    /// As [`OpenFile::read`], from memory. None if the bytes are not there; then nobody has been told anything.
    pub(super) fn read_in_memory<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        match &self.content {
            FileContent::Array(open) => open.array.try_read(|array| {
                let array = &open.shown(array);
                let replied = array.read_cached(offset, len, reply)?;
                let passed = open.read_ahead(array, workers, offset, len, pages);
                // What the format has forgotten by now, the cache forgets in its own time.
                if let Some(passed) = passed.filter(|passed| array.array.places_known(passed)) {
                    array.let_go(passed);
                }
                Some(replied)
            })?,
            FileContent::Bytes(bytes) => Some(reply(part(bytes, offset, len))),
            FileContent::Stored(_) | FileContent::File(..) => None,
        }
    }
}

/// Bytes of a source that must be what was opened.
fn stored_part(source: &dyn Source, offset: u64, len: usize) -> Result<Vec<u8>> {
    let len = source.len().saturating_sub(offset).min(len as u64);
    let mut bytes = fallible::zeros(len, "cannot read a container")?;
    if len > 0 {
        source.fetch_one(offset, &mut bytes)?;
    }
    Ok(bytes)
}

fn part(bytes: &[u8], offset: u64, len: usize) -> &[u8] {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let start = start.min(bytes.len());
    let end = start.saturating_add(len).min(bytes.len());
    &bytes[start..end]
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

    /// One more handle of what is open. Nobody's position is shared: there is none.
    pub(super) fn share(&self, inode: InodeId, handle: Arc<OpenFile>) -> HandleId {
        let id = HandleId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.files.insert(id, (inode, handle));
        table.by_inode.entry(inode).or_default().push(id);
        id
    }

    pub(super) fn get(&self, id: HandleId) -> Result<Arc<OpenFile>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let found = table.files.get(&id).map(|(_, handle)| Arc::clone(handle));
        found.ok_or(Error::NotFound)
    }

    pub(super) fn inode_of(&self, id: HandleId) -> Result<InodeId> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let found = table.files.get(&id);
        found.map(|(inode, _)| *inode).ok_or(Error::NotFound)
    }

    /// What is open.
    pub(super) fn inodes(&self) -> Vec<InodeId> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_inode.keys().copied().collect()
    }

    /// The handles of an inode.
    pub(super) fn of_inode(&self, inode: InodeId) -> Vec<Arc<OpenFile>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let handles = table.by_inode.get(&inode).into_iter().flatten();
        let files = handles.filter_map(|handle| table.files.get(handle));
        files.map(|(_, file)| Arc::clone(file)).collect()
    }

    pub(super) fn remove(&self, id: HandleId) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
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
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.files.len()
    }
}
