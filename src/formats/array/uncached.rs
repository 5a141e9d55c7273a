//! Reading an array without a cache: for arrays that are made of others, for the rules that a full
//! check applies to whole arrays, and for tests. A reader of the same bytes again goes through
//! [`super::read`], or below the cache through [`super::nested`].

use std::ops::Range;
use std::sync::Arc;

use super::gather::{self, PieceSource};
use super::steps::PieceSteps;
use super::{Array, BlockId, Piece};
use crate::error::Result;
use crate::memory::block::{Block, Workspace};
use crate::memory::budget::{Budget, Hold};
use crate::memory::{Arena, room};
use crate::patience;

pub use super::steps::PlacedRange;

/// In memory to be filled, in tests: a byte that a decoder leaves out is seen.
const UNWRITTEN: u8 = 0xee;

/// Direct bytes that a check reads at once.
const STEP: u64 = 64 << 10;

/// Where the memory for decoding a block comes from.
pub enum DecodeMemory<'a> {
    /// Waited for: the caller holds none.
    Reserved(&'a Arc<Budget>),
    /// Handed over by the caller: what [`lent`] says for the largest block.
    Lent(Arena<'a>),
}

/// Scratch memory to be lent for reading blocks of up to `block_len` bytes, whose decode takes up
/// to `scratch`.
pub const fn lent(block_len: u64, scratch: u64) -> u64 {
    room(block_len).saturating_add(scratch)
}

/// Scratch memory to be lent for reading a range of an array.
pub fn lent_for(array: &dyn Array, range: Range<u64>) -> Result<u64> {
    let ranges = [PlacedRange { from: range, to: 0 }];
    let mut steps = PieceSteps::new(array, &ranges);
    let (mut placed, mut most) = (Vec::new(), 0);
    while !steps.is_done() {
        patience::check()?;
        steps.next(&mut placed)?;
        for group in placed.chunk_by(gather::same_block) {
            if let Some(Piece::Block { id, block_len, .. }) = group.first().map(|p| p.piece) {
                most = most.max(lent(block_len, array.scratch(id)));
            }
        }
    }
    Ok(most)
}

struct Uncached<'a, 'm> {
    array: &'a dyn Array,
    memory: DecodeMemory<'m>,
}

/// Fills `out` with the array's bytes from `at` on.
pub fn read_into(
    array: &dyn Array,
    at: u64,
    out: &mut [u8],
    memory: DecodeMemory<'_>,
) -> Result<()> {
    let from = at..at.saturating_add(out.len() as u64);
    gather(array, &[PlacedRange { from, to: 0 }], out, memory)
}

/// Copies ranges to their places in `out`. A block is decoded once, unless its pieces are very
/// many.
pub fn gather(
    array: &dyn Array,
    ranges: &[PlacedRange],
    out: &mut [u8],
    memory: DecodeMemory<'_>,
) -> Result<()> {
    gather::gather(array, ranges, &mut Uncached { array, memory }, out)
}

/// Decodes or reads a piece for its faults alone. `done` is told the bytes that have been, as they
/// are: of a piece without blocks, which may be all of an array, a step at a time.
pub fn check(
    array: &dyn Array,
    piece: Piece,
    budget: &Arc<Budget>,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut source = Uncached {
        array,
        memory: DecodeMemory::Reserved(budget),
    };
    match piece {
        Piece::Block { id, block_len, .. } => {
            source.block(id, block_len, &mut |_| Ok(()))?;
            done(block_len);
        }
        Piece::Direct { at, take } => {
            let mut space = Workspace::new(STEP, 0, budget.reserve(STEP), STEP)?;
            let (buffer, _) = space.parts();
            for from in (0..take).step_by(STEP as usize) {
                let len = STEP.min(take - from);
                array.read_direct(at + from, &mut buffer[..len as usize])?;
                done(len);
            }
        }
    }
    Ok(())
}

impl DecodeMemory<'_> {
    /// Lends `use_it` the memory for a block of `len` bytes (none, if it is decoded to where it
    /// belongs) and for its decode.
    fn with(
        &mut self,
        len: u64,
        scratch: u64,
        use_it: impl FnOnce(&mut [u8], Arena<'_>) -> Result<()>,
    ) -> Result<()> {
        let bytes = len.saturating_add(scratch);
        match self {
            DecodeMemory::Reserved(budget) => {
                let mut space = Workspace::new(len, scratch, budget.reserve(bytes), len)?;
                let (block, scratch) = space.parts();
                use_it(block, scratch)
            }
            DecodeMemory::Lent(lent) => {
                let mut lent = lent.lend();
                let block = lent.take(len)?;
                use_it(block, lent)
            }
        }
    }
}

impl PieceSource for Uncached<'_, '_> {
    fn block(
        &mut self,
        id: BlockId,
        len: u64,
        copy: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let array = self.array;
        if let Some(block) = at_hand(array, id, len) {
            return copy(block.bytes());
        }
        self.memory.with(len, array.scratch(id), |block, scratch| {
            #[cfg(test)]
            block.fill(UNWRITTEN);
            array.decode(id, block, scratch)?;
            copy(block)
        })
    }

    fn whole_block(&mut self, id: BlockId, out: &mut [u8]) -> Result<()> {
        let array = self.array;
        if let Some(block) = at_hand(array, id, out.len() as u64) {
            out.copy_from_slice(block.bytes());
            return Ok(());
        }
        let decode = |_: &mut [u8], scratch: Arena<'_>| array.decode(id, out, scratch);
        match array.scratch(id) {
            0 => array.decode(id, out, Arena::none()),
            len => self.memory.with(0, len, decode),
        }
    }

    fn direct(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }
}

fn at_hand(array: &dyn Array, id: BlockId, len: u64) -> Option<Arc<Block>> {
    let block = array.at_hand(id)?;
    (block.bytes().len() as u64 == len).then_some(block)
}

/// The bytes of a range.
#[doc(hidden)]
pub fn read(array: &dyn Array, range: Range<u64>) -> Result<Vec<u8>> {
    let budget = Budget::new(1 << 30);
    let mut bytes = vec![UNWRITTEN; (range.end - range.start) as usize];
    let memory = DecodeMemory::Reserved(&budget);
    read_into(array, range.start, &mut bytes, memory)?;
    Ok(bytes)
}

#[doc(hidden)]
pub fn read_all(array: &dyn Array) -> Result<Vec<u8>> {
    read(array, 0..array.info()?.bytes)
}

/// Reads an array from its first byte to its last, in parts and in memory of its own: a text to be
/// cut into lines.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::direct::DirectArray;
    use crate::array::dtype::Dtype;
    use crate::array::{Info, Order};
    use crate::error::Fault;

    #[test]
    fn what_has_been_checked_of_a_piece_is_told_as_far_as_it_is_good() {
        let info = Info {
            dtype: Dtype::U8,
            shape: vec![5 * STEP],
            order: Order::C,
            bytes: 5 * STEP,
            stored_bytes: 0,
            blocks: 1,
            codec: "none".into(),
        };
        let array = DirectArray::new("a".into(), info, |at, out: &mut [u8]| {
            match at + out.len() as u64 > 4 * STEP {
                true => Err(Fault::new("bad bytes").into()),
                false => Ok(()),
            }
        });
        let mut told = Vec::new();
        let mut check = |take| {
            let piece = Piece::Direct { at: 0, take };
            let budget = Budget::new(1 << 20);
            let checked = super::check(&array, piece, &budget, &mut |bytes| told.push(bytes));
            (checked.is_ok(), std::mem::take(&mut told))
        };
        assert_eq!(check(STEP * 2 + 1), (true, vec![STEP, STEP, 1]));
        assert_eq!(check(STEP * 5), (false, vec![STEP; 4]));
    }
}
