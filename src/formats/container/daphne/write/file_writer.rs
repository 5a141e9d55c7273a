//! A file as it is told from its start to its end: bytes that are new, and stretches that stay.
//!
//! As long as what stays is where it was, a commit in place is told nothing of it. Used by
//! [`super::cells`] and [`super::entries`].

use std::ops::Range;

use crate::container::writable::{CommitWay, MemberNumber, Recipe};
use crate::error::{Error, Result};
use crate::memory::fallible;

/// New bytes that are told at once.
const BUFFER: usize = 256 << 10;

const FILE: MemberNumber = MemberNumber::ONLY;

pub(crate) struct FileWriter<'w> {
    write: &'w mut dyn Recipe,
    way: CommitWay,
    /// Bytes that were told, or stay.
    done: u64,
    /// New bytes that follow, or stretches of the file as it is that do: one of both.
    pending: Vec<u8>,
    kept: Range<u64>,
    old_len: u64,
}

impl<'w> FileWriter<'w> {
    /// `old_len`: of the file as it is.
    pub(crate) fn begin(
        write: &'w mut dyn Recipe,
        way: CommitWay,
        old_len: u64,
    ) -> Result<FileWriter<'w>> {
        if way == CommitWay::InPlace {
            write.keep_rest(FILE)?;
        }
        Ok(FileWriter {
            write,
            way,
            done: 0,
            kept: 0..0,
            pending: fallible::room_for(BUFFER, "cannot write a container")?,
            old_len,
        })
    }

    /// The next bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.flush_kept()?;
        for bytes in bytes.chunks(BUFFER) {
            if self.pending.len() + bytes.len() > BUFFER {
                self.flush()?;
            }
            self.pending.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// The next bytes are these of the file as it is.
    pub(super) fn keep(&mut self, from: Range<u64>) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        self.flush()?;
        if from.start != self.kept.end {
            self.flush_kept()?;
            self.kept.start = from.start;
        }
        self.kept.end = from.end;
        Ok(())
    }

    /// The next bytes lie there already.
    pub(super) fn lies(&mut self, at: Range<u64>) -> Result<()> {
        self.flush()?;
        self.flush_kept()?;
        if at.start != self.done {
            let fault = format!("what lies at {at:?} is told at {}", self.done);
            return Err(Error::Bug(fault));
        }
        self.done = at.end;
        self.write.lies(FILE, at)
    }

    fn flush(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.write.put(FILE, self.done, &self.pending)?;
            self.done = self.done.saturating_add(self.pending.len() as u64);
            self.pending.clear();
        }
        Ok(())
    }

    fn flush_kept(&mut self) -> Result<()> {
        let from = std::mem::take(&mut self.kept);
        if from.is_empty() {
            return Ok(());
        }
        let len = from.end - from.start;
        if self.way == CommitWay::Replaced || from.start != self.done {
            self.write.copy(FILE, from, self.done)?;
        }
        self.done = self.done.saturating_add(len);
        Ok(())
    }

    /// The file ends here.
    pub(super) fn end(mut self) -> Result<()> {
        self.flush()?;
        self.flush_kept()?;
        match self.way == CommitWay::Replaced || self.done != self.old_len {
            true => self.write.set_len(FILE, self.done),
            false => Ok(()),
        }
    }
}
