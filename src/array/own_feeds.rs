//! Line feeds that values of a text have of their own.
//!
//! A text is shown as a line for each value, so a value with line feeds is several lines, and who
//! copies the lines has lost where it ends. `arrays.json` tells how many each such value has. Only
//! an array that knows the lengths of its values can say that ([`Array::value_lengths`]). Texts
//! are read for it, so long ones are not looked into. Used by `container::hdf5`.

use std::ops::Range;
use std::sync::Arc;

use super::uncached::{DecodeMemory, lent_for, read_into};
use super::{Array, Info};
use crate::error::{Fault, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;

/// Shown bytes of a text that is looked into at most.
pub const MOST: u64 = 16 << 20;

/// Most values that are told of one text.
const VALUES_MOST: usize = 100_000;

/// Bytes that are read at once.
const STEP: u64 = 256 << 10;

/// A value, and how many line feeds it has.
pub type OwnFeeds = (u64, u64);

/// What of a text is told, in the order of its values; nothing of one that is too long, or has too
/// many such values: its lines are more than its values then, and nobody says how many each has.
pub fn find(array: &dyn Array, info: &Info, budget: &Arc<Budget>) -> Result<Vec<OwnFeeds>> {
    let product = info
        .shape
        .iter()
        .try_fold(1u64, |n, dim| n.checked_mul(*dim));
    let Some(values) = product.filter(|_| info.bytes <= MOST && info.bytes > 0) else {
        return Ok(Vec::new());
    };
    let mut reader = FeedReader::new(array, info.bytes, budget)?;
    if reader.count(info.bytes)? == values {
        return Ok(Vec::new());
    }
    let (mut number, mut found) = (0, Vec::new());
    reader.rewind();
    array.value_lengths(&mut |len| {
        let feeds = reader.count(len)?;
        // Its end.
        reader.count(1)?;
        if feeds > 0 && found.len() <= VALUES_MOST {
            found.push((number, feeds));
        }
        number += 1;
        Ok(())
    })?;
    found.truncate(if found.len() > VALUES_MOST {
        0
    } else {
        found.len()
    });
    Ok(found)
}

/// Counts line feeds from the first byte to the last.
struct FeedReader<'a> {
    array: &'a dyn Array,
    len: u64,
    done: u64,
    space: Workspace,
    /// What has been read and not counted.
    part: Range<usize>,
}

impl<'a> FeedReader<'a> {
    fn new(array: &'a dyn Array, len: u64, budget: &Arc<Budget>) -> Result<Self> {
        let (step, lent) = (STEP.min(len), lent_for(array, 0..len)?);
        let hold = budget.keep(step.saturating_add(lent))?;
        Ok(FeedReader {
            array,
            len,
            done: 0,
            space: Workspace::new(step, lent, hold, step)?,
            part: 0..0,
        })
    }

    fn rewind(&mut self) {
        (self.done, self.part) = (0, 0..0);
    }

    /// Those among the next so many bytes.
    fn count(&mut self, mut bytes: u64) -> Result<u64> {
        let mut feeds = 0;
        while bytes > 0 {
            if self.part.is_empty() {
                self.read()?;
            }
            let n = (self.part.len() as u64).min(bytes);
            let end = self.part.start + n as usize;
            let counted = &self.space.parts().0[self.part.start..end];
            feeds += memchr::memchr_iter(b'\n', counted).count() as u64;
            self.part.start = end;
            bytes -= n;
        }
        Ok(feeds)
    }

    fn read(&mut self) -> Result<()> {
        let len = STEP.min(self.len - self.done);
        if len == 0 {
            return Err(Fault::new("the values of a text are longer than the text").into());
        }
        let (room, scratch) = self.space.parts();
        let memory = DecodeMemory::Lent(scratch);
        read_into(self.array, self.done, &mut room[..len as usize], memory)?;
        self.done += len;
        self.part = 0..len as usize;
        Ok(())
    }
}
