//! Carries out pieces: every block is had once, its pieces are copied to their places, and direct
//! bytes that follow each other are read at once.
//!
//! The blocks come from a [`PieceSource`]: the cache ([`super::read`]), a decode past it
//! ([`super::uncached`]), the last block of a reader that goes on ([`super::sequential`]), or a few
//! blocks kept below the cache ([`super::nested`]). The pieces come in bounded steps
//! ([`super::steps`]).

use super::steps::{PieceSteps, PlacedPiece, PlacedRange};
use super::{Array, BlockId, Piece};
use crate::error::{Error, Fault, Result};

/// Where the bytes of an array's pieces come from.
pub(super) trait PieceSource {
    /// Has a block, which decodes to `len` bytes, and gives it to `copy`.
    fn block(
        &mut self,
        id: BlockId,
        len: u64,
        copy: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()>;

    /// Fills `out` with a whole block.
    fn whole_block(&mut self, id: BlockId, out: &mut [u8]) -> Result<()> {
        self.block(id, out.len() as u64, &mut |block| {
            out.copy_from_slice(slice(block, 0, out.len() as u64)?);
            Ok(())
        })
    }

    /// Told of the pieces that are wanted next, before the first is; those of a block are beside
    /// each other.
    fn expect(&mut self, _placed: &[PlacedPiece]) {}

    /// Fills `out` with direct bytes.
    fn direct(&mut self, at: u64, out: &mut [u8]) -> Result<()>;

    /// Says where the array is that has no pieces for a range.
    fn locate(&self, error: Error) -> Error {
        error
    }
}

/// A fault that kept pieces from being copied.
pub(super) struct Stopped {
    /// Everything before this place in the buffer is good.
    pub(super) good: usize,
    pub(super) error: Error,
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Error {
        stopped.error
    }
}

type Copied = std::result::Result<(), Stopped>;

/// Copies ranges of an array to their places in `out`.
pub(super) fn gather(
    array: &dyn Array,
    ranges: &[PlacedRange],
    source: &mut impl PieceSource,
    out: &mut [u8],
) -> Result<()> {
    let mut placed = Vec::new();
    let mut steps = PieceSteps::new(array, ranges);
    Ok(gather_rest(&mut steps, &mut placed, source, out)?)
}

/// Copies the pieces in `placed` and all that are left of `steps`.
pub(super) fn gather_rest(
    steps: &mut PieceSteps<'_>,
    placed: &mut Vec<PlacedPiece>,
    source: &mut impl PieceSource,
    out: &mut [u8],
) -> Copied {
    loop {
        copy_pieces(placed, source, out)?;
        if steps.is_done() {
            return Ok(());
        }
        let good = steps.next_to();
        steps.next(placed).map_err(|error| Stopped {
            good,
            error: source.locate(error),
        })?;
    }
}

/// The pieces of a block are copied together, as it may make up many of them (the rows of an
/// n-dimensional chunk), and no two blocks are held at once (see `cache`).
fn copy_pieces(
    placed: &mut [PlacedPiece],
    source: &mut impl PieceSource,
    out: &mut [u8],
) -> Copied {
    if placed.len() > 2 {
        // In place, where a sort that keeps the order would take memory.
        placed.sort_unstable_by_key(|placed| (placed.block(), placed.to));
    }
    source.expect(placed);
    let mut first: Option<Stopped> = None;
    for group in placed.chunk_by(|a, b| same_block(a, b) || follows(a, b)) {
        if let Err(stopped) = copy_group(group, source, out)
            && first.as_ref().is_none_or(|first| stopped.good < first.good)
        {
            first = Some(stopped);
        }
    }
    first.map_or(Ok(()), Err)
}

/// Copies the pieces of one block, or direct pieces that follow each other.
fn copy_group(group: &[PlacedPiece], source: &mut impl PieceSource, out: &mut [u8]) -> Copied {
    let Some(&PlacedPiece { to, piece }) = group.first() else {
        return Ok(());
    };
    let copied = match piece {
        Piece::Direct { at, .. } => return copy_direct(to, at, group, source, out),
        Piece::Block {
            id,
            take,
            block_len,
            ..
        } if group.len() == 1 && take == block_len => {
            part(out, to, take).and_then(|out| source.whole_block(id, out))
        }
        Piece::Block { id, block_len, .. } => {
            source.block(id, block_len, &mut |block| copy_block(group, block, out))
        }
    };
    copied.map_err(|error| Stopped { good: to, error })
}

fn copy_block(group: &[PlacedPiece], block: &[u8], out: &mut [u8]) -> Result<()> {
    for placed in group {
        if let Piece::Block { skip, take, .. } = placed.piece {
            part(out, placed.to, take)?.copy_from_slice(slice(block, skip, take)?);
        }
    }
    Ok(())
}

/// Reads direct pieces at once; one by one if that fails, to tell the good from the bad.
fn copy_direct(
    first: usize,
    at: u64,
    group: &[PlacedPiece],
    source: &mut impl PieceSource,
    out: &mut [u8],
) -> Copied {
    let len: u64 = group.iter().map(|placed| placed.piece.take()).sum();
    match part(out, first, len).and_then(|out| source.direct(at, out)) {
        Err(_) if group.len() > 1 => group
            .chunks(1)
            .try_for_each(|one| copy_group(one, source, out)),
        read => read.map_err(|error| Stopped { good: first, error }),
    }
}

pub(super) fn same_block(a: &PlacedPiece, b: &PlacedPiece) -> bool {
    a.block().is_some() && a.block() == b.block()
}

/// Whether two direct pieces are one range of the array.
fn follows(a: &PlacedPiece, b: &PlacedPiece) -> bool {
    match (a.piece, b.piece) {
        (Piece::Direct { at, take }, Piece::Direct { at: next, .. }) => {
            a.to + take as usize == b.to && at.checked_add(take) == Some(next)
        }
        _ => false,
    }
}

/// Bytes of a block.
pub(super) fn slice(block: &[u8], skip: u64, take: u64) -> Result<&[u8]> {
    skip.checked_add(take)
        .and_then(|end| block.get(skip as usize..end as usize))
        .ok_or_else(|| Fault::new("a block is shorter than its array says").into())
}

fn part(out: &mut [u8], to: usize, len: u64) -> Result<&mut [u8]> {
    let end = to.checked_add(len as usize);
    let outside = || Error::Bug("a piece belongs outside of the buffer".into());
    end.and_then(|end| out.get_mut(to..end)).ok_or_else(outside)
}
