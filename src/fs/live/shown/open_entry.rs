//! Open entries of containers: how a handle of one reads.
//!
//! A handle keeps the container that it opened as it was, whatever happens to its name. Read by
//! many threads at once. Used by `tree::open_file`, which numbers handles.

use std::ops::Range;
use std::sync::Arc;

use super::entry_table::EntryIndex;
use super::open_container::OpenContainer;
use super::shared_array::{SharedArray, ViewHeader};
use super::stored_readers::StoredReader;
use super::text_views::MadeView;
use crate::array::prefetch::{ReadAhead, ReadAheadWorkers};
use crate::array::read::{CachedArray, Tail};
use crate::error::{Error, Result};
use crate::live::version::ContainerVersion;
use crate::live::writing::ArrayWriter;
use crate::memory::budget::Hold;
use crate::memory::fallible;
use crate::source::Source;

/// Whether the kernel keeps the bytes of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    Used,
    /// They go straight to the application.
    Bypassed,
}

pub struct OpenEntry {
    content: OpenContent,
    /// The container that it belongs to: as long as it is here, its version can be described.
    _opened: Arc<OpenContainer>,
    /// For bytes that were made for this handle.
    _charge: Option<Hold>,
    /// If it follows from arrays that may be written.
    derived: Option<DerivedFile>,
}

/// A file that follows from arrays, and the edition of its content.
pub(crate) struct DerivedFile {
    pub(crate) version: Arc<ContainerVersion>,
    pub(crate) entry: EntryIndex,
    pub(crate) edition: u64,
}

pub(crate) enum OpenContent {
    Array(OpenArray),
    Bytes(Arc<Vec<u8>>),
    /// The view of a text, which all that open it share.
    TextView(Arc<MadeView>),
    /// The file that a container is, as long as it is the one that was opened.
    Stored(
        Arc<dyn Source>,
        #[expect(dead_code, reason = "counts")] StoredReader,
    ),
}

pub(crate) struct OpenArray {
    array: Arc<SharedArray>,
    /// If this is a view of it.
    header: Option<Arc<ViewHeader>>,
    stream: ReadAhead,
    /// If it is open for writing.
    writer: Option<ArrayWriter>,
}

impl OpenArray {
    pub(crate) fn new(array: Arc<SharedArray>, writer: Option<ArrayWriter>) -> Self {
        let now = array.now();
        let stream = ReadAhead::of(&now, now.cache.limit());
        OpenArray {
            array,
            header: None,
            stream,
            writer,
        }
    }

    /// A view of it.
    pub(crate) fn view(array: Arc<SharedArray>, header: Arc<ViewHeader>) -> Self {
        OpenArray {
            header: Some(header),
            ..OpenArray::new(array, None)
        }
    }

    /// The shown array, behind the view's header if it has one.
    fn shown(&self, array: &Arc<CachedArray>) -> Arc<CachedArray> {
        match &self.header {
            Some(header) => Arc::new(array.behind(header.now())),
            None => Arc::clone(array),
        }
    }

    fn read<R, F>(
        &self,
        workers: &ReadAheadWorkers,
        (offset, len): (u64, usize),
        pages: PageCache,
        mut reply: F,
    ) -> R
    where
        F: FnOnce(Result<&[u8]>) -> R,
    {
        loop {
            let (stored, read) = self.array.read(|stored, unchanged| {
                let array = &self.shown(stored);
                // First, so that it runs while this read is served.
                if let Some(passed) = self.read_ahead(array, workers, offset, len, pages) {
                    array.let_go(passed);
                }
                let read = array.read(offset, len, Tail::Whole, |found| match found {
                    Err(e @ Error::Changed { .. }) => Err((e, reply)),
                    found => {
                        // The answer may take long, and is made of memory alone.
                        drop(unchanged);
                        Ok(reply(found))
                    }
                });
                (Arc::clone(stored), read)
            });
            match read {
                Ok(replied) => return replied,
                // The old file had been closed, and a commit has put another one at its place.
                Err((_, unused)) if self.array.is_replaced(&stored) => reply = unused,
                Err((e, unused)) => return unused(Err(self.array.told(e))),
            }
        }
    }

    /// Orders read-ahead, and returns the range that the reader has passed and the kernel keeps.
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
        workers.follow(array, &advance);
        advance.passed.filter(|_| pages == PageCache::Used)
    }
}

impl OpenEntry {
    pub(crate) fn new(content: OpenContent, opened: Arc<OpenContainer>) -> Self {
        OpenEntry {
            content,
            _opened: opened,
            _charge: None,
            derived: None,
        }
    }

    /// Bytes that were made for this handle alone, and are charged.
    pub(crate) fn computed(bytes: Vec<u8>, charge: Hold, opened: Arc<OpenContainer>) -> Self {
        let content = OpenContent::Bytes(Arc::new(bytes));
        OpenEntry {
            _charge: Some(charge),
            ..OpenEntry::new(content, opened)
        }
    }

    pub(crate) fn derived_from(self, derived: Option<DerivedFile>) -> Self {
        OpenEntry { derived, ..self }
    }

    pub(crate) fn derived(&self) -> Option<&DerivedFile> {
        self.derived.as_ref()
    }

    /// The array that is written through this handle.
    pub(crate) fn array_writer(&self) -> Option<&ArrayWriter> {
        match &self.content {
            OpenContent::Array(open) => open.writer.as_ref(),
            _ => None,
        }
    }

    /// Length of the shown content.
    pub(crate) fn len(&self) -> u64 {
        match &self.content {
            OpenContent::Array(open) => open.shown(&open.array.now()).size(),
            OpenContent::Bytes(bytes) => bytes.len() as u64,
            OpenContent::TextView(view) => view.bytes().len() as u64,
            OpenContent::Stored(source, _) => source.len(),
        }
    }

    pub(crate) fn read<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match &self.content {
            OpenContent::Array(open) => open.read(workers, (offset, len), pages, reply),
            OpenContent::Bytes(bytes) => reply(Ok(part(bytes, offset, len))),
            OpenContent::TextView(view) => reply(Ok(part(view.bytes(), offset, len))),
            OpenContent::Stored(source, _) => match stored_part(&**source, offset, len) {
                Ok(bytes) => reply(Ok(&bytes)),
                Err(e) => reply(Err(e)),
            },
        }
    }

    /// As [`OpenEntry::read`], from memory. None if the bytes are not there; then `reply` has not
    /// been called.
    pub(crate) fn read_in_memory<R>(
        &self,
        workers: &ReadAheadWorkers,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        match &self.content {
            OpenContent::Array(open) => open.array.try_read(|array, unchanged| {
                let array = &open.shown(array);
                let replied = array.read_cached(offset, len, |bytes| {
                    drop(unchanged);
                    reply(bytes)
                })?;
                let passed = open.read_ahead(array, workers, offset, len, pages);
                // Blocks whose places the format has forgotten by now, the cache drops in its own
                // time.
                if let Some(passed) = passed.filter(|passed| array.array.places_known(passed)) {
                    array.let_go(passed);
                }
                Some(replied)
            })?,
            OpenContent::Bytes(bytes) => Some(reply(part(bytes, offset, len))),
            OpenContent::TextView(view) => Some(reply(part(view.bytes(), offset, len))),
            OpenContent::Stored(..) => None,
        }
    }
}

/// Bytes of a source that must be the one that was opened.
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
