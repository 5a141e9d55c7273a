//! Memory to read arrays in while a container is written or judged, and the steps in which they are
//! read.
//!
//! What is encoded in, and to, is [`EncodeMemory`]: one for every array of a container. Used by
//! `blocks`, `recipe` and `consistency`.

use std::ops::Range;
use std::sync::Arc;

use super::member_writer::{BUFFER, WINDOW};
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::codec::bp128::CHUNK;
use crate::container::bpcells::packed::BLOCK_BYTES;
use crate::container::chunked_write::memory::{EncodeMemory, EncodeNeeds, at_once};
use crate::error::Result;
use crate::memory::Arena;
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;

/// Shown bytes of a chunk.
pub(super) const CHUNK_BYTES: u64 = 4 * CHUNK as u64;

/// Chunks of a block.
pub(super) const CHUNKS: u64 = BLOCK_BYTES / CHUNK_BYTES;

/// Zeros that stand for many: whole values of every width, and pairs of them.
const FEW_ZEROS: u64 = 16;

/// Files that are written side by side.
const WRITERS: u64 = 4;

/// What reading a range takes beside the bytes themselves.
pub(super) fn lent(array: &dyn Array, range: Range<u64>) -> Result<u64> {
    match range.is_empty() {
        true => Ok(0),
        false => lent_for(array, range),
    }
}

/// What a thread takes that reads an array and does not encode.
pub(super) fn reading(lent: u64) -> EncodeNeeds {
    EncodeNeeds {
        plain: 0,
        out: BLOCK_BYTES,
        scratch: lent,
    }
}

/// For so many threads that have something to do, and what is put together before it is told.
pub(super) fn encode_memory(
    needs: EncodeNeeds,
    lanes: u64,
    budget: &Arc<Budget>,
) -> Result<EncodeMemory> {
    let buffers = WRITERS * (BUFFER + WINDOW) as u64;
    EncodeMemory::reserve(&|_| Ok(needs), lanes, buffers, budget)
}

/// A space to read an array through, and nothing else.
pub(super) fn reading_space(lent: u64, budget: &Arc<Budget>) -> Result<Workspace> {
    let hold = at_once(BLOCK_BYTES.saturating_add(lent), budget);
    Workspace::new(BLOCK_BYTES, lent, hold, BLOCK_BYTES)
}

/// The ranges of at most a block that a range is read in; none begins in one block and ends in
/// another.
pub(super) fn steps(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let step = at..range
            .end
            .min((at - at % BLOCK_BYTES).saturating_add(BLOCK_BYTES));
        at = step.end;
        (step.start < step.end).then_some(step)
    })
}

/// The ranges of at most a block that a range of an array is read in, but of zeros that go on for
/// blocks (a length that was set, a range that was emptied) only the first few: the others add
/// nothing.
pub(super) fn telling_steps(
    array: &dyn Array,
    range: Range<u64>,
) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let zeros = at.saturating_add(array.zeros_ahead(at..range.end));
        let whole = zeros - zeros % BLOCK_BYTES;
        let mut step = steps(at..range.end).next()?;
        at = step.end;
        if whole >= step.end {
            at = whole;
            step.end = step.end.min(step.start.saturating_add(FEW_ZEROS));
        }
        Some(step)
    })
}

/// Such a range of an array.
pub(super) fn read_step<'s>(
    array: &dyn Array,
    step: &Range<u64>,
    space: &'s mut Workspace,
) -> Result<&'s [u8]> {
    let (out, scratch) = space.parts();
    let len = step.end.saturating_sub(step.start).min(BLOCK_BYTES) as usize;
    let out = &mut out[..len];
    read_part(array, step.start, out, scratch)?;
    Ok(out)
}

/// Fills `out` with bytes of an array, which an error names.
pub(super) fn read_part(
    array: &dyn Array,
    at: u64,
    out: &mut [u8],
    scratch: Arena<'_>,
) -> Result<()> {
    let read = read_into(array, at, out, DecodeMemory::Lent(scratch));
    read.map_err(|e| e.of_array("", array.name()))
}
