//! What is certain about a chunk before it is encoded: its blocks, its header, the memory it takes.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

use std::ops::Range;

use super::super::bitshuffle;
use super::super::block::PLANE_GAP;
use super::super::header::{self, ChunkHeader, Filter, MAX_STREAMS};
use super::error::EncodeError;
use super::settings::{ChunkSettings, Compressor};

/// Chunks of fewer bytes are stored as they are.
pub(super) const MIN_CODED: u32 = 128;

/// Chunks of fewer bytes are done before other threads have begun.
const LANES_FROM: u32 = 4 << 20;

/// The blocks of one chunk to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPlan {
    pub(super) settings: ChunkSettings,
    nbytes: u32,
    blocksize: u32,
}

impl ChunkPlan {
    /// For `nbytes` plain bytes.
    pub fn new(settings: &ChunkSettings, nbytes: usize) -> Result<Self, EncodeError> {
        let limit = ChunkHeader::MAX_PLAIN;
        let fits = u32::try_from(nbytes).ok().filter(|found| *found <= limit);
        let nbytes = fits.ok_or(EncodeError::TooLarge {
            found: nbytes,
            limit: limit as usize,
        })?;
        Ok(Self {
            settings: *settings,
            nbytes,
            blocksize: settings.block_size(nbytes),
        })
    }

    /// Bytes that the chunk takes at most: those of the plain ones and the header.
    pub fn most(&self) -> usize {
        self.nbytes() + ChunkHeader::LEN
    }

    /// Bytes of scratch memory that encoding it on so many threads takes.
    pub fn scratch_of(&self, threads: usize) -> usize {
        match self.lanes(threads) {
            1 => self.scratch(),
            lanes => self.scratch_of_lane().saturating_mul(lanes),
        }
    }

    /// How many of `threads` have something to do.
    pub(super) fn lanes(&self, threads: usize) -> usize {
        match self.nbytes < LANES_FROM {
            true => 1,
            false => threads.clamp(1, (self.blocks() as usize).max(1)),
        }
    }

    /// What one of several threads takes: it has no place in the chunk to write to.
    pub(super) fn scratch_of_lane(&self) -> usize {
        self.scratch() + self.most_of_block()
    }

    /// Bytes of scratch memory that encoding any of its blocks takes.
    pub(super) fn scratch(&self) -> usize {
        // Where a stream is written that may not fit: the libraries want more room than they fill.
        let stream = match self.settings.compressor {
            Compressor::Snappy => snap::raw::max_compress_len(self.blocksize as usize),
            _ => self.blocksize as usize,
        };
        self.scratch_of_filter() + stream
    }

    pub(super) fn scratch_of_filter(&self) -> usize {
        let (typesize, blocksize) = (self.typesize(), self.blocksize as usize);
        let planes = blocksize + MAX_STREAMS * PLANE_GAP;
        match self.settings.filter {
            Filter::None => 0,
            Filter::Shuffle => planes,
            Filter::Bitshuffle => planes + bitshuffle::most_scratch(typesize, blocksize),
        }
    }

    /// Plain bytes of the chunk.
    pub fn nbytes(&self) -> usize {
        self.nbytes as usize
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.nbytes.div_ceil(self.blocksize)
    }

    /// Plain bytes of block `i` within the chunk.
    pub(super) fn block_range(&self, i: u32) -> Range<usize> {
        let (size, end) = (self.blocksize as usize, self.nbytes());
        let bound = |i: usize| i.saturating_mul(size).min(end);
        bound(i as usize)..bound(i as usize + 1)
    }

    /// Stored bytes that any block takes at most.
    pub(super) fn most_of_block(&self) -> usize {
        self.blocksize as usize + 4 * MAX_STREAMS
    }

    /// C-Blosc does not try to make such chunks smaller.
    pub fn stays_plain(&self) -> bool {
        self.settings.level == 0 || self.nbytes < MIN_CODED
    }

    /// Streams of a block that has this many plain bytes.
    pub(super) fn streams(&self, len: usize) -> usize {
        let whole = len == self.blocksize as usize && self.settings.splits(self.blocksize);
        if whole { self.typesize() } else { 1 }
    }

    pub(super) fn typesize(&self) -> usize {
        usize::from(self.settings.typesize.max(1))
    }

    /// Where the first block is stored.
    pub(super) fn table_end(&self) -> usize {
        ChunkHeader::LEN + 4 * self.blocks() as usize
    }

    pub(super) fn header(&self, ctbytes: u32, memcpyed: bool) -> [u8; ChunkHeader::LEN] {
        let mut flags = header::flags(self.settings.compressor.codec(), self.settings.filter);
        if memcpyed {
            flags |= header::MEMCPYED;
        }
        if !self.settings.splits(self.blocksize) {
            flags |= header::NOT_SPLIT;
        }
        let typesize = self.settings.typesize.max(1);
        let mut bytes = [0; ChunkHeader::LEN];
        bytes[..4].copy_from_slice(&[
            header::FORMAT_VERSION,
            header::CODEC_VERSION,
            flags,
            typesize,
        ]);
        let numbers = [self.nbytes, self.blocksize, ctbytes];
        for (field, number) in bytes[4..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *field = number.to_le_bytes();
        }
        bytes
    }

    /// Writes the chunk with its bytes as they are, which takes exactly [`ChunkPlan::most`].
    pub fn write_plain(&self, plain: &[u8], out: &mut [u8]) -> Result<usize, EncodeError> {
        let (found, expected) = (plain.len(), self.nbytes());
        if found != expected {
            return Err(EncodeError::BlockLength { found, expected });
        }
        let most = self.most();
        let found = out.len();
        let Some(out) = out.get_mut(..most) else {
            return Err(EncodeError::OutputSize {
                found,
                expected: most,
            });
        };
        let (front, rest) = out.split_at_mut(ChunkHeader::LEN);
        front.copy_from_slice(&self.header(most as u32, true));
        rest.copy_from_slice(plain);
        Ok(most)
    }
}
