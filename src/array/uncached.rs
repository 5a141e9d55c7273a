//! Reading an array without a cache: for the rules that a full check applies to whole arrays, and for
//! tests. Who reads the same bytes twice reads through [`super::read`].

#[cfg(test)]
use std::ops::Range;

use super::{Array, Piece};
use crate::error::{Fault, Result};

/// In memory to be filled: not zero, so that a byte that a decoder leaves out is seen.
const UNWRITTEN: u8 = 0xee;

/// Fills `out` with the array's bytes from `at` on.
pub fn read_into(array: &dyn Array, at: u64, out: &mut [u8]) -> Result<()> {
    let mut pieces = Vec::new();
    array.pieces(at..at.saturating_add(out.len() as u64), &mut pieces)?;
    let mut rest = out;
    for piece in pieces {
        let (part, after) = rest.split_at_mut((piece.take() as usize).min(rest.len()));
        rest = after;
        match piece {
            Piece::Direct { at, .. } => array.read_direct(at, part)?,
            Piece::Block { id, block_len, .. } if block_len == part.len() as u64 => {
                array.decode(id, part)?;
            }
            Piece::Block {
                id,
                block_len,
                skip,
                ..
            } => {
                let mut block = vec![UNWRITTEN; block_len as usize];
                array.decode(id, &mut block)?;
                part.copy_from_slice(&block[skip as usize..][..part.len()]);
            }
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Fault::new("the array is shorter than it says").into())
    }
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
