//! Chunks that lie in shards: found by the index of each, which is read once and kept for a while.
//!
//! An index is an array of its own ([`ShardIndex`]), whose blocks are kept by [`NestedBlocks`];
//! what its entries claim is checked when it is read: an entry that cannot be right costs its chunk
//! alone, one that lies over others all of these. A shard that is encoded as a whole is decoded
//! before ([`WrappedShards`]). Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::places::{ChunkAt, ChunkLookup, Counts, VisitPlace};
use super::wrapped::WrappedShards;
use crate::array::dtype::Dtype;
use crate::array::nested::{NestedArray, NestedBlocks};
use crate::array::{Array, BlockId, Info, Order, Piece, even_pieces};
use crate::container::zarr::damage;
use crate::container::zarr::plan::{ENTRY, ShardLevel};
use crate::error::{Fault, Result};
use crate::memory::{Arena, room};
use crate::source::StoredRanges;

/// An entry of a chunk that is missing.
const MISSING: u64 = u64::MAX;

/// Lengths of entries whose chunk begins at [`MISSING`]: what is wrong with them.
const OUTSIDE: u64 = 1;
const OVERLAPS: u64 = 2;

/// Chunks of a level, in shards of the one around.
pub(in super::super) struct ShardedChunks {
    outer: Arc<dyn ChunkLookup>,
    level: Arc<ShardLevel>,
    /// Of the chunks in the whole array.
    counts: Counts,
    index: NestedArray,
}

impl ShardedChunks {
    /// The chunks in the shards that `outer` finds. `shape`: of the array.
    pub(in super::super) fn new(
        outer: Arc<dyn ChunkLookup>,
        level: ShardLevel,
        (shape, inner): (&[u64], &[u64]),
        nested: &Arc<NestedBlocks>,
    ) -> Result<ShardedChunks> {
        let level = Arc::new(level);
        let outer = match level.around.is_plain() {
            true => outer,
            false => WrappedShards::around(outer, &level, nested),
        };
        let counts = Counts::new(shape, &level.chunk);
        let shards = counts.total();
        let bytes = shards.and_then(|n| n.checked_mul(level.entries.checked_mul(ENTRY as u64)?));
        let bytes = bytes.ok_or_else(|| Fault::new("the array has too many chunks"))?;
        let index: Arc<dyn Array> = Arc::new(ShardIndex {
            outer: Arc::clone(&outer),
            level: Arc::clone(&level),
            bytes,
        });
        Ok(ShardedChunks {
            outer,
            level,
            counts: Counts::new(shape, inner),
            index: nested.array(index),
        })
    }

    /// The shard that a chunk lies in, and its number in there.
    fn in_shard(&self, place: &[u64]) -> Option<(Vec<u64>, u64)> {
        let counts = &self.level.counts;
        let shard = place
            .iter()
            .zip(counts)
            .map(|(at, count)| at / count)
            .collect();
        let within = |dim: &usize| Some((place.get(*dim)? % counts.get(*dim)?, *counts.get(*dim)?));
        let mut dims = self.level.order.iter();
        let number = dims.try_fold(0u64, |number, dim| {
            let (at, count) = within(dim)?;
            number.checked_mul(count)?.checked_add(at)
        });
        Some((shard, number?))
    }

    /// An entry of a shard's index: where a chunk lies in the shard.
    fn entry(&self, shard: &[u64], number: u64) -> Result<[u64; 2]> {
        let at = self.outer.number(shard).and_then(|shard| {
            let before = shard.checked_mul(self.level.entries)?.checked_add(number)?;
            before.checked_mul(ENTRY as u64)
        });
        let at = at.ok_or_else(|| Fault::new("there is no such chunk"))?;
        let mut entry = [0; ENTRY];
        self.index.read(at, &mut entry)?;
        let word = |at: usize| {
            let bytes = entry.get(at..).and_then(|rest| rest.first_chunk());
            bytes.copied().map_or(MISSING, u64::from_le_bytes)
        };
        Ok([word(0), word(8)])
    }
}

impl ChunkLookup for ShardedChunks {
    fn locate(&self, place: &[u64]) -> Result<Option<ChunkAt>> {
        let found = self.in_shard(place);
        let (shard, number) = found.ok_or_else(|| Fault::new("there is no such chunk"))?;
        let Some(around) = self.outer.locate(&shard)? else {
            return Ok(None);
        };
        let wrong = |what: &str| {
            let fault = Fault::new(format!("entry {number} of the shard's index {what}"));
            Err(fault.bytes(around.range.clone()).into())
        };
        match self.entry(&shard, number)? {
            [MISSING, MISSING] => Ok(None),
            [MISSING, OVERLAPS] => wrong("lies over another one"),
            [MISSING, _] => wrong("lies outside of the shard, or in its index"),
            [start, len] => {
                let start = around.range.start.saturating_add(start);
                Ok(Some(ChunkAt {
                    range: start..start.saturating_add(len),
                    source: around.source,
                }))
            }
        }
    }

    fn rounds(&self) -> u32 {
        self.outer.rounds() + 1
    }

    /// What lies around comes first, then the index.
    fn name(&self, place: &[u64], round: u32, needed: &mut StoredRanges) -> Result<()> {
        let Some((shard, _)) = self.in_shard(place) else {
            return Ok(());
        };
        if round < self.outer.rounds() {
            return self.outer.name(&shard, round, needed);
        }
        let number = self.outer.number(&shard);
        let Some(number) = number.filter(|number| !self.index.has(BlockId(*number))) else {
            return Ok(());
        };
        let len = self.level.entries.saturating_mul(ENTRY as u64);
        let at = number.saturating_mul(len);
        self.index
            .stored(at..at.saturating_add(len), 0, needed)
            .map(drop)
    }

    fn number(&self, place: &[u64]) -> Option<u64> {
        self.counts.number(place)
    }

    fn place(&self, number: u64) -> Vec<u64> {
        self.counts.place(number)
    }

    fn list(&self) -> Result<()> {
        self.outer.list()
    }

    fn has_row(&self, first: u64) -> bool {
        let along = self.level.counts.first().copied().unwrap_or(1);
        self.outer.has_row(first / along.max(1))
    }

    fn each_stored(&self, visit: VisitPlace<'_>) -> Result<()> {
        let counts = &self.level.counts;
        let within = Counts::new(counts, &vec![1; counts.len()]);
        self.outer.each_stored(&mut |shard| {
            for number in 0..self.level.entries {
                let mut place = within.place(number);
                for ((at, shard), count) in place.iter_mut().zip(shard).zip(counts) {
                    *at = at.saturating_add(shard.saturating_mul(*count));
                }
                // Those behind the array's end are stored by some, and shown by nobody.
                let is_stored = self.number(&place).is_some()
                    && self.locate(&place).map_or(true, |found| found.is_some());
                if is_stored {
                    visit(&place)?;
                }
            }
            Ok(())
        })
    }

    fn are_unchanged(&self) -> Result<bool> {
        self.outer.are_unchanged()
    }
}

/// The indices of all shards of a level: a block each, as little-endian numbers.
struct ShardIndex {
    outer: Arc<dyn ChunkLookup>,
    level: Arc<ShardLevel>,
    bytes: u64,
}

impl ShardIndex {
    fn block_len(&self) -> u64 {
        self.level.entries.saturating_mul(ENTRY as u64)
    }

    /// Where the index of a shard lies in it.
    fn index_range(&self, shard: &ChunkAt) -> Result<Range<u64>> {
        let (len, bytes) = (self.level.index_bytes, &shard.range);
        if shard.len() < len {
            let fault = Fault::new("the shard is too short for its index");
            let fault = fault
                .bytes(bytes.clone())
                .expected(format_args!("at least {len}"));
            return Err(fault.found(shard.len()).into());
        }
        Ok(match self.level.is_index_at_end {
            true => bytes.end - len..bytes.end,
            false => bytes.start..bytes.start + len,
        })
    }
}

impl Array for ShardIndex {
    fn name(&self) -> &str {
        ""
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::U64,
            shape: vec![self.bytes / 8],
            order: Order::C,
            bytes: self.bytes,
            stored_bytes: self.bytes,
            blocks: self.bytes / self.block_len().max(1),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        even_pieces(self.bytes, self.block_len().max(1), range, out);
        Ok(())
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        let numbers = room(self.level.entries.saturating_mul(8));
        room(self.level.index_bytes)
            .saturating_add(self.level.index.scratch())
            .saturating_add(numbers)
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(block) = piece.block()
            && let Some(shard) = self.outer.locate(&self.outer.place(block.0))?
        {
            needed.name(&shard.source, self.index_range(&shard)?);
        }
        Ok(false)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let shard = self.outer.locate(&self.outer.place(block.0))?;
        let Some(shard) = shard else {
            out.fill(0xff);
            return Ok(());
        };
        let range = self.index_range(&shard)?;
        let sorted = scratch.take_u64s(self.level.entries)?;
        let stored = scratch.take(self.level.index_bytes)?;
        shard.source.fetch_one(range.start, stored)?;
        let decoded = self
            .level
            .index
            .decode(stored, out, scratch)
            .map_err(damage::error);
        decoded.map_err(|e| e.map_fault(|fault| of_index(fault).bytes(range.clone())))?;
        let own = range.start - shard.range.start..range.end - shard.range.start;
        check(out, (shard.len(), own), sorted);
        Ok(())
    }
}

fn of_index(fault: Fault) -> Fault {
    let what = format!("the shard's index: {}", fault.what);
    Fault { what, ..fault }
}

/// Marks the entries of an index that cannot be right: of a shard of `len` bytes, `index` of which
/// are its own.
fn check(entries: &mut [u8], (len, index): (u64, Range<u64>), sorted: &mut [u64]) {
    let (entries, _) = entries.as_chunks_mut::<ENTRY>();
    let of = |entry: &[u8; ENTRY]| {
        let [a, b, c, d, e, f, g, h, rest @ ..] = *entry;
        [
            u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            u64::from_le_bytes(rest),
        ]
    };
    let mark = |entry: &mut [u8; ENTRY], what: u64| {
        let marked = [MISSING.to_le_bytes(), what.to_le_bytes()].concat();
        entry.copy_from_slice(&marked);
    };
    let mut count = 0;
    for (number, entry) in entries.iter_mut().enumerate() {
        let [start, bytes] = of(entry);
        if [start, bytes] == [MISSING, MISSING] {
            continue;
        }
        let end = start.checked_add(bytes).filter(|end| *end <= len);
        let is_in_index = |end: u64| start < index.end && end > index.start && bytes > 0;
        if end.is_none_or(is_in_index) {
            mark(entry, OUTSIDE);
        } else if let (Some(place), true) = (sorted.get_mut(count), bytes > 0) {
            (*place, count) = (number as u64, count + 1);
        }
    }
    let sorted = sorted.get_mut(..count).unwrap_or_default();
    let entry_of = |entries: &[[u8; ENTRY]], number: u64| {
        entries.get(number as usize).map_or([MISSING, 0], of)
    };
    sorted.sort_unstable_by_key(|number| entry_of(entries, *number));
    // The one that reaches furthest so far, and where to.
    let mut furthest: Option<(u64, u64)> = None;
    for &number in &*sorted {
        let [start, bytes] = entry_of(entries, number);
        let end = start.saturating_add(bytes);
        if let Some((other, reached)) = furthest
            && start < reached
        {
            for number in [other, number] {
                if let Some(entry) = entries.get_mut(number as usize) {
                    mark(entry, OVERLAPS);
                }
            }
        }
        if furthest.is_none_or(|(_, reached)| end > reached) {
            furthest = Some((number, end));
        }
    }
}

#[cfg(test)]
mod tests;
