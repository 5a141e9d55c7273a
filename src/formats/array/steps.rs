//! The pieces of ranges of an array, some at a time.
//!
//! A range may have a piece for every byte (a dataset whose chunks are one column wide), and a
//! piece takes forty times as much; so an array is asked for a part of the range, and how large a
//! part follows from how many pieces the last one had. Pieces are checked to cover what was asked.
//! Carried out by [`super::gather`].

use std::ops::Range;

use super::{Array, Piece};
use crate::error::{Fault, Result};
use crate::memory::{no_memory, set_aside};

/// Bytes asked for at first, and where pieces are small. A piece has at least one byte.
pub(super) const LEAST: u64 = 16 << 10;

/// Most bytes asked for at once.
pub(super) const MOST: u64 = 64 << 10;

/// Pieces of at least this size, on average, are not small.
const SMALL: u64 = 64;

/// Steps that have as many pieces are carried out before more are asked for.
pub(super) const PIECES: usize = 32 << 10;

/// What refusals of memory say.
pub(super) const DOING: &str = "cannot find the pieces of a range";

/// A range of an array and where it belongs in a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedRange {
    /// Bytes of the array.
    pub from: Range<u64>,
    /// Where they begin in the buffer.
    pub to: usize,
}

/// A piece and where it belongs in a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedPiece {
    pub(super) to: usize,
    pub(super) piece: Piece,
}

/// Memory for a piece for each of `bytes`, in a list that grows: while it does, there is the one
/// before, too.
pub(super) const fn room_for_pieces(bytes: u64) -> u64 {
    let most = bytes.next_power_of_two() * size_of::<Piece>() as u64;
    most + most / 2
}

/// Goes through the pieces of ranges.
pub(super) struct PieceSteps<'a> {
    array: &'a dyn Array,
    /// Ranges whose pieces have not all been handed out.
    ranges: &'a [PlacedRange],
    /// Bytes of the first of them whose pieces have been.
    done: u64,
    step: u64,
    pieces: Vec<Piece>,
}

impl<'a> PieceSteps<'a> {
    /// The ranges lie within the array.
    pub(super) fn new(array: &'a dyn Array, ranges: &'a [PlacedRange]) -> Self {
        let mut steps = PieceSteps {
            array,
            ranges,
            done: 0,
            step: LEAST,
            pieces: Vec::new(),
        };
        steps.pass_ended();
        steps
    }

    pub(super) fn is_done(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Where in the buffer the next piece belongs.
    pub(super) fn next_to(&self) -> usize {
        let first = self.ranges.first();
        first.map_or(0, |range| range.to + self.done as usize)
    }

    /// Replaces `placed` by the next pieces, in order; none if it is done. What lies before a fault
    /// is handed out first.
    pub(super) fn next(&mut self, placed: &mut Vec<PlacedPiece>) -> Result<()> {
        placed.clear();
        while let Some(range) = self.ranges.first() {
            if placed.len() >= PIECES {
                break;
            }
            let from = range.from.start + self.done..range.from.end;
            match self.step(from) {
                Ok(len) => {
                    let reserved = placed.try_reserve(self.pieces.len());
                    reserved.map_err(|_| no_memory(DOING))?;
                    self.place(len, placed);
                }
                Err(e) if placed.is_empty() => return Err(e),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Asks for the pieces of the next step and says how many bytes it has.
    fn step(&mut self, from: Range<u64>) -> Result<u64> {
        let to = from.start.saturating_add(self.step).min(from.end);
        self.pieces.clear();
        let (array, pieces) = (self.array, &mut self.pieces);
        set_aside(room_for_pieces(to - from.start), DOING, || {
            array.pieces(from.start..to, pieces)
        })??;
        let covered = self
            .pieces
            .iter()
            .try_fold(0u64, |sum, piece| sum.checked_add(piece.take()));
        let len = to - from.start;
        if covered != Some(len) {
            let fault = Fault::new("the pieces do not cover the range").expected(len);
            return Err(fault.found(covered.unwrap_or(u64::MAX)).into());
        }
        Ok(len)
    }

    fn place(&mut self, len: u64, placed: &mut Vec<PlacedPiece>) {
        let small = len / SMALL < self.pieces.len() as u64;
        self.step = if small { LEAST } else { MOST };
        let mut to = self.next_to();
        for piece in self.pieces.iter().filter(|piece| piece.take() > 0) {
            let joined = placed.last_mut().is_some_and(|last| last.join(to, piece));
            if !joined {
                placed.push(PlacedPiece { to, piece: *piece });
            }
            to += piece.take() as usize;
        }
        self.done += len;
        self.pass_ended();
    }

    fn pass_ended(&mut self) {
        while let [first, rest @ ..] = self.ranges {
            if first.from.start.saturating_add(self.done) < first.from.end {
                break;
            }
            (self.ranges, self.done) = (rest, 0);
        }
    }
}

impl PlacedPiece {
    pub(super) fn block(&self) -> Option<super::BlockId> {
        self.piece.block()
    }

    /// Makes one of two pieces of a block that a step has parted, so that they are answered without
    /// a copy.
    fn join(&mut self, to: usize, next: &Piece) -> bool {
        match (&mut self.piece, next) {
            (
                Piece::Block { id, skip, take, .. },
                Piece::Block {
                    id: next_id,
                    skip: next_skip,
                    take: more,
                    ..
                },
            ) if id == next_id
                && skip.checked_add(*take) == Some(*next_skip)
                && self.to + *take as usize == to =>
            {
                *take += more;
                true
            }
            _ => false,
        }
    }
}
