//! Changing the content of a file: what each way of writing to a handle does on its way.
//!
//! Too much that is held is waited for first, then space is reserved. Uses [`super::files`] and
//! what lies below; used by [`super::copy`] and [`super::handles`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::{MOST_CHUNKS, StoredChunks};
use super::content::{FileContent, ReadChunk};
use super::file::ScratchFile;
use super::files::ScratchFiles;
use super::reserve;
use super::shared::refused;
use super::snapshot::FlushExtent;
use crate::disk::{Caller, NewAttributes, Target};
use crate::error::Result;

/// Of a mode: set-user-id and set-group-id, and that the group may run it.
const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_RUNS: u16 = 0o0010;

/// A file that is open for writing.
pub(super) struct ScratchWriting {
    pub(super) file: Arc<ScratchFile>,
    pub(super) files: Arc<ScratchFiles>,
}

impl ScratchWriting {
    /// A program has changed something of the file's bytes.
    pub(super) fn note_changed(&self) {
        self.file.stamp();
        self.files.note_changed(&self.file);
    }

    /// Changes the content, and says how much is held then.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut FileContent, ReadChunk<'_>) -> Result<()>,
    ) -> Result<u64> {
        let file = &self.file;
        let read = |stored: &StoredChunks, number: u64, at: usize, out: &mut [u8]| {
            file.read_chunk(stored, number, at, out)
        };
        let mut content = file.change();
        let before = content.held_bytes();
        let changed = change(&mut content, &read);
        let held = content.held_bytes();
        drop(content);
        file.shared.charge(held as i64 - before as i64);
        changed.map_err(|e| e.of_container(&file.path))?;
        self.note_changed();
        Ok(held)
    }

    pub(super) fn check_end(&self, end: Option<u64>) -> Result<()> {
        let most = self.file.read().chunk_size().saturating_mul(MOST_CHUNKS);
        match end.is_some_and(|end| end <= most) {
            true => Ok(()),
            false => Err(refused("write", self.file.path.as_os_str(), libc::EFBIG)),
        }
    }

    /// A write takes bits of the mode away, but for a privileged writer.
    pub(super) fn take_set_id(&self, caller: Caller) -> Result<()> {
        let file = &self.file;
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
            file.shared.disk()?.set_attributes(of, &to)?;
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
        let file = &self.file;
        self.check_end(end)?;
        self.files.limit_held(file, len as u64)?;
        reserve::reserve(file, len as u64, caller, |io| {
            file.flush_locked(io, FlushExtent::of_writer(file))
        })?;
        self.take_set_id(caller)?;
        let held = self.change(change)?;
        if reserve::must_store(file) {
            file.flush(FlushExtent::All)?;
        }
        self.files.order(file, held);
        Ok(())
    }

    /// Chunks that become zeros are held till they are stored, so all of a large file is done in
    /// steps.
    pub(super) fn zero(&self, range: Range<u64>) -> Result<()> {
        const STEP: u64 = 16 << 10;
        let file = &self.file;
        let step = file.read().chunk_size().saturating_mul(STEP);
        let end = range.end.min(file.read().len);
        let mut at = range.start;
        loop {
            let next = at.saturating_add(step).min(end.max(at));
            self.files.limit_held(file, 0)?;
            self.change(|content, read| content.zero(at..next, read))?;
            at = next;
            if at >= end {
                return Ok(());
            }
        }
    }

    /// Makes the file so long, if it is shorter.
    pub(super) fn extend(&self, to: u64) -> Result<()> {
        let extend = |content: &mut FileContent, read: ReadChunk<'_>| match to > content.len {
            true => content.set_len(to, read),
            false => Ok(()),
        };
        self.change(extend).map(drop)
    }
}
