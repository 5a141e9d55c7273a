//! Memory for writing a container: reserved once, for every array of it.
//!
//! A space is for one thread at a time: it holds what a block of a stream is encoded from and to, or what is read of an
//! array at once. Used by `blocks`, `recipe` and `consistency`.

use std::ops::Range;
use std::sync::Arc;

use super::member_writer::{BUFFER, WINDOW};
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::codec::bp128::CHUNK;
use crate::container::bpcells::packed::BLOCK_BYTES;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::{Budget, Hold};
use crate::memory::{Scratch, room};

/// Shown bytes of a chunk.
pub(super) const CHUNK_BYTES: u64 = 4 * CHUNK as u64;

/// Chunks of a block.
pub(super) const CHUNKS: u64 = BLOCK_BYTES / CHUNK_BYTES;

/// What a block is encoded to: an index entry for every chunk and one more, start values, and words at full width.
const ENCODED: u64 = 4 * (CHUNKS + 1) + 4 * CHUNKS + BLOCK_BYTES;

/// What it is encoded from, beside what reading it takes: values, what is subtracted from them, and tables.
const VALUES: u64 = 2 * room(BLOCK_BYTES) + room(4 * (CHUNKS + 1)) + room(4 * CHUNKS);

/// Zeros that stand for many: whole values of every width, and pairs of them.
const FEW_ZEROS: u64 = 16;

/// Files that are written side by side.
const WRITERS: u64 = 4;

/// What is encoded ahead takes no more of the budget at a time than one of so many parts.
const SPARE_PART: u64 = 16;

/// What reading a range takes beside the bytes themselves.
pub(super) fn lent(array: &dyn Array, range: Range<u64>) -> Result<u64> {
    match range.is_empty() {
        true => Ok(0),
        false => lent_for(array, range),
    }
}

/// Spaces to encode in, one for each thread.
pub(super) struct EncodeSpaces {
    pub(super) each: Vec<Workspace>,
    /// For what is put together before it is told.
    _buffers: Hold,
}

impl EncodeSpaces {
    /// For what one thread does.
    pub(super) fn first(&mut self) -> Result<&mut Workspace> {
        let none = || Error::Bug("there is no memory to write with".into());
        self.each.first_mut().ok_or_else(none)
    }
}

/// Spaces for as many threads (`lanes`) as there is work and memory for, at least one. Never waited for: what is staged takes
/// memory that may only be given back by who asks here.
pub(super) fn spaces(lent: u64, lanes: u64, budget: &Arc<Budget>) -> Result<EncodeSpaces> {
    let each = each(lent);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let affordable = budget.limit() / 2 / each.max(1);
    let most = cores.min(lanes).min(affordable).max(1);
    let buffers = WRITERS * (BUFFER + WINDOW) as u64;
    let all = each.saturating_mul(most).saturating_add(buffers);
    let (mut hold, count) = match budget.try_reserve(all) {
        Some(hold) => (hold, most),
        None => (at_once(each.saturating_add(buffers), budget), 1),
    };
    let spaces = (0..count).map(|_| space(lent, hold.split(each)));
    Ok(EncodeSpaces {
        each: spaces.collect::<Result<_>>()?,
        _buffers: hold,
    })
}

/// One, if there is memory for it, so much that nobody would miss it.
pub(super) fn spare_space(lent: u64, budget: &Arc<Budget>) -> Result<Option<Workspace>> {
    let each = each(lent);
    if each > budget.limit() / SPARE_PART {
        return Ok(None);
    }
    let hold = budget.try_reserve(each);
    hold.map(|hold| space(lent, hold)).transpose()
}

/// A space to read an array through, and nothing else.
pub(super) fn reading_space(lent: u64, budget: &Arc<Budget>) -> Result<Workspace> {
    let hold = at_once(BLOCK_BYTES.saturating_add(lent), budget);
    Workspace::new(BLOCK_BYTES, lent, hold, BLOCK_BYTES)
}

/// A charge for so much that it is not waited for.
pub(super) fn at_once(bytes: u64, budget: &Arc<Budget>) -> Hold {
    let free = budget.try_reserve(bytes);
    free.unwrap_or_else(|| budget.keep_built(bytes))
}

fn each(lent: u64) -> u64 {
    ENCODED.saturating_add(VALUES).saturating_add(lent)
}

fn space(lent: u64, hold: Hold) -> Result<Workspace> {
    Workspace::new(ENCODED, VALUES.saturating_add(lent), hold, ENCODED)
}

/// The ranges of at most a block that a range is read in; none begins in one block and ends in another.
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

/// The same of an array, but of zeros that go on for blocks (a length that was set, a range that was emptied) only the first
/// few: for who learns nothing from the others.
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

/// Fills `out` with bytes of an array, whose name an error tells.
pub(super) fn read_part(
    array: &dyn Array,
    at: u64,
    out: &mut [u8],
    scratch: Scratch<'_>,
) -> Result<()> {
    let read = read_into(array, at, out, DecodeMemory::Lent(scratch));
    read.map_err(|e| e.of_array("", array.name()))
}
