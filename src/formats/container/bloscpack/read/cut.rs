//! How a chunk is cut into the blocks that are decoded and cached: one Blosc block each, or several
//! small ones together.
//!
//! Blosc blocks may be as small as a byte; every cached block has its price in memory and time. A
//! memcpyed chunk can be cut anywhere. Pure arithmetic; used by [`super`].

use std::ops::Range;

use crate::array::{BlockId, Piece};
use crate::codec::blosc::ChunkHeader;
use crate::container::bloscpack::chunks::ChunkExtent;

/// Blosc blocks smaller than this are decoded together.
const LEAST: u32 = 32 << 10;

/// Piece of a memcpyed chunk.
const RAW: u64 = 128 << 10;

/// Piece of a chunk that cannot be read, whose claimed length is no reason to take memory.
const UNREADABLE: u64 = 1 << 20;

/// The blocks of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkCut {
    /// Plain bytes of every unit but the last.
    len: u64,
    /// Blosc blocks of every unit but the last.
    blocks: u32,
}

impl ChunkCut {
    pub(super) fn of(header: &ChunkHeader) -> Self {
        if header.memcpyed() {
            return ChunkCut {
                len: RAW,
                blocks: 1,
            };
        }
        let blocksize = header.blocksize().max(1);
        let blocks = LEAST.div_ceil(blocksize);
        ChunkCut {
            len: u64::from(blocksize) * u64::from(blocks),
            blocks,
        }
    }

    /// Of a chunk of which only the length is known. Decoding such a block finds the fault again.
    pub(super) fn unreadable() -> Self {
        ChunkCut {
            len: UNREADABLE,
            blocks: 1,
        }
    }

    /// Where the first unit of a chunk ends in the array.
    pub(super) fn end(&self, extent: &ChunkExtent) -> u64 {
        let end = extent.plain.start.saturating_add(self.len);
        end.min(extent.plain.end)
    }

    /// Appends the pieces of `range`, which lies within the chunk's `extent`. A block is numbered
    /// by the place of its first byte in the array.
    pub(super) fn pieces(&self, extent: &ChunkExtent, range: Range<u64>, out: &mut Vec<Piece>) {
        let mut at = range.start;
        while at < range.end {
            let inner = (at - extent.plain.start) / self.len * self.len;
            let start = extent.plain.start + inner;
            let end = (start + self.len).min(extent.plain.end);
            let take = end.min(range.end) - at;
            let id = BlockId(start);
            out.push(Piece::Block {
                id,
                block_len: end - start,
                skip: at - start,
                take,
            });
            at += take;
        }
    }

    /// The plain bytes, within its chunk, of the unit that begins at byte `start` of the array.
    pub(super) fn plain(&self, extent: &ChunkExtent, start: u64) -> Option<Range<u64>> {
        let inner = start.checked_sub(extent.plain.start)?;
        let end = (start + self.len).min(extent.plain.end) - extent.plain.start;
        (inner.is_multiple_of(self.len) && inner < end).then_some(inner..end)
    }

    /// The Blosc blocks of a unit.
    pub(super) fn blocks(&self, header: &ChunkHeader, plain: &Range<u64>) -> Range<u32> {
        // A unit lies in a chunk of less than 2^31 bytes.
        let first = (plain.start / u64::from(header.blocksize().max(1))) as u32;
        first..first.saturating_add(self.blocks).min(header.blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::bloscpack::tests::files;
    use proptest::prelude::*;

    fn header(nbytes: usize, blocksize: usize) -> ChunkHeader {
        let chunk = files::blocked_chunk(&vec![0; nbytes], blocksize, false);
        ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap()
    }

    #[test]
    fn small_blocks_go_together() {
        assert_eq!(
            ChunkCut::of(&header(100_000, 1000)),
            ChunkCut {
                len: 33_000,
                blocks: 33
            }
        );
        assert_eq!(
            ChunkCut::of(&header(100_000, 40_000)),
            ChunkCut {
                len: 40_000,
                blocks: 1
            }
        );
        let copied = files::chunk(&[0; 100], 1);
        let copied = ChunkHeader::parse(copied.first_chunk().unwrap()).unwrap();
        assert_eq!(ChunkCut::of(&copied).len, RAW);
    }

    proptest! {
        #[test]
        fn units_cover_the_chunk(
            nbytes in 1usize..200_000, blocksize in 1usize..70_000, start in 0u64..1 << 40,
            a in 0u64..200_000, b in 0u64..200_000,
        ) {
            let header = header(nbytes, blocksize.min(nbytes));
            let units = ChunkCut::of(&header);
            let end = start + nbytes as u64;
            let extent = ChunkExtent { number: 7, plain: start..end };
            let range = (start + a.min(b)).min(end)..(start + a.max(b)).min(end);
            let mut pieces = Vec::new();
            units.pieces(&extent, range.clone(), &mut pieces);
            let mut at = range.start;
            for piece in pieces {
                let Piece::Block { id, block_len, skip, take } = piece else { panic!("no block") };
                prop_assert_eq!(id.0 + skip, at);
                prop_assert!(take > 0 && skip + take <= block_len);
                let plain = units.plain(&extent, id.0).unwrap();
                prop_assert_eq!(plain.end - plain.start, block_len);
                let blocks = units.blocks(&header, &plain);
                let (first, last) = (header.block_range(blocks.start), header.block_range(blocks.end - 1));
                prop_assert_eq!(u64::from(first.start)..u64::from(last.end), plain);
                prop_assert_eq!(units.plain(&extent, id.0 + 1), None);
                at += take;
            }
            prop_assert_eq!(at, range.end);
            prop_assert_eq!(units.plain(&extent, end), None);
        }
    }
}
