//! The pieces of a range, some at a time.
//!
//! A range may have a piece for every byte (a dataset whose chunks are one column wide), and a piece takes
//! forty times as much; so an array is asked for a part of the range, and how large a part follows from how
//! many pieces the last one had. Pieces are checked to cover what was asked. Used by [`super`] alone.

use std::ops::Range;

use super::CachedArray;
use crate::array::Piece;
use crate::error::{Fault, Result};

/// Bytes asked for at first, and where pieces are small. A piece has at least one byte.
pub(super) const LEAST: u64 = 16 << 10;

/// Most bytes asked for at once.
pub(super) const MOST: u64 = 64 << 10;

/// Pieces of at least this size, on average, are not small.
const SMALL: u64 = 64;

/// A plan that has as many pieces is carried out before it goes on.
pub(super) const PIECES: usize = 32 << 10;

/// A piece and its place in the range.
pub(super) type Placed = (usize, Piece);

pub(super) struct Plan<'a> {
    array: &'a CachedArray,
    start: u64,
    /// Up to here, pieces have been handed out.
    at: u64,
    end: u64,
    step: u64,
}

impl<'a> Plan<'a> {
    /// `range` counts the array's own bytes and lies within it.
    pub(super) fn new(array: &'a CachedArray, range: Range<u64>) -> Self {
        Plan {
            array,
            start: range.start,
            at: range.start,
            end: range.end,
            step: LEAST,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// How much of the range has been handed out.
    pub(super) fn planned(&self) -> usize {
        (self.at - self.start) as usize
    }

    /// Replaces `placed` by the next pieces, in order; none if it is done. What lies before a fault is
    /// handed out first.
    pub(super) fn next(&mut self, placed: &mut Vec<Placed>) -> Result<()> {
        placed.clear();
        let mut pieces = Vec::new();
        while !self.is_done() && placed.len() < PIECES {
            match self.step(&mut pieces) {
                Ok(to) => self.place(&pieces, to, placed),
                Err(e) if placed.is_empty() => return Err(self.array.locate(e)),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Asks for the pieces of the next step and says where it ends.
    fn step(&self, pieces: &mut Vec<Piece>) -> Result<u64> {
        let to = self.at.saturating_add(self.step).min(self.end);
        pieces.clear();
        self.array.array.pieces(self.at..to, pieces)?;
        let covered = pieces
            .iter()
            .try_fold(0u64, |sum, piece| sum.checked_add(piece.take()));
        if covered != Some(to - self.at) {
            let fault = Fault::new("the pieces do not cover the range").expected(to - self.at);
            return Err(fault.found(covered.unwrap_or(u64::MAX)).into());
        }
        Ok(to)
    }

    fn place(&mut self, pieces: &[Piece], to: u64, placed: &mut Vec<Placed>) {
        let small = (to - self.at) / SMALL < pieces.len() as u64;
        self.step = if small { LEAST } else { MOST };
        for piece in pieces.iter().filter(|piece| piece.take() > 0) {
            let joined = placed.last_mut().is_some_and(|(_, last)| join(last, piece));
            if !joined {
                placed.push((self.planned(), *piece));
            }
            self.at += piece.take();
        }
    }
}

/// Makes one of two pieces of a block that a step has parted, so that they are answered without a copy.
fn join(last: &mut Piece, next: &Piece) -> bool {
    match (last, next) {
        (
            Piece::Block { id, skip, take, .. },
            Piece::Block {
                id: next_id,
                skip: next_skip,
                take: more,
                ..
            },
        ) if id == next_id && skip.checked_add(*take) == Some(*next_skip) => {
            *take += more;
            true
        }
        _ => false,
    }
}
