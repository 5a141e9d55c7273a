//! All bytes of an array, from the first to the last, decoded by several threads and handed over in
//! order.
//!
//! The array is cut where its blocks end, so that each is decoded once and straight to where its
//! bytes are taken from. Memory is charged to the budget for a round of such runs at a time, and is
//! as much as a run takes for each thread, whatever the array claims to hold. A block that cannot
//! be decoded ends it: what was handed over before is right. Used by the command that unpacks.

use std::ops::Range;
use std::sync::Arc;

use super::chunked_write::memory::{EncodeMemory, EncodeNeeds};
use crate::array::uncached::{DecodeMemory, lent, read_into};
use crate::array::{Array, Piece};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::set_aside;
use crate::pipeline::in_order;

/// Bytes of a run, if its blocks are no larger.
const RUN: u64 = 1 << 20;

/// Runs that are decoded between two looks at what comes next.
const ROUND: usize = 64;

/// Bytes whose pieces are asked for at once: there may be a piece for every byte.
const STEP: u64 = 64 << 10;

/// Takes bytes of the array, and where they begin in it.
pub type TakePart<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<()>;

/// Hands all bytes of an array to `take`.
pub fn each_part(array: &dyn Array, budget: &Arc<Budget>, take: TakePart<'_>) -> Result<()> {
    let mut cut = WholeBlocks {
        array,
        at: 0,
        end: array.info()?.bytes,
        pieces: Vec::new(),
    };
    loop {
        let (runs, needs) = cut.round()?;
        if runs.is_empty() {
            return Ok(());
        }
        let mut memory = EncodeMemory::reserve(&|_| Ok(needs), runs.len() as u64, 0, budget)?;
        in_order(
            memory.spaces.iter_mut().collect(),
            runs.len(),
            |space, job| {
                let (out, scratch) = space.parts();
                let len = runs[job].end - runs[job].start;
                let out = part(out, len)?;
                read_into(array, runs[job].start, out, DecodeMemory::Lent(scratch))?;
                Result::Ok(len)
            },
            |job, space, len| {
                let (out, _) = space.parts();
                take(runs[job].start, part(out, len)?)
            },
        )?;
    }
}

fn part(space: &mut [u8], len: u64) -> Result<&mut [u8]> {
    let len = usize::try_from(len).ok();
    let part = len.and_then(|len| space.get_mut(..len));
    part.ok_or_else(|| Error::Bug("a run is longer than its space".into()))
}

/// Cuts an array into runs of whole blocks.
struct WholeBlocks<'a> {
    array: &'a dyn Array,
    /// Where the next run begins.
    at: u64,
    end: u64,
    pieces: Vec<Piece>,
}

impl WholeBlocks<'_> {
    /// Some runs, none at the end, and what decoding any of them takes.
    fn round(&mut self) -> Result<(Vec<Range<u64>>, EncodeNeeds)> {
        let (mut runs, mut needs) = (Vec::new(), EncodeNeeds::default());
        while runs.len() < ROUND && self.at < self.end {
            let (start, mut scratch) = (self.at, 0);
            while self.at < self.end && self.at - start < RUN {
                scratch = scratch.max(self.step()?);
            }
            needs = needs.max(EncodeNeeds {
                plain: 0,
                out: self.at - start,
                scratch,
            });
            runs.push(start..self.at);
        }
        Ok((runs, needs))
    }

    /// Goes on to the end of a block, and says what decoding those passed takes.
    fn step(&mut self) -> Result<u64> {
        const DOING: &str = "cannot find the blocks of an array";
        let range = self.at..self.end.min(self.at.saturating_add(STEP));
        let (array, pieces) = (self.array, &mut self.pieces);
        pieces.clear();
        let room = 2 * STEP * size_of::<Piece>() as u64;
        set_aside(room, DOING, || array.pieces(range.clone(), pieces))??;
        let mut scratch = 0;
        for piece in &self.pieces {
            if let Piece::Block { id, block_len, .. } = *piece {
                scratch = scratch.max(lent(block_len, self.array.scratch(id)));
            }
        }
        let behind = match self.pieces.last() {
            Some(&Piece::Block {
                block_len,
                skip,
                take,
                ..
            }) => block_len.saturating_sub(skip.saturating_add(take)),
            _ => 0,
        };
        self.at = self.end.min(range.end.saturating_add(behind));
        Ok(scratch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::array::dtype::Dtype;
    use crate::array::{BlockId, Info, Order, even_pieces};
    use crate::error::Fault;
    use crate::memory::Arena;

    /// Blocks of one length, one of which may be damaged; no byte is like that beside it.
    struct Blocks {
        bytes: u64,
        block: u64,
        damaged: Option<u64>,
    }

    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    impl Array for Blocks {
        fn name(&self) -> &str {
            "blocks"
        }

        fn info(&self) -> Result<Info> {
            Ok(Info {
                dtype: Dtype::U8,
                shape: vec![self.bytes],
                order: Order::C,
                bytes: self.bytes,
                stored_bytes: 0,
                blocks: 0,
                codec: "".into(),
            })
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            even_pieces(self.bytes, self.block, range, out);
            Ok(())
        }

        fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
            if self.damaged == Some(block.0) {
                return Err(Fault::new("damaged").into());
            }
            for (at, out) in (block.0 * self.block..).zip(out) {
                *out = byte(at);
            }
            Ok(())
        }
    }

    /// How many bytes were handed over before it ended.
    fn taken(array: &Blocks) -> (u64, Result<()>) {
        let mut next = 0;
        let done = each_part(array, &Budget::new(64 << 20), &mut |at, bytes| {
            assert_eq!(at, next);
            assert!(bytes.iter().zip(at..).all(|(found, at)| *found == byte(at)));
            next += bytes.len() as u64;
            Ok(())
        });
        (next, done)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_byte_is_handed_over_once(bytes in 0u64..5_000_000, block in 1u64..3_000_000) {
            let (taken, done) = taken(&Blocks { bytes, block, damaged: None });
            prop_assert_eq!(taken, bytes);
            prop_assert!(done.is_ok());
        }

        #[test]
        fn damage_ends_it_there(bytes in 1u64..5_000_000, block in 1000u64..3_000_000, at in 0u64..5_000_000) {
            let damaged = at % bytes / block;
            let (taken, done) = taken(&Blocks { bytes, block, damaged: Some(damaged) });
            prop_assert!(taken <= damaged * block);
            prop_assert!(matches!(done, Err(Error::Fault(_))));
        }
    }

    #[test]
    fn more_than_one_round() {
        let bytes = (ROUND as u64 + 3) * RUN + 5;
        let blocks = |block| Blocks {
            bytes,
            block,
            damaged: None,
        };
        assert_eq!(taken(&blocks(RUN)).0, bytes);
        assert_eq!(taken(&blocks(1000)).0, bytes);
    }
}
