//! Estimates how much a commit is going to write where no stored blocks show the ratio: a few
//! blocks are encoded, and thrown away.
//!
//! So a commit that is too much is refused before anything is written, instead of being given up
//! half-way. Used by [`super`], for commits that may be too much.

use std::ops::Range;

use super::input::Commit;
use crate::array::chunking::{ChunkId, Chunking};
use crate::container::writable::{Amount, ChangedArray};
use crate::error::Result;

/// Of each array, spread evenly.
const SAMPLES: u64 = 8;

/// The largest block that is encoded for this alone.
const LARGEST: u64 = 8 << 20;

/// About how many bytes the new blocks take; 0 if that cannot be said.
pub(super) fn new_bytes(commit: &Commit<'_>, amount: &Amount) -> Result<u64> {
    let (mut plain, mut packed) = (0, 0);
    for changed in commit.changed {
        let address = changed.address();
        let Some(blocks) = commit.writable.blocks_ahead(address, changed.len) else {
            continue;
        };
        for block in written_blocks(&*blocks, changed) {
            let encoded = commit
                .writable
                .encode_block(changed, block, commit.budget)?;
            if let Some(encoded) = encoded {
                plain += blocks.bytes(block.number..block.number + 1);
                packed += encoded.len() as u64;
            }
        }
    }
    let new = u128::from(amount.encoded) * u128::from(packed) / u128::from(plain.max(1));
    Ok(u64::try_from(new).unwrap_or(u64::MAX).min(amount.changed))
}

/// Blocks of an array that have been written, wholly or in part.
fn written_blocks(blocks: &dyn Chunking, changed: &ChangedArray) -> Vec<ChunkId> {
    let (count, shape) = (blocks.chunks(), blocks.shape());
    let step = (count / SAMPLES).max(1);
    let samples = (0..SAMPLES).map(|sample| sample * step);
    let is_sample = |number: &u64| {
        let mut ranges = Vec::new();
        blocks.ranges(*number..*number + 1, 0, &mut ranges);
        let mut ranges = ranges.iter();
        blocks.bytes(*number..*number + 1) <= LARGEST
            && ranges.any(|range| is_written(changed, &range.from))
    };
    let samples = samples.take_while(|number| *number < count);
    let samples = samples.filter(is_sample);
    samples.map(|number| ChunkId { shape, number }).collect()
}

fn is_written(changed: &ChangedArray, block: &Range<u64>) -> bool {
    let next = changed
        .ranges
        .partition_point(|range| range.end <= block.start);
    let next = changed.ranges.get(next);
    next.is_some_and(|range| range.start < block.end)
}
