//! `end` of packed fragments: stored as the lengths `end - start` (docs/formats.md).
//!
//! A block of ends is a block of lengths plus the block of starts of the same number, modulo 2^32,
//! so both streams are decoded for it. Used by `fragments`.

use std::ops::Range;
use std::sync::Arc;

use super::{BLOCK_BYTES, PackedStream, describe};
use crate::array::{Array, BlockId, Info, Piece, even_pieces};
use crate::codec::bp128;
use crate::error::{Fault, Result};
use crate::memory::{Arena, room};
use crate::source::StoredRanges;

pub(crate) struct Ends {
    lengths: PackedStream,
    starts: Arc<PackedStream>,
}

impl Ends {
    /// Both streams have the same number of values.
    pub(crate) fn new(lengths: PackedStream, starts: Arc<PackedStream>) -> Self {
        Ends { lengths, starts }
    }
}

impl Array for Ends {
    fn name(&self) -> &str {
        "end"
    }

    fn info(&self) -> Result<Info> {
        Ok(describe(&self.lengths, self.lengths.codec()))
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        even_pieces(self.lengths.bytes(), BLOCK_BYTES, range, out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let Some(block) = piece.block() else {
            return Ok(false);
        };
        let lengths = self.lengths.stored(block, round, needed)?;
        Ok(self.starts.stored(block, round, needed)? || lengths)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        let streams = self.lengths.scratch(block).max(self.starts.scratch(block));
        room(self.lengths.block_bytes(block)) + streams
    }

    fn decode(&self, block: BlockId, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let starts = scratch.take(out.len() as u64)?;
        self.lengths.decode_block(block, out, scratch.lend())?;
        self.starts.decode_block(block, starts, scratch)?;
        bp128::add_in_place(out, starts);
        Ok(())
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.lengths.verify(report)
    }
}
