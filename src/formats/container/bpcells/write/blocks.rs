//! A batch of chunks of a packed stream, encoded: those of a block that have changed, or of several
//! blocks.
//!
//! What comes out stands for itself, wherever in the stream it goes: index entries from 0 (one more
//! than there are chunks), start values if the transform has any, words. So it can be encoded
//! before the chunks before it are, by a thread of its own, and while the program still writes.
//! Used by `stream`, and for blocks that are encoded ahead.

use std::ops::Range;

use super::spaces::{CHUNK_BYTES, CHUNKS, lent, read_part};
use super::stream::StreamPlan;
use crate::array::Array;
use crate::array::chunking::{ChunkId, Chunking};
use crate::codec::bp128::{self, Bp128Error};
use crate::container::bpcells::packed::BLOCK_BYTES;
use crate::container::chunked_write::memory::EncodeNeeds;
use crate::container::chunked_write::{Batch, Batches, ChunkedArray};
use crate::container::writable::DoneBefore;
use crate::error::{Error, Result};
use crate::memory::{Arena, room};
use crate::range_set::RangeSet;

/// What a block is encoded to: an index entry for every chunk and one more, start values, and words
/// at full width.
const ENCODED: u64 = 4 * (CHUNKS + 1) + 4 * CHUNKS + BLOCK_BYTES;

/// Index entries and start values while it is encoded.
const TABLES: u64 = room(4 * (CHUNKS + 1)) + room(4 * CHUNKS);

/// The parts of an encoded batch.
pub(super) struct EncodedChunks<'a> {
    idx: &'a [u8],
    starts: &'a [u8],
    words: &'a [u8],
}

impl<'a> EncodedChunks<'a> {
    /// Of so many chunks.
    pub(super) fn of(bytes: &'a [u8], chunks: usize, has_starts: bool) -> Option<Self> {
        let starts = if has_starts { 4 * chunks } else { 0 };
        let (idx, rest) = bytes.split_at_checked(4 * (chunks + 1))?;
        let (starts, words) = rest.split_at_checked(starts)?;
        let encoded = EncodedChunks { idx, starts, words };
        (encoded.words.len() == encoded.word_bytes(0..chunks)?.end).then_some(encoded)
    }

    /// Where the words of some of its chunks lie.
    fn word_bytes(&self, chunks: Range<usize>) -> Option<Range<usize>> {
        let word = |at: usize| {
            let entry = self.idx.get(4 * at..)?.first_chunk::<4>()?;
            usize::try_from(u32::from_le_bytes(*entry))
                .ok()?
                .checked_mul(4)
        };
        Some(word(chunks.start)?..word(chunks.end)?)
    }

    pub(super) fn words(&self, chunks: Range<usize>) -> Option<&'a [u8]> {
        self.words.get(self.word_bytes(chunks)?)
    }

    /// Where each of its chunks ends, in words from the start of the batch.
    pub(super) fn ends(&self, chunks: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        let entries = self.idx.as_chunks::<4>().0.iter().skip(chunks.start);
        let first = entries
            .clone()
            .next()
            .map_or(0, |entry| u32::from_le_bytes(*entry));
        let ends = entries.skip(1).take(chunks.len());
        ends.map(move |entry| u32::from_le_bytes(*entry).wrapping_sub(first))
    }

    pub(super) fn starts(&self, chunks: Range<usize>) -> &'a [u8] {
        self.starts
            .get(4 * chunks.start..4 * chunks.end)
            .unwrap_or_default()
    }
}

impl ChunkedArray for StreamPlan<'_> {
    type Settings = ();

    fn chunking(&self) -> impl Chunking {
        self.values_chunking()
    }

    fn dirty(&self) -> &RangeSet {
        &self.dirty
    }

    fn chunks_together(&self) -> u64 {
        CHUNKS
    }

    fn needs(&self, _threads: usize) -> Result<EncodeNeeds> {
        let mut most = 0;
        for batch in Batches::of(&self.dirty, CHUNKS)?.iter() {
            for runs in of_blocks(&batch) {
                let bytes = self.span(runs);
                most = most.max(lent(self.values.shown, bytes.clone())?);
                if let Some(less) = self.values.less {
                    most = most.max(lent(less, bytes)?);
                }
            }
        }
        Ok(EncodeNeeds {
            plain: BLOCK_BYTES,
            out: ENCODED,
            scratch: TABLES.max(most.saturating_add(2 * room(BLOCK_BYTES))),
        })
    }

    fn settings(&self, _batch: &Batch) -> Result<()> {
        Ok(())
    }

    /// A block is decoded at once: what lies between its changed chunks is read with them.
    fn read(&self, batch: &Batch, mut plain: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        if let [run] = batch.runs() {
            return self.read_values(
                self.values_chunking().range(run.clone()).start,
                plain,
                scratch,
            );
        }
        let block = scratch.take(BLOCK_BYTES)?;
        for runs in of_blocks(batch) {
            let span = self.span(runs);
            let values = &mut block[..(span.end - span.start) as usize];
            self.read_values(span.start, values, scratch.lend())?;
            for run in runs {
                let bytes = self.values_chunking().range(run.clone());
                let from = (bytes.start - span.start) as usize;
                let len = (bytes.end - bytes.start) as usize;
                let (to, rest) = std::mem::take(&mut plain).split_at_mut(len);
                to.copy_from_slice(&values[from..from + len]);
                plain = rest;
            }
        }
        Ok(())
    }

    fn encode(
        &self,
        _settings: &(),
        plain: &[u8],
        out: &mut [u8],
        mut scratch: Arena<'_>,
        _threads: usize,
    ) -> Result<usize> {
        let transform = self.form.transform;
        let chunks = (plain.len() as u64).div_ceil(CHUNK_BYTES);
        let idx = scratch.take_u32s(chunks + 1)?;
        let starts = if transform.has_starts() { chunks } else { 0 };
        let starts = scratch.take_u32s(starts)?;
        let (head, words) = out.split_at_mut(4 * (idx.len() + starts.len()));
        idx[0] = 0;
        let len = bp128::encode(transform, plain, idx, starts, words).map_err(failed)?;
        let numbers = idx.iter().chain(starts.iter());
        for (place, number) in head.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        Ok(head.len() + len)
    }

    fn ahead(&self, batch: &Batch) -> Option<(&dyn DoneBefore, ChunkId)> {
        let [run] = batch.runs() else {
            return None;
        };
        let bytes = self.values_chunking().range(run.clone());
        let is_block = bytes.end - bytes.start == BLOCK_BYTES;
        let block = ChunkId {
            shape: BLOCK_BYTES,
            number: run.start / CHUNKS,
        };
        is_block.then_some((self.ahead?, block))
    }

    fn is_encoded(&self, batch: &Batch, bytes: &[u8]) -> bool {
        EncodedChunks::of(bytes, batch.chunks() as usize, self.has_starts()).is_some()
    }
}

impl StreamPlan<'_> {
    pub(super) fn has_starts(&self) -> bool {
        self.form.transform.has_starts()
    }

    /// Bytes of the values from the first of some runs to the last.
    fn span(&self, runs: &[Range<u64>]) -> Range<u64> {
        let start = runs.first().map_or(0, |run| run.start);
        let end = runs.last().map_or(start, |run| run.end);
        self.values_chunking().range(start..end)
    }

    /// Values as they are to be packed.
    fn read_values(&self, at: u64, values: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let read = |array: &dyn Array, to: &mut [u8], scratch: Arena<'_>| {
            read_part(array, at, to, scratch)
        };
        read(self.values.shown, values, scratch.lend())?;
        if let Some(less) = self.values.less {
            let starts = scratch.take(values.len() as u64)?;
            read(less, starts, scratch)?;
            subtract(values, starts);
        }
        Ok(())
    }
}

/// The runs of a batch, those of a block together.
fn of_blocks(batch: &Batch) -> impl Iterator<Item = &[Range<u64>]> {
    let block = |run: &Range<u64>| run.start / CHUNKS;
    batch.runs().chunk_by(move |a, b| block(a) == block(b))
}

/// Makes lengths of ends, modulo 2^32.
pub(super) fn subtract(ends: &mut [u8], starts: &[u8]) {
    let starts = starts.as_chunks::<4>().0;
    for (end, start) in ends.as_chunks_mut::<4>().0.iter_mut().zip(starts) {
        let length = u32::from_le_bytes(*end).wrapping_sub(u32::from_le_bytes(*start));
        *end = length.to_le_bytes();
    }
}

fn failed(e: Bp128Error) -> Error {
    Error::Bug(format!("cannot encode a block: {e}"))
}
