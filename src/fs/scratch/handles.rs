//! Handles of a scratch file: what the tree reads, writes and closes.
//!
//! Uses [`super::writing`], [`super::copy`], [`super::holes`]; used by [`super::raw`],
//! [`super::store`] and [`super::disk`], which open them.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::content::{FileContent, ReadChunk};
use super::file::ScratchFile;
use super::files::ScratchFiles;
use super::writing::ScratchWriting;
use super::{copy, holes, reserve};
use crate::disk::{Allocation, Caller, DiskFile, Durability, Putting};
use crate::error::{Error, Fault, Result};
use crate::source::{Fetch, PosixFile, Source, SourceIdentity, Stat};

/// An open file. Counted, for what nobody has open is stored sooner.
pub(super) struct ScratchReader {
    pub(super) file: Arc<ScratchFile>,
    identity: SourceIdentity,
}

impl ScratchReader {
    pub(super) fn new(file: Arc<ScratchFile>) -> Result<ScratchReader> {
        let identity = file.stat()?.identity();
        file.opens.fetch_add(1, Ordering::AcqRel);
        Ok(ScratchReader { file, identity })
    }
}

impl Drop for ScratchReader {
    fn drop(&mut self) {
        self.file.opens.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Source for ScratchReader {
    fn len(&self) -> u64 {
        self.file.read().len
    }

    fn identity(&self) -> SourceIdentity {
        self.identity
    }

    fn stat(&self) -> Result<Stat> {
        self.file.stat()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        ranges.iter_mut().try_for_each(|range| {
            let found = self.file.read_at(range.offset, range.buf)?;
            match found == range.buf.len() {
                true => Ok(()),
                false => Err(Fault::new("the file ends early")
                    .expected(range.buf.len())
                    .found(found)
                    .into()),
            }
        })
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl PosixFile for ScratchReader {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.file.reader.posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.file.reader.posix()?.xattr_names()
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        holes::seek(&self.file, offset, hole)
    }
}

/// One that is open for writing.
pub(super) struct ScratchWriter {
    reader: ScratchReader,
    writing: ScratchWriting,
}

impl ScratchWriter {
    pub(super) fn new(file: Arc<ScratchFile>, files: Arc<ScratchFiles>) -> Result<ScratchWriter> {
        let reader = ScratchReader::new(Arc::clone(&file))?;
        let writing = ScratchWriting { file, files };
        Ok(ScratchWriter { reader, writing })
    }
}

impl DiskFile for ScratchWriter {
    fn source(&self) -> &dyn Source {
        &self.reader
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        let file = &self.writing.file;
        let at = match how.append {
            true => file.read().len,
            false => offset,
        };
        let end = at.checked_add(bytes.len() as u64);
        self.writing
            .write((end, bytes.len()), caller, |content, read| {
                let at = if how.append { content.len } else { offset };
                content.write(at, bytes, read)
            })?;
        match how.durable {
            Durability::Later => {}
            Durability::Data => file.sync(true)?,
            Durability::All => file.sync(false)?,
        }
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()> {
        self.writing.check_end(Some(len))?;
        self.writing.take_set_id(caller)?;
        let cut = |content: &mut FileContent, read: ReadChunk<'_>| content.set_len(len, read);
        self.writing.change(cut).map(drop)
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        let range = what.offset..what.offset.saturating_add(what.len);
        self.writing.check_end(Some(range.end))?;
        self.writing.take_set_id(caller)?;
        let keeps_len = what.mode & Allocation::KEEP_SIZE != 0;
        match what.mode & !Allocation::KEEP_SIZE {
            0 => {
                reserve::reserve_ahead(&self.writing.file, &range, caller)?;
                self.writing.note_changed();
            }
            Allocation::PUNCH_HOLE if keeps_len => return self.writing.zero(range),
            Allocation::ZERO_RANGE => {
                if !keeps_len {
                    self.writing.extend(range.end)?;
                }
                return self.writing.zero(range);
            }
            _ => return Err(Error::Unsupported),
        }
        match keeps_len {
            true => Ok(()),
            false => self.writing.extend(range.end),
        }
    }

    fn copy(
        &self,
        from: &dyn Source,
        range: std::ops::Range<u64>,
        to: u64,
        caller: Caller,
    ) -> Result<usize> {
        copy::copy(&self.writing, from, range, to, caller)
    }

    fn flush(&self) -> Result<()> {
        self.writing.file.take_failure()
    }
}
