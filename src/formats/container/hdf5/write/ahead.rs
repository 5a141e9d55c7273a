//! Chunks of a dataset that are encoded while the dataset is still being written.
//!
//! Only those that nothing which is appended becomes a part of, and that are made of shown bytes
//! alone: of elements with bits that are not shown, what is stored decides, too. Used by [`super`],
//! which offers them to the stage.

use std::ops::Range;
use std::sync::Arc;

use super::chunks::{ChunkedPlace, encode_whole};
use super::dataset::{WrittenDataset, WrittenPlace};
use crate::array::chunking::{ChunkId, Chunking};
use crate::array::grid::ChunkGrid;
use crate::array::uncached::PlacedRange;
use crate::container::writable::ChangedArray;
use crate::error::Result;
use crate::memory::budget::Budget;

/// Smallest chunk that is worth it.
const LEAST: u64 = 16 << 10;
/// A chunk of more stretches of the array is not counted: that would cost its writers more than it
/// saves the commit.
const RUNS_MOST: u64 = 64;
/// Most chunks of a dataset.
const CHUNKS_MOST: u64 = 1 << 20;

/// The chunks of a dataset at one length, but for those at its end.
pub(super) struct WholeChunks {
    grid: ChunkGrid,
    /// Numbers below this.
    chunks: u64,
    /// The bytes of the array that they hold are its first.
    bytes: u64,
}

impl WholeChunks {
    /// None where nothing is encoded before the commit.
    pub(super) fn of(dataset: &WrittenDataset, len: u64) -> Option<WholeChunks> {
        let WrittenPlace::Chunked(place) = &dataset.place else {
            return None;
        };
        if !place.is_encoded() || !dataset.is_lossless() {
            return None;
        }
        let grid = place.shown_grid(&dataset.dims_at(len), &dataset.element)?;
        let size = grid.chunk_bytes();
        let is_worth_it = size >= LEAST && size / RUNS_MOST <= grid.longest_run();
        let rows = place.whole_rows(&dataset.dims_at(len));
        let chunks = rows.saturating_mul(grid.chunks_of_row());
        let chunks = chunks.min(grid.chunks());
        (is_worth_it && (1..=CHUNKS_MOST).contains(&chunks)).then(|| WholeChunks {
            bytes: rows.saturating_mul(grid.row_bytes()),
            grid,
            chunks,
        })
    }
}

impl Chunking for WholeChunks {
    fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The other dimensions of a dataset stay.
    fn shape(&self) -> u64 {
        self.grid.chunk_bytes()
    }

    fn bytes(&self, chunks: Range<u64>) -> u64 {
        let known = chunks.start..chunks.end.min(self.chunks);
        known.map(|chunk| self.grid.held(chunk)).sum()
    }

    fn touched(&self, range: &Range<u64>, tell: &mut dyn FnMut(Range<u64>, u64)) {
        let range = range.start..range.end.min(self.bytes);
        self.grid.touched_bytes(range, tell);
    }

    fn ranges(&self, chunks: Range<u64>, mut to: usize, out: &mut Vec<PlacedRange>) {
        for chunk in chunks.start..chunks.end.min(self.chunks) {
            self.grid.rows(chunk, &mut |from| {
                let len = (from.end - from.start) as usize;
                out.push(PlacedRange { from, to });
                to += len;
            });
        }
    }

    fn reshaped(&self, before: &Self, out: &mut Vec<Range<u64>>) {
        let is_same = self.shape() == before.shape();
        out.push(if is_same { before.chunks } else { 0 }..self.chunks);
    }
}

/// Encodes a chunk of a changed dataset, behind its mask; none if there is no memory for it now.
pub(super) fn encode(
    dataset: &WrittenDataset,
    changed: &ChangedArray,
    (chunk, budget): (ChunkId, &Arc<Budget>),
) -> Result<Option<Vec<u8>>> {
    let place: &ChunkedPlace = match &dataset.place {
        WrittenPlace::Chunked(place) => place,
        _ => return Ok(None),
    };
    match WholeChunks::of(dataset, changed.len) {
        Some(whole) if whole.shape() == chunk.shape && chunk.number < whole.chunks => {
            encode_whole((dataset, place), changed, (chunk.number, budget))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_counted_in_the_chunks_that_hold_them(
            axes in proptest::collection::vec((1u64..9, 1u64..5), 1..4),
            element in 1u64..4,
            (start, n) in (0u64..600, 0u64..600),
        ) {
            let (dims, chunk): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
            let grid = ChunkGrid::new(&dims, &chunk, element).unwrap();
            let (rows, of_row) = (dims[0] / chunk[0], grid.chunks_of_row());
            let whole = WholeChunks { bytes: rows * grid.row_bytes(), chunks: rows * of_row, grid };
            let mut placed = BTreeMap::new();
            for number in 0..whole.chunks() {
                let mut ranges = Vec::new();
                whole.ranges(number..number + 1, 0, &mut ranges);
                let bytes: u64 = ranges.iter().map(|range| range.from.end - range.from.start).sum();
                prop_assert_eq!(whole.bytes(number..number + 1), bytes);
                for at in ranges.into_iter().flat_map(|range| range.from) {
                    prop_assert_eq!(placed.insert(at, number), None);
                }
            }
            prop_assert_eq!(placed.len() as u64, whole.bytes);
            let mut expected = BTreeMap::new();
            for at in start..start + n {
                if let Some(chunk) = placed.get(&at) {
                    *expected.entry(*chunk).or_insert(0) += 1;
                }
            }
            let mut recipe = BTreeMap::new();
            whole.touched(&(start..start + n), &mut |chunks, bytes| {
                for chunk in chunks {
                    *recipe.entry(chunk).or_insert(0) += bytes;
                }
            });
            prop_assert_eq!(recipe, expected);
        }
    }
}
