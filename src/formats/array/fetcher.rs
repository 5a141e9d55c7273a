//! The one place where what a request needs is asked for, before anything of it is decoded.
//!
//! Arrays name the stored bytes of their pieces ([`Array::stored`]); those of all pieces are handed
//! over together, once for each source. What can be named only when other stored bytes are there,
//! an index for instance, follows in further rounds. It is a promise of nothing: whatever was not
//! named is fetched by the decode, and what cannot be fetched is told by it. Used by
//! [`super::read`], for requests and for read-ahead, and by arrays that are made of others.

use std::ops::Range;

use super::gather::same_block;
use super::steps::{PieceSteps, PlacedPiece, PlacedRange};
use super::{Array, BlockId};
use crate::error::Result;
use crate::source::StoredRanges;

/// An index, what it leads to, and what that leads to.
const ROUNDS: u32 = 3;

/// Asks for what finding the pieces of a range takes.
pub(super) fn expect_places(array: &dyn Array, range: &Range<u64>) {
    if !array.places_known(range) {
        let mut needed = StoredRanges::default();
        if array.stored_places(range, &mut needed).is_ok() {
            needed.hand_over();
        }
    }
}

/// Asks for what these pieces need, but for blocks that are there already. Pieces of one block lie
/// beside each other.
pub(super) fn expect(
    array: &dyn Array,
    placed: &[PlacedPiece],
    is_there: &dyn Fn(BlockId) -> bool,
) {
    for round in 0..ROUNDS {
        let (mut needed, mut goes_on) = (StoredRanges::default(), false);
        for group in placed.chunk_by(same_block) {
            let Some(first) = group.first() else { continue };
            if first.block().is_some_and(is_there) {
                continue;
            }
            goes_on |= array
                .stored(&first.piece, round, &mut needed)
                .unwrap_or(false);
        }
        needed.hand_over();
        if !goes_on {
            return;
        }
    }
}

/// Names what a range of an array needs, for one that is made of it; says whether there is more in
/// another round.
pub(crate) fn name_range(
    array: &dyn Array,
    range: Range<u64>,
    round: u32,
    needed: &mut StoredRanges,
) -> Result<bool> {
    let ranges = [PlacedRange { from: range, to: 0 }];
    let mut steps = PieceSteps::new(array, &ranges);
    let (mut placed, mut goes_on, mut last) = (Vec::new(), false, None);
    while !steps.is_done() {
        steps.next(&mut placed)?;
        for PlacedPiece { piece, .. } in &placed {
            let block = piece.block();
            if block.is_none() || block != last {
                goes_on |= array.stored(piece, round, needed)?;
            }
            last = block;
        }
    }
    Ok(goes_on)
}
