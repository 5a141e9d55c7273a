//! `end` of packed fragments: stored as the lengths `end - start` (docs/formats.md).
//!
//! A block of ends is a block of lengths plus the block of starts of the same number, modulo 2^32,
//! so both streams are decoded for it. Used by `fragments`.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use super::packed::{BLOCK_BYTES, SCRATCH_BYTES, Stream, describe};
use crate::array::{Array, BlockId, Info, Piece, even_pieces};
use crate::codec::bp128;
use crate::error::{Fault, Result};
use crate::memory::Scratch;

thread_local! {
    /// Decoded starts of one block.
    static STARTS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Ends {
    lengths: Stream,
    starts: Arc<Stream>,
}

impl Ends {
    /// Both streams have the same number of values.
    pub(super) fn new(lengths: Stream, starts: Arc<Stream>) -> Self {
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

    fn scratch(&self, _block: BlockId) -> u64 {
        SCRATCH_BYTES + BLOCK_BYTES
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
        self.lengths.decode_block(block, out)?;
        STARTS.with_borrow_mut(|starts| {
            // Blocks are of one size but for the last of an array, so this clears next to nothing.
            starts.resize(out.len(), 0);
            self.starts.decode_block(block, starts)?;
            bp128::add_in_place(out, starts);
            Ok(())
        })
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.lengths.verify(report)
    }
}
