//! Handles of a scratch file: what the tree reads, writes and closes.
//!
//! Used by [`super::store`] and [`super::disk`], which open them.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::{MOST_CHUNKS, StoredChunks};
use super::content::{FileContent, ReadChunk};
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::{copy, holes, reserve};
use crate::disk::{Allocation, Caller, DiskFile, Durability, NewAttributes, Putting, Target};
use crate::error::{Error, Fault, Result};
use crate::source::{Fetch, PosixFile, Source, SourceIdentity, Stat};

/// Of a mode: set-user-id and set-group-id, and that the group may run it.
const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_RUNS: u16 = 0o0010;

/// Bits of fallocate(2).
pub(super) const KEEP_SIZE: u32 = 0x01;
pub(super) const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

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
}

impl ScratchWriter {
    pub(super) fn new(file: Arc<ScratchFile>) -> Result<ScratchWriter> {
        let reader = ScratchReader::new(file)?;
        Ok(ScratchWriter { reader })
    }

    pub(super) fn file(&self) -> &Arc<ScratchFile> {
        &self.reader.file
    }

    /// Changes the content, and says how much is held then.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut FileContent, ReadChunk<'_>) -> Result<()>,
    ) -> Result<u64> {
        let file = self.file();
        let read = |stored: &StoredChunks, number: u64, at: usize, out: &mut [u8]| {
            file.read_chunk(stored, number, at, out)
        };
        let mut content = file.change();
        let before = content.held_bytes();
        let changed = change(&mut content, &read);
        let held = content.held_bytes();
        drop(content);
        file.room.charge(held as i64 - before as i64);
        changed.map_err(|e| e.of_container(&file.path))?;
        file.stamp();
        file.room.note_changed(file);
        Ok(held)
    }

    pub(super) fn check_end(&self, end: Option<u64>) -> Result<()> {
        let most = self.file().read().chunk_size().saturating_mul(MOST_CHUNKS);
        match end.is_some_and(|end| end <= most) {
            true => Ok(()),
            false => {
                let what = format!("cannot write {}", self.file().path.display());
                Err(Error::io(
                    what,
                    std::io::Error::from_raw_os_error(libc::EFBIG),
                ))
            }
        }
    }

    /// A write takes bits of the mode away, but for a privileged writer.
    pub(super) fn take_set_id(&self, caller: Caller) -> Result<()> {
        let file = self.file();
        if caller.uid == 0 || !file.may_have_set_id.load(Ordering::Relaxed) {
            return Ok(());
        }
        let stat = file.reader.stat()?;
        let mut mode = stat.mode & !SET_USER;
        if mode & GROUP_RUNS != 0 || caller.gid != stat.gid {
            mode &= !SET_GROUP;
        }
        if mode != stat.mode {
            let to = NewAttributes {
                mode: Some(mode.into()),
                ..NewAttributes::default()
            };
            let of = Target::Open(file.writer()?.source());
            file.room.disk()?.set_attributes(of, &to)?;
        }
        file.may_have_set_id.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// A write of so many bytes up to an offset.
    pub(super) fn write(
        &self,
        (end, len): (Option<u64>, usize),
        caller: Caller,
        change: impl FnOnce(&mut FileContent, ReadChunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let file = self.file();
        self.check_end(end)?;
        file.room.make_room(file, len as u64)?;
        reserve::reserve(file, len as u64, caller)?;
        self.take_set_id(caller)?;
        let held = self.change(change)?;
        if reserve::must_store(file) {
            file.flush(FlushExtent::All)?;
        }
        file.room.order(file, held);
        Ok(())
    }

    /// Chunks that become zeros are held till they are stored, so all of a large file is done in
    /// steps.
    fn zero(&self, range: std::ops::Range<u64>) -> Result<()> {
        const STEP: u64 = 16 << 10;
        let file = self.file();
        let step = file.read().chunk_size().saturating_mul(STEP);
        let end = range.end.min(file.read().len);
        let mut at = range.start;
        loop {
            let next = at.saturating_add(step).min(end.max(at));
            file.room.make_room(file, 0)?;
            self.change(|content, read| content.zero(at..next, read))?;
            at = next;
            if at >= end {
                return Ok(());
            }
        }
    }

    fn extend(&self, to: u64) -> Result<()> {
        let extend = |content: &mut FileContent, read: ReadChunk<'_>| match to > content.len {
            true => content.set_len(to, read),
            false => Ok(()),
        };
        self.change(extend).map(drop)
    }
}

impl DiskFile for ScratchWriter {
    fn source(&self) -> &dyn Source {
        &self.reader
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        let file = self.file();
        let at = match how.append {
            true => file.read().len,
            false => offset,
        };
        let end = at.checked_add(bytes.len() as u64);
        self.write((end, bytes.len()), caller, |content, read| {
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
        self.check_end(Some(len))?;
        self.take_set_id(caller)?;
        self.change(|content, read| content.set_len(len, read))
            .map(drop)
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        let range = what.offset..what.offset.saturating_add(what.len);
        self.check_end(Some(range.end))?;
        self.take_set_id(caller)?;
        let keeps_len = what.mode & KEEP_SIZE != 0;
        match what.mode & !KEEP_SIZE {
            0 => {
                reserve::reserve_ahead(self.file(), &range, caller)?;
                self.file().stamp();
                self.file().room.note_changed(self.file());
            }
            PUNCH_HOLE if keeps_len => return self.zero(range),
            ZERO_RANGE => {
                if !keeps_len {
                    self.extend(range.end)?;
                }
                return self.zero(range);
            }
            _ => return Err(Error::Unsupported),
        }
        match keeps_len {
            true => Ok(()),
            false => self.extend(range.end),
        }
    }

    fn copy(
        &self,
        from: &dyn Source,
        range: std::ops::Range<u64>,
        to: u64,
        caller: Caller,
    ) -> Result<usize> {
        copy::copy(self, from, range, to, caller)
    }

    fn flush(&self) -> Result<()> {
        self.file().take_failure()
    }
}
