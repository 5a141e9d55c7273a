//! Writing the chunks of an array: those that have changed are encoded by several threads and put
//! in order, with the runs between them that stay as they are stored.
//!
//! A format says which bytes of the array its chunks hold ([`Chunking`]), how a batch of them is
//! read and encoded ([`ChunkedArray`]), where stored runs lie and where new chunks go
//! ([`ChunkWriter`]), which writes the index, too. All else is here: which chunks have changed,
//! which of them are encoded together ([`batches`]), the memory for it ([`memory`]), the threads,
//! what was encoded ahead, and that chunks of zeros are encoded once ([`zeros`]).
//!
//! Never waits for memory of the budget, so callers may hold some. Used by the formats' recipes,
//! and for blocks that are encoded ahead.

mod batches;
pub(crate) mod dirty;
pub(crate) mod memory;
#[cfg(test)]
mod tests;
mod zeros;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::writable::DoneBefore;
use crate::array::chunking::{ChunkId, Chunking};
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::memory::{Arena, fallible};
use crate::pipeline::in_order;
use crate::range_set::RangeSet;
pub(crate) use batches::{Batch, Batches};
use memory::{EncodeMemory, EncodeNeeds};
use zeros::{EncodedZeros, are_zeros};

/// An array as it is to be stored, of which some chunks have changed.
pub(crate) trait ChunkedArray: Sync {
    /// How a batch is encoded: by the same settings, the same bytes become the same.
    type Settings: Copy + PartialEq + Send + Sync;

    /// Which bytes of the array lie in which chunks.
    fn chunking(&self) -> impl Chunking;

    /// Those that do not stay as they are stored.
    fn dirty(&self) -> &RangeSet;

    /// So many chunks in a row are encoded together where all have changed.
    fn chunks_together(&self) -> u64 {
        1
    }

    /// What any batch takes, if so many threads encode it together.
    fn needs(&self, threads: usize) -> Result<EncodeNeeds>;

    /// Bytes that a batch is encoded from.
    fn plain_len(&self, batch: &Batch) -> u64 {
        let runs = batch.runs().iter();
        runs.map(|run| self.chunking().bytes(run.clone())).sum()
    }

    fn settings(&self, batch: &Batch) -> Result<Self::Settings>;

    /// Whether a batch is known to be zeros before it is read. "No" is always a safe answer.
    fn is_known_zeros(&self, _batch: &Batch) -> bool {
        false
    }

    /// What a batch is encoded from, its chunks one behind the other.
    fn read(&self, batch: &Batch, plain: &mut [u8], scratch: Arena<'_>) -> Result<()>;

    /// Encodes a batch to the start of `out`, wherever in the file it will go. Says its length.
    fn encode(
        &self,
        settings: &Self::Settings,
        plain: &[u8],
        out: &mut [u8],
        scratch: Arena<'_>,
        threads: usize,
    ) -> Result<usize>;

    /// What any batch takes that is encoded in parts, never held as a whole; none: that cannot be
    /// done.
    fn needs_in_parts(&self) -> Result<Option<EncodeNeeds>> {
        Ok(None)
    }

    /// Reads and encodes a batch, which is handed over in parts: what is put is what
    /// [`ChunkedArray::encode`] makes.
    fn encode_in_parts(
        &self,
        _batch: &Batch,
        _space: &mut Workspace,
        _put: PutPart<'_>,
    ) -> Result<()> {
        Err(Error::Bug("chunks are not encoded in parts".into()))
    }

    /// Where a batch may be found that was encoded ahead, and as which block.
    fn ahead(&self, batch: &Batch) -> Option<(&dyn DoneBefore, ChunkId)>;

    /// Whether this can be what [`ChunkedArray::encode`] made of a batch.
    fn is_encoded(&self, _batch: &Batch, _bytes: &[u8]) -> bool {
        true
    }
}

/// Where the chunks of an array go: called for every chunk once, in order.
pub(crate) trait ChunkWriter {
    /// These stay as they are stored.
    fn keep(&mut self, chunks: Range<u64>) -> Result<()>;

    /// These were encoded. There are as many calls for a batch as it has runs.
    fn put(&mut self, chunks: Range<u64>, batch: &EncodedBatch<'_>) -> Result<()>;

    /// These are encoded now: `encode` hands over their bytes in parts.
    fn put_in_parts(
        &mut self,
        _chunks: Range<u64>,
        _encode: &mut dyn FnMut(PutPart<'_>) -> Result<()>,
    ) -> Result<()> {
        Err(Error::Bug("chunks are not put in parts".into()))
    }
}

/// Takes the next bytes of a batch.
pub(crate) type PutPart<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A batch as [`ChunkedArray::encode`] made it.
pub(crate) struct EncodedBatch<'a> {
    pub(crate) bytes: &'a [u8],
    /// Chunks of it in all, and of those that were put before.
    pub(crate) chunks: u64,
    pub(crate) before: u64,
}

/// How batches were come by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchCounts {
    pub(crate) encoded: u64,
    pub(crate) ahead: u64,
    /// Of zeros, as another one that was encoded.
    pub(crate) zeros: u64,
}

/// Has every chunk kept or put.
pub(crate) fn write_chunks<A: ChunkedArray>(
    array: &A,
    memory: &mut EncodeMemory,
    write: &mut impl ChunkWriter,
) -> Result<BatchCounts> {
    let batches = Batches::of(array.dirty(), array.chunks_together())?;
    if memory.in_parts {
        return write_in_parts(array, &batches, memory.first()?, write);
    }
    let jobs = usize::try_from(batches.count());
    let jobs = jobs.map_err(|_| Error::Bug("there are too many chunks".into()))?;
    let encoder = BatchEncoder::new(array, memory.threads);
    let mut next = 0;
    in_order(
        memory.spaces.iter_mut().collect(),
        jobs,
        |space, job| {
            let batch = batches.get(job as u64);
            let len = encoder.encode(&batch, space)?;
            Result::Ok((len, batch))
        },
        |_, space, (len, batch)| {
            let mut encoded = EncodedBatch {
                bytes: encoded_part(space, len)?,
                chunks: batch.chunks(),
                before: 0,
            };
            for run in batch.runs() {
                keep(next..run.start, write)?;
                write.put(run.clone(), &encoded)?;
                encoded.before += run.end - run.start;
                next = run.end;
            }
            Ok(())
        },
    )?;
    keep(next..array.chunking().chunks(), write)?;
    Ok(encoder.counts())
}

/// Has every chunk kept or put where chunks are larger than the memory there is, one after the
/// other.
fn write_in_parts<A: ChunkedArray>(
    array: &A,
    batches: &Batches<'_>,
    space: &mut Workspace,
    write: &mut impl ChunkWriter,
) -> Result<BatchCounts> {
    let mut next = 0;
    for batch in batches.iter() {
        for run in batch.runs() {
            keep(next..run.start, write)?;
            write.put_in_parts(run.clone(), &mut |put| {
                array.encode_in_parts(&batch, space, put)
            })?;
            next = run.end;
        }
    }
    keep(next..array.chunking().chunks(), write)?;
    Ok(BatchCounts {
        encoded: batches.count(),
        ..BatchCounts::default()
    })
}

fn keep(chunks: Range<u64>, write: &mut impl ChunkWriter) -> Result<()> {
    match chunks.is_empty() {
        true => Ok(()),
        false => write.keep(chunks),
    }
}

/// The only batch of an array by itself, before it is known where it goes; none if there is no
/// memory for it now.
pub(crate) fn encode_alone<A: ChunkedArray>(
    array: &A,
    budget: &Arc<Budget>,
) -> Result<Option<Vec<u8>>> {
    let batches = Batches::of(array.dirty(), array.chunks_together())?;
    let Some(mut space) = memory::spare_space(&array.needs(1)?, budget)? else {
        return Ok(None);
    };
    let len = BatchEncoder::new(array, 1).encode(&batches.get(0), &mut space)?;
    fallible::copy(encoded_part(&mut space, len)?, "cannot keep a block").map(Some)
}

fn encoded_part(space: &mut Workspace, len: usize) -> Result<&[u8]> {
    let (out, _) = space.parts();
    let part = out.get(..len);
    part.ok_or_else(|| Error::Bug("chunks are longer than their space".into()))
}

/// Encodes batches, each by one thread or several.
struct BatchEncoder<'a, A: ChunkedArray> {
    array: &'a A,
    threads: usize,
    zeros: EncodedZeros<A::Settings>,
    encoded: AtomicU64,
    ahead: AtomicU64,
    known: AtomicU64,
}

impl<'a, A: ChunkedArray> BatchEncoder<'a, A> {
    fn new(array: &'a A, threads: usize) -> Self {
        BatchEncoder {
            array,
            threads,
            zeros: EncodedZeros::default(),
            encoded: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            known: AtomicU64::new(0),
        }
    }

    /// To the start of a space.
    fn encode(&self, batch: &Batch, space: &mut Workspace) -> Result<usize> {
        let (out, mut scratch) = space.parts();
        if let Some(len) = self.take_ahead(batch, out) {
            self.ahead.fetch_add(1, Ordering::Relaxed);
            return Ok(len);
        }
        let settings = self.array.settings(batch)?;
        let len = self.array.plain_len(batch);
        if self.array.is_known_zeros(batch)
            && let Some(len) = self.zeros.copy_to(&settings, len, out)
        {
            self.known.fetch_add(1, Ordering::Relaxed);
            return Ok(len);
        }
        let plain = scratch.take(len)?;
        self.array.read(batch, plain, scratch.lend())?;
        if !are_zeros(plain) {
            return self.encode_plain(&settings, plain, out, scratch);
        }
        let _first = self.zeros.wait_for_first();
        if let Some(len) = self.zeros.copy_to(&settings, len, out) {
            self.known.fetch_add(1, Ordering::Relaxed);
            return Ok(len);
        }
        let encoded = self.encode_plain(&settings, plain, out, scratch)?;
        self.zeros.keep(&settings, len, &out[..encoded])?;
        Ok(encoded)
    }

    fn encode_plain(
        &self,
        settings: &A::Settings,
        plain: &[u8],
        out: &mut [u8],
        scratch: Arena<'_>,
    ) -> Result<usize> {
        self.encoded.fetch_add(1, Ordering::Relaxed);
        self.array
            .encode(settings, plain, out, scratch, self.threads)
    }

    fn take_ahead(&self, batch: &Batch, out: &mut [u8]) -> Option<usize> {
        let (ahead, block) = self.array.ahead(batch)?;
        let mut len = None;
        ahead.take(block, &mut |bytes| {
            let place = out.get_mut(..bytes.len());
            if let Some(place) = place
                && self.array.is_encoded(batch, bytes)
            {
                place.copy_from_slice(bytes);
                len = Some(bytes.len());
            }
        });
        len
    }

    fn counts(&self) -> BatchCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        BatchCounts {
            encoded: count(&self.encoded),
            ahead: count(&self.ahead),
            zeros: count(&self.known),
        }
    }
}
