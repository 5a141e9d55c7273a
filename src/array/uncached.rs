//! Reading an array without a cache: for arrays that are made of others, for the rules that a full check
//! applies to whole arrays, and for tests. Who reads the same bytes twice reads through [`super::read`].

use std::ops::Range;

use super::read::{block_of, same_block};
use super::{Array, Piece};
use crate::error::{Fault, Result};
use crate::memory::no_memory;
use crate::memory::scratch::Region;

/// In memory to be filled: not zero, so that a byte that a decoder leaves out is seen.
const UNWRITTEN: u8 = 0xee;

/// A range of an array and where it belongs in a buffer.
pub struct Copy {
    pub from: Range<u64>,
    pub to: usize,
}

/// Fills `out` with the array's bytes from `at` on.
pub fn read_into(array: &dyn Array, at: u64, out: &mut [u8]) -> Result<()> {
    let from = at..at.saturating_add(out.len() as u64);
    gather(array, &[Copy { from, to: 0 }], out)
}

/// Copies ranges to their places in `out`; every block is decoded once.
pub fn gather(array: &dyn Array, copies: &[Copy], out: &mut [u8]) -> Result<()> {
    let mut placed = Vec::with_capacity(copies.len());
    let mut pieces = Vec::new();
    for Copy { from, to } in copies {
        pieces.clear();
        array.pieces(from.clone(), &mut pieces)?;
        let mut at = *to;
        for piece in &pieces {
            placed.push((at, *piece));
            at += piece.take() as usize;
        }
        if (at - to) as u64 != from.end - from.start {
            return Err(Fault::new("the array is shorter than it says").into());
        }
    }
    placed.sort_by_key(|(_, piece)| block_of(piece));
    for group in placed.chunk_by(|a, b| same_block(&a.1, &b.1)) {
        copy_group(array, group, out)?;
    }
    Ok(())
}

/// Copies the pieces of one block, or one direct piece.
fn copy_group(array: &dyn Array, group: &[(usize, Piece)], out: &mut [u8]) -> Result<()> {
    let mut region = Region::default();
    match *group {
        [(to, Piece::Direct { at, take })] => array.read_direct(at, part(out, to, take)?),
        [
            (
                to,
                Piece::Block {
                    id,
                    block_len,
                    take,
                    ..
                },
            ),
        ] if take == block_len => {
            array.decode(id, part(out, to, take)?, region.scratch(array.scratch(id))?)
        }
        [(_, Piece::Block { id, block_len, .. }), ..] => {
            let mut block = unwritten(block_len)?;
            array.decode(id, &mut block, region.scratch(array.scratch(id))?)?;
            for &(to, piece) in group {
                if let Piece::Block { skip, take, .. } = piece {
                    let bytes = &block[skip as usize..][..take as usize];
                    part(out, to, take)?.copy_from_slice(bytes);
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn part(out: &mut [u8], to: usize, len: u64) -> Result<&mut [u8]> {
    let part = out
        .get_mut(to..)
        .and_then(|rest| rest.get_mut(..len as usize));
    part.ok_or_else(|| Fault::new("the array is longer than it says").into())
}

/// A block to be decoded into; ENOMEM if the system has no memory left.
fn unwritten(len: u64) -> Result<Vec<u8>> {
    let refused = || no_memory("cannot decode a block");
    let len = usize::try_from(len).map_err(|_| refused())?;
    let mut block = Vec::new();
    block.try_reserve_exact(len).map_err(|_| refused())?;
    block.resize(len, UNWRITTEN);
    Ok(block)
}

/// The bytes of a range.
#[cfg(test)]
pub(crate) fn read(array: &dyn Array, range: Range<u64>) -> Result<Vec<u8>> {
    let mut bytes = vec![UNWRITTEN; (range.end - range.start) as usize];
    read_into(array, range.start, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
pub(crate) fn read_all(array: &dyn Array) -> Result<Vec<u8>> {
    read(array, 0..array.info()?.bytes)
}
