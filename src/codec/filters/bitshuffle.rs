//! Bitshuffle (filter 32008): bit `k` of all elements of a block together, then plain, LZ4 or zstd.
//!
//! Client values: two of the version, element size, elements per block (0: as many as come near 8
//! KiB), compression (0 none, 2 LZ4, 3 zstd), level. Compressed chunks begin with the header of the
//! LZ4 filter, whose second number is the size of a block in bytes. The last block holds what is
//! left in multiples of eight elements; up to seven more follow plain.

use super::error::{FilterError, Unsupported};
use super::lz4::{header, take_block};
use super::tools::Tools;
use super::{FilterDescription, libraries};
use crate::blosc::bitshuffle::{most_scratch, unbitshuffle};
use crate::blosc::lz4;
use crate::blosc::shuffle::Planes;
use crate::memory::room;

/// Bytes of a block that are aimed at when the writer names none ...
const TARGET: usize = 8192;
/// ... and the elements it has at least.
const LEAST: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BitshuffleCode {
    Plain,
    Lz4,
    Zstd,
}

/// The filter's client values, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bitshuffle {
    pub(super) width: usize,
    /// Elements per block where the chunk does not say; a multiple of 8, not 0.
    block: usize,
    pub(super) code: BitshuffleCode,
}

impl Bitshuffle {
    pub(super) fn new(filter: &FilterDescription) -> Result<Self, Unsupported> {
        let value = |i| filter.values.get(i).copied().unwrap_or(0) as usize;
        let (width, block) = (value(2), value(3));
        let refuse = |what: &str| Err(Unsupported::new(filter.id, what));
        if width == 0 {
            return refuse("elements of 0 bytes");
        }
        if !block.is_multiple_of(8) {
            return refuse("blocks that are no multiple of 8 elements");
        }
        let code = match value(4) {
            0 => BitshuffleCode::Plain,
            2 => BitshuffleCode::Lz4,
            3 => BitshuffleCode::Zstd,
            _ => {
                let why = "a compression other than LZ4 and zstd";
                return Err(Unsupported::unknown(filter.id, why));
            }
        };
        let usual = (TARGET / width / 8 * 8).max(LEAST);
        let block = if block == 0 { usual } else { block };
        Ok(Self { width, block, code })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.code {
            BitshuffleCode::Plain => "bitshuffle",
            BitshuffleCode::Lz4 => "bitshuffle-lz4",
            BitshuffleCode::Zstd => "bitshuffle-zstd",
        }
    }

    /// Whether stored and plain bytes are equally many.
    pub(super) fn keeps_size(&self) -> bool {
        self.code == BitshuffleCode::Plain
    }

    /// Bytes of a block as a chunk names it.
    pub(super) fn named_block(&self) -> usize {
        self.block.saturating_mul(self.width)
    }

    /// Bytes of the largest block of a chunk that has `plain`.
    pub(super) fn block_bytes(&self, plain: usize) -> usize {
        let eight = self.width.saturating_mul(8);
        self.named_block().min(plain - plain % eight)
    }

    /// Plain bytes that a stored one can stand for at most.
    pub(super) fn ratio(&self) -> u64 {
        match self.code {
            BitshuffleCode::Plain => 1,
            BitshuffleCode::Lz4 => 255,
            BitshuffleCode::Zstd => super::checked::ZSTD_RATIO,
        }
    }

    /// Memory to decode at most `plain` bytes: the largest block still in rows, and working memory.
    pub(super) fn scratch(&self, plain: usize) -> u64 {
        let rows = match self.code {
            BitshuffleCode::Plain => 0,
            _ => room(plain as u64),
        };
        rows.saturating_add(room(most_scratch(self.width, plain) as u64))
    }

    /// Decodes into the front of `out`; returns the number of bytes written.
    pub(super) fn decode(
        &self,
        tools: &mut Tools,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<usize, FilterError> {
        let plain = (stored.len() as u64, self.block, stored);
        let (size, block, rest) = match self.code {
            BitshuffleCode::Plain => plain,
            _ => header(stored).map(|(size, bytes, rest)| (size, bytes / self.width, rest))?,
        };
        let room = out.len();
        let out = usize::try_from(size)
            .ok()
            .and_then(|size| out.get_mut(..size));
        let out = out.ok_or_else(|| FilterError::too_long(room).found(size))?;
        if block == 0 || !block.is_multiple_of(8) {
            let fault = FilterError::new("blocks are no multiple of 8 elements");
            return Err(fault.found(block));
        }
        if !out.len().is_multiple_of(self.width) {
            let fault = FilterError::new("the size is no multiple of the element's");
            return Err(fault.expected(self.width).found(out.len()));
        }
        self.decode_blocks(tools, block, rest, out)?;
        Ok(out.len())
    }

    fn decode_blocks(
        &self,
        tools: &mut Tools,
        block: usize,
        mut rest: &[u8],
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        let tail = out.len() / self.width % 8 * self.width;
        let (blocks, tail) = out.split_at_mut(out.len() - tail);
        let block = block.saturating_mul(self.width).min(blocks.len());
        let tile = tools.take(most_scratch(self.width, block))?;
        let room = tools.take(match self.code {
            BitshuffleCode::Plain => 0,
            _ => block,
        })?;
        for elements in blocks.chunks_mut(block.max(1)) {
            let width = self.width;
            let bytes = self.take_rows(tools, &mut rest, elements.len(), room)?;
            unbitshuffle(Planes::Joined { bytes, width }, elements, tile);
        }
        let plain = rest.get(..tail.len()).ok_or_else(FilterError::truncated)?;
        tail.copy_from_slice(plain);
        Ok(())
    }

    /// The rows of the next block, which has `len` bytes; decoded into `room` unless they are
    /// stored as they are.
    fn take_rows<'r, 's: 'r>(
        &self,
        tools: &mut Tools,
        rest: &mut &'s [u8],
        len: usize,
        room: &'r mut [u8],
    ) -> Result<&'r [u8], FilterError> {
        match self.code {
            BitshuffleCode::Plain => {
                let (rows, behind) = rest
                    .split_at_checked(len)
                    .ok_or_else(FilterError::truncated)?;
                *rest = behind;
                return Ok(rows);
            }
            BitshuffleCode::Lz4 => lz4::decode(take_block(rest)?, &mut room[..len])?,
            BitshuffleCode::Zstd => {
                let written = libraries::zstd(tools.contexts, take_block(rest)?, &mut room[..len])?;
                if written != len {
                    return Err(FilterError::truncated());
                }
            }
        }
        Ok(&room[..len])
    }
}
