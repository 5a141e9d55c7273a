//! A block of a packed stream, encoded: the chunks of it that have changed.
//!
//! What comes out stands for itself, wherever in the stream it goes: index entries from 0 (one more than there are chunks),
//! start values if the transform has any, words. So it can be encoded before the blocks before it are, by a thread of its
//! own, and while the program still writes. Used by `stream`, and for blocks that are encoded ahead.

use std::ops::Range;
use std::sync::Arc;

use super::spaces::{CHUNK_BYTES, CHUNKS, lent, read_part, spare_space};
use super::stream::StreamPlan;
use crate::array::Array;
use crate::codec::bp128::{self, Bp128Error};
use crate::container::bpcells::packed::BLOCK_BYTES;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::memory::{Scratch, fallible};

pub(super) struct BlockEncoder<'a> {
    pub(super) plan: &'a StreamPlan<'a>,
}

/// The parts of an encoded block.
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

    /// Where each of its chunks ends, in words from the start of the block.
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

impl BlockEncoder<'_> {
    /// Encodes what has changed of the blocks of a batch to a space, one behind the other, and says where each ends.
    pub(super) fn encode_all(
        &self,
        blocks: impl Iterator<Item = u64>,
        space: &mut Workspace,
    ) -> Result<Vec<usize>> {
        let (mut ends, mut at) = (Vec::new(), 0);
        for block in blocks {
            let (out, scratch) = space.parts();
            at += self.encode(block, &mut out[at..], scratch)?;
            ends.push(at);
        }
        Ok(ends)
    }

    /// The same of one block.
    fn encode(&self, block: u64, out: &mut [u8], scratch: Scratch<'_>) -> Result<usize> {
        let chunks = self.chunks(block);
        let runs: Vec<Range<u64>> = self.plan.dirty.within(chunks.clone()).collect();
        if let [run] = &runs[..]
            && *run == chunks
            && let Some(len) = self.ahead(block, out)
        {
            return Ok(len);
        }
        self.encode_runs(&runs, out, scratch)
    }

    /// A whole block by itself; none if there is no memory for it now.
    pub(super) fn encode_alone(&self, block: u64, budget: &Arc<Budget>) -> Result<Option<Vec<u8>>> {
        let start = block.saturating_mul(BLOCK_BYTES);
        let bytes = start..start.saturating_add(BLOCK_BYTES);
        let Some(mut space) = spare_space(lent(self.plan.values.shown, bytes)?, budget)? else {
            return Ok(None);
        };
        let (out, scratch) = space.parts();
        let len = self.encode(block, out, scratch)?;
        fallible::copy(&out[..len], "cannot keep a block").map(Some)
    }

    pub(super) fn chunks(&self, block: u64) -> Range<u64> {
        let start = block.saturating_mul(CHUNKS);
        start..start.saturating_add(CHUNKS).min(self.plan.chunks())
    }

    /// The block, if it was encoded ahead.
    fn ahead(&self, block: u64, out: &mut [u8]) -> Option<usize> {
        let start = block.checked_mul(BLOCK_BYTES)?;
        let bytes = start
            ..start
                .checked_add(BLOCK_BYTES)
                .filter(|end| *end <= self.plan.len)?;
        let has_starts = self.plan.form.transform.has_starts();
        let mut len = None;
        self.plan.ahead?.take(&bytes, &mut |encoded| {
            let place = out.get_mut(..encoded.len());
            if let Some(place) = place
                && EncodedChunks::of(encoded, CHUNKS as usize, has_starts).is_some()
            {
                place.copy_from_slice(encoded);
                len = Some(encoded.len());
            }
        });
        len
    }

    /// Encodes runs of chunks of one block.
    fn encode_runs(
        &self,
        runs: &[Range<u64>],
        out: &mut [u8],
        mut scratch: Scratch<'_>,
    ) -> Result<usize> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return Err(Error::Bug("a block without changes is not encoded".into()));
        };
        let transform = self.plan.form.transform;
        let chunks: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let starts = if transform.has_starts() { chunks } else { 0 };
        let idx = scratch.take_u32s(chunks + 1)?;
        let starts = scratch.take_u32s(starts)?;
        let values = self.values(first.start..last.end, &mut scratch)?;
        let (head, words) = out.split_at_mut(4 * (idx.len() + starts.len()));
        idx[0] = 0;
        let (mut done, mut at) = (0, 0);
        for run in runs {
            let count = (run.end - run.start) as usize;
            let from = ((run.start - first.start) * CHUNK_BYTES) as usize;
            let to = (from + count * CHUNK_BYTES as usize).min(values.len());
            let has_starts = if starts.is_empty() {
                0..0
            } else {
                done..done + count
            };
            at += bp128::encode(
                transform,
                &values[from..to],
                &mut idx[done..=done + count],
                &mut starts[has_starts],
                &mut words[at..],
            )
            .map_err(failed)?;
            done += count;
        }
        let numbers = idx.iter().chain(starts.iter());
        for (place, number) in head.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        Ok(head.len() + at)
    }

    /// The values of some chunks, as they are to be packed.
    fn values<'s>(&self, chunks: Range<u64>, scratch: &mut Scratch<'s>) -> Result<&'s mut [u8]> {
        let start = chunks.start.saturating_mul(CHUNK_BYTES);
        let end = chunks.end.saturating_mul(CHUNK_BYTES).min(self.plan.len);
        let len = end.saturating_sub(start);
        let values = scratch.take(len)?;
        let read = |array: &dyn Array, to: &mut [u8], scratch: &mut Scratch<'s>| {
            read_part(array, start, to, scratch.lend())
        };
        match self.plan.values.less {
            None => read(self.plan.values.shown, values, scratch)?,
            Some(less) => {
                let starts = scratch.take(len)?;
                read(self.plan.values.shown, values, scratch)?;
                read(less, starts, scratch)?;
                subtract(values, starts);
            }
        }
        Ok(values)
    }
}

/// Makes lengths of ends, modulo 2^32.
fn subtract(ends: &mut [u8], starts: &[u8]) {
    let starts = starts.as_chunks::<4>().0;
    for (end, start) in ends.as_chunks_mut::<4>().0.iter_mut().zip(starts) {
        let length = u32::from_le_bytes(*end).wrapping_sub(u32::from_le_bytes(*start));
        *end = length.to_le_bytes();
    }
}

fn failed(e: Bp128Error) -> Error {
    Error::Bug(format!("cannot encode a block: {e}"))
}
