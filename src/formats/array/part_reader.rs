//! Reads an array from its first byte to its last, in parts, and in memory of its own: a text to be
//! cut into lines.
//!
//! Used by [`super::own_feeds`], and by the formats that write texts.

use std::ops::Range;

use super::Array;
use super::uncached::{DecodeMemory, lent_for, read_into};
use crate::error::Result;
use crate::memory::block::Workspace;
use crate::memory::budget::Hold;

pub(crate) struct PartReader<'a> {
    array: &'a dyn Array,
    len: u64,
    step: u64,
    /// Bytes that have been read.
    done: u64,
    space: Workspace,
    /// What has been read and not taken.
    part: Range<usize>,
}

impl<'a> PartReader<'a> {
    /// `len`: of the array, in bytes, of which so many are read at once; `hold` charges what that
    /// takes.
    pub(crate) fn new(
        array: &'a dyn Array,
        len: u64,
        step: u64,
        hold: impl FnOnce(u64) -> Result<Hold>,
    ) -> Result<PartReader<'a>> {
        let lent = match len {
            0 => 0,
            _ => lent_for(array, 0..len)?,
        };
        let step = step.min(len.max(1));
        let hold = hold(step.saturating_add(lent))?;
        Ok(PartReader {
            array,
            len,
            step,
            done: 0,
            space: Workspace::new(step, lent, hold, step)?,
            part: 0..0,
        })
    }

    /// Begins again.
    pub(crate) fn rewind(&mut self) {
        (self.done, self.part) = (0, 0..0);
    }

    /// What comes next: some bytes, or none at the end.
    pub(crate) fn ahead(&mut self) -> Result<&[u8]> {
        let len = self.step.min(self.len - self.done);
        let (room, scratch) = self.space.parts();
        if self.part.is_empty() && len > 0 {
            let room = &mut room[..len as usize];
            let read = read_into(self.array, self.done, room, DecodeMemory::Lent(scratch));
            read.map_err(|e| e.of_array("", self.array.name()))?;
            self.done += len;
            self.part = 0..len as usize;
        }
        Ok(&room[self.part.clone()])
    }

    /// So many of these bytes have been taken.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.part.start = self.part.end.min(self.part.start.saturating_add(bytes));
    }

    /// All bytes that have been read; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        self.ahead()?;
        let part = std::mem::take(&mut self.part);
        Ok((!part.is_empty()).then(|| &self.space.parts().0[part]))
    }

    /// Lines from here to the end; what lies behind the last line feed is one, too.
    pub(crate) fn count_lines(&mut self) -> Result<u64> {
        let (mut lines, mut open) = (0u64, false);
        while let Some(part) = self.next()? {
            lines += memchr::memchr_iter(b'\n', part).count() as u64;
            open = !part.ends_with(b"\n");
        }
        Ok(lines + u64::from(open))
    }
}
