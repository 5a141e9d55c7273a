//! From a chunk's stored bytes to plain ones: the digest once, then only the blocks that are
//! wanted.
//!
//! The first touch of a chunk reads it whole and checks its digest ([`super::digest`]); later ones
//! read the entries of the table of block starts that they need, and those blocks. All memory for
//! it is the caller's scratch: [`scratch`] says how much. Used by [`super`] and by the full check.

use std::ops::Range;
use std::sync::Arc;

use super::digest::SeenDigests;
use crate::codec::blosc::{BloscError, ChunkHeader, Decoder};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::chunks::FoundChunk;
use crate::container::bloscpack::sections::CHUNK_HEADER;
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};
use crate::source::{Source, StoredRanges};

/// Chunks up to this size are read at once on the first touch; larger ones are hashed piece by
/// piece.
const WHOLE: u64 = 4 << 20;
/// Size of such a piece.
const PIECE: u64 = 1 << 20;
/// Chunks up to this size are always read whole: one read instead of two.
const SMALL: u64 = 32 << 10;
/// Chunks up to this size are asked for whole of a source that is far away.
const AT_ONCE: u64 = 1 << 20;
/// Size of a piece where there is no scratch memory, on the stack.
const SMALL_PIECE: usize = 16 << 10;

pub(crate) struct ChunkDecoder {
    source: Arc<dyn Source>,
    digests: SeenDigests,
}

/// The wanted part of a chunk.
pub(super) struct WantedBlocks {
    /// Plain bytes within the chunk ...
    pub(super) plain: Range<u64>,
    /// ... and the Blosc blocks that hold exactly these; of no meaning if the chunk is memcpyed.
    pub(super) blocks: Range<u32>,
}

impl WantedBlocks {
    /// Bytes that are read of the table of block starts: theirs, and the one behind them if there
    /// is one.
    fn table(&self, header: &ChunkHeader) -> Range<u64> {
        let table = header.bstarts_range();
        let at = |block: u32| u64::from(table.start) + 4 * u64::from(block);
        at(self.blocks.start)..at(self.blocks.end.saturating_add(1)).min(table.end.into())
    }

    /// Stored bytes of these blocks that are read at once; if they lie further apart, block by
    /// block.
    fn most_stored(&self, header: &ChunkHeader) -> u64 {
        let each = most_stored(header.blocksize().into());
        let blocks = u64::from(self.blocks.end.saturating_sub(self.blocks.start));
        each.saturating_mul(blocks).min(header.ctbytes().into())
    }
}

impl ChunkDecoder {
    pub(super) fn new(source: Arc<dyn Source>, checksum: Checksum) -> Self {
        ChunkDecoder {
            source,
            digests: SeenDigests::new(checksum),
        }
    }

    /// Memory for decoding a part of a chunk, beside its output: stored bytes, and what the filter
    /// is undone from.
    pub(super) fn scratch(&self, header: &ChunkHeader, wanted: &WantedBlocks) -> u64 {
        let stored = u64::from(header.ctbytes());
        let checked = match self.digests.exist() {
            false => 0,
            true if stored <= WHOLE => room(stored + self.digests.len() as u64),
            true => room(PIECE),
        };
        let partly = match header.memcpyed() {
            true => 0,
            false if stored <= SMALL => room(stored),
            false => {
                let table = wanted.table(header);
                room(table.end - table.start).saturating_add(room(wanted.most_stored(header)))
            }
        };
        room(header.scratch() as u64).saturating_add(checked.max(partly))
    }

    /// Names what decoding a part of a chunk fetches ([`crate::array::Array::stored`]): the chunk,
    /// if it is small or has to be checked; else the table of block starts, then the blocks.
    pub(super) fn stored(
        &self,
        chunk: &FoundChunk,
        wanted: &WantedBlocks,
        round: u32,
        needed: &mut StoredRanges,
    ) -> Result<bool> {
        let whole = chunk.stored();
        let place = |within: Range<u64>| {
            let at = |at: u64| chunk.at.saturating_add(at);
            at(within.start)..at(within.end)
        };
        if self.digests.are_due(chunk.number) {
            let digest = self.digests.len() as u64;
            needed.name(&self.source, whole.start..whole.end.saturating_add(digest));
        } else if chunk.header.memcpyed() {
            let from = CHUNK_HEADER + wanted.plain.start;
            needed.name(&self.source, place(from..CHUNK_HEADER + wanted.plain.end));
        } else if whole.end - whole.start <= AT_ONCE {
            needed.name(&self.source, whole);
        } else if round == 0 {
            needed.name(&self.source, place(wanted.table(&chunk.header)));
            return Ok(true);
        } else {
            needed.name(&self.source, place(self.around(chunk, wanted)?));
        }
        Ok(false)
    }

    /// From the first of the wanted blocks to the last, as far as blocks lie in their order.
    fn around(&self, chunk: &FoundChunk, wanted: &WantedBlocks) -> Result<Range<u64>> {
        let table = wanted.table(&chunk.header);
        let start_at = |at: u64| -> Result<u64> {
            let mut start = [0; 4];
            self.source.fetch_one(chunk.at + at, &mut start)?;
            Ok(u32::from_le_bytes(start).into())
        };
        let first = start_at(table.start)?;
        let blocks = u64::from(wanted.blocks.end - wanted.blocks.start);
        let is_last = table.end - table.start <= 4 * blocks;
        let end = match is_last {
            true => chunk.header.ctbytes().into(),
            false => start_at(table.end - 4)?,
        };
        // As much as is read at once: blocks may lie in any order.
        let most = first.saturating_add(wanted.most_stored(&chunk.header));
        let end = end.min(chunk.header.ctbytes().into()).min(most);
        Ok(first..end.max(first))
    }

    /// Decodes a part of a chunk.
    pub(super) fn decode(
        &self,
        chunk: &FoundChunk,
        wanted: &WantedBlocks,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let planes = scratch.take(chunk.header.scratch() as u64)?;
        let stored = u64::from(chunk.header.ctbytes());
        if let Some(check) = self.digests.to_check(chunk.number)? {
            if stored <= WHOLE {
                let both = scratch.take(stored + self.digests.len() as u64)?;
                self.source.fetch_one(chunk.at, both)?;
                check.of_whole(chunk, both)?;
                return decode_whole(chunk, wanted, both, out, planes);
            }
            let buf = scratch.lend().take(PIECE)?;
            check.by_pieces(&*self.source, chunk, buf)?;
        }
        if chunk.header.memcpyed() {
            let at = chunk.at + CHUNK_HEADER + wanted.plain.start;
            return self.source.fetch_one(at, out);
        }
        if stored <= SMALL {
            let whole = scratch.take(stored)?;
            self.source.fetch_one(chunk.at, whole)?;
            return decode_whole(chunk, wanted, whole, out, planes);
        }
        self.decode_partly(chunk, wanted, out, planes, scratch)
    }

    /// Reads and decodes only the blocks that are wanted: at once if they lie together.
    fn decode_partly(
        &self,
        chunk: &FoundChunk,
        wanted: &WantedBlocks,
        out: &mut [u8],
        planes: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let table = wanted.table(&chunk.header);
        let starts = scratch.take(table.end - table.start)?;
        self.source.fetch_one(chunk.at + table.start, starts)?;
        let spans = BlockSpans {
            chunk,
            starts,
            first: wanted.blocks.start,
        };
        let all = spans.around(wanted.blocks.clone())?;
        let mut blocks = BlockOutput {
            chunk,
            rest: out,
            planes,
        };
        let most = wanted.most_stored(&chunk.header);
        let together = all.end - all.start <= most;
        let stored = scratch.take(most)?;
        if together {
            let len = all.end - all.start;
            self.source
                .fetch_one(chunk.at + all.start, &mut stored[..len as usize])?;
        }
        for block in wanted.blocks.clone() {
            let span = spans.of(block)?;
            let from = if together { span.start - all.start } else { 0 };
            let stored = &mut stored[from as usize..][..(span.end - span.start) as usize];
            if !together {
                self.source.fetch_one(chunk.at + span.start, stored)?;
            }
            blocks.decode(block, stored)?;
        }
        blocks.finish()
    }

    /// Checks the digest of a chunk, unless that has been done.
    pub(crate) fn check(&self, chunk: &FoundChunk) -> Result<()> {
        match self.digests.to_check(chunk.number)? {
            Some(check) => check.by_pieces(&*self.source, chunk, &mut [0; SMALL_PIECE]),
            None => Ok(()),
        }
    }
}

/// Decodes from a chunk that is wholly in memory.
fn decode_whole(
    chunk: &FoundChunk,
    wanted: &WantedBlocks,
    whole: &[u8],
    out: &mut [u8],
    planes: &mut [u8],
) -> Result<()> {
    if chunk.header.memcpyed() {
        let from = ChunkHeader::LEN + wanted.plain.start as usize;
        let Some(plain) = whole.get(from..from + out.len()) else {
            return Err(Fault::new("the chunk is too short")
                .block(chunk.number)
                .into());
        };
        out.copy_from_slice(plain);
        return Ok(());
    }
    // The header's checks found room for the table, and all spans end in the chunk.
    let table = wanted.table(&chunk.header);
    let starts = &whole[table.start as usize..table.end as usize];
    let spans = BlockSpans {
        chunk,
        starts,
        first: wanted.blocks.start,
    };
    let mut blocks = BlockOutput {
        chunk,
        rest: out,
        planes,
    };
    for block in wanted.blocks.clone() {
        let span = spans.of(block)?;
        blocks.decode(block, &whole[span.start as usize..span.end as usize])?;
    }
    blocks.finish()
}

/// Stored bytes that a block of `plain` bytes has at most, whatever its codec: streams that would
/// grow are stored raw, and Snappy's may be a sixth longer. Bounds what is read for one block.
fn most_stored(plain: u64) -> u64 {
    2 * plain + 128
}

/// Where blocks are stored within their chunk.
struct BlockSpans<'a> {
    chunk: &'a FoundChunk,
    /// Stored starts of the blocks from `first` on.
    starts: &'a [u8],
    first: u32,
}

impl BlockSpans<'_> {
    /// Stored bytes of a block: from its start on, at least to its end. Blocks may lie in any
    /// order, so the next one is a bound only if it lies behind.
    fn of(&self, block: u32) -> Result<Range<u64>> {
        let header = &self.chunk.header;
        let (least, end) = (header.bstarts_range().end, header.ctbytes());
        let start = self
            .start(block)
            .filter(|start| (least..end).contains(start));
        let Some(start) = start else {
            return Err(self.begins_outside(block).into());
        };
        let most = most_stored(header.block_range(block).len() as u64);
        let most = (u64::from(start) + most).min(end.into());
        let next = self.start(block + 1).filter(|next| *next > start);
        let stop = next.map_or(most, |next| most.min(next.into()));
        Ok(u64::from(start)..stop)
    }

    /// From the first byte of all of them to the last.
    fn around(&self, blocks: Range<u32>) -> Result<Range<u64>> {
        let mut all: Option<Range<u64>> = None;
        for block in blocks {
            let span = self.of(block)?;
            all = Some(match all {
                Some(all) => all.start.min(span.start)..all.end.max(span.end),
                None => span,
            });
        }
        Ok(all.unwrap_or(0..0))
    }

    fn start(&self, block: u32) -> Option<u32> {
        let at = 4 * (block - self.first) as usize;
        let start = self.starts.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*start))
    }

    fn begins_outside(&self, block: u32) -> Fault {
        let header = &self.chunk.header;
        let (least, end) = (header.bstarts_range().end, header.ctbytes());
        let what = format!("Blosc block {block} begins outside its chunk");
        let fault = Fault::new(what)
            .block(self.chunk.number)
            .bytes(self.chunk.stored());
        let fault = fault.expected(format_args!("{least} to {}", end - 1));
        match self.start(block) {
            Some(found) => fault.found(found),
            None => fault,
        }
    }
}

/// Where decoded blocks go, one behind the other.
struct BlockOutput<'a> {
    chunk: &'a FoundChunk,
    rest: &'a mut [u8],
    planes: &'a mut [u8],
}

impl BlockOutput<'_> {
    fn decode(&mut self, block: u32, stored: &[u8]) -> Result<()> {
        let header = &self.chunk.header;
        let len = header.block_range(block).len().min(self.rest.len());
        let (out, behind) = std::mem::take(&mut self.rest).split_at_mut(len);
        self.rest = behind;
        Decoder::lend(|decoder| decoder.decode_block(header, block, stored, out, self.planes))
            .map_err(|error| failed(self.chunk, error))
    }

    fn finish(self) -> Result<()> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Fault::new("the chunk has too few blocks")
                .block(self.chunk.number)
                .into()),
        }
    }
}

fn failed(chunk: &FoundChunk, error: BloscError) -> Error {
    match error {
        BloscError::ScratchSize { .. } | BloscError::OutputSize { .. } => {
            Error::Bug(format!("chunk {}: {error}", chunk.number))
        }
        damage => Fault::new(damage.to_string())
            .block(chunk.number)
            .bytes(chunk.stored())
            .into(),
    }
}
