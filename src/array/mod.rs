//! What every format offers, in one vocabulary: an [`Array`] is a sequence of bytes with a type and a
//! shape, cut into blocks that a codec decodes.
//!
//! Implemented by `container`, one type per kind of stored array; used by [`read`] (mount and `cat`), by
//! `verify` and by the views. A new format implements this trait and nothing else of the read path.

pub mod dtype;
pub mod npy;
pub mod prefetch;
pub mod read;

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Fault, Result};
use dtype::Dtype;

/// A block of an array, numbered by its format: what is decoded at once and cached as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u64);

/// Order of the elements of a multidimensional array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    C,
    Fortran,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::C => "C",
            Order::Fortran => "F",
        }
    }
}

/// What an array is, known without decoding it.
#[derive(Debug, Clone)]
pub struct Info {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub order: Order,
    /// Decoded size.
    pub bytes: u64,
    /// What it occupies in the container.
    pub stored_bytes: u64,
    pub blocks: u64,
    pub codec: Cow<'static, str>,
}

/// A part of an array's bytes and where to get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Bytes `skip..skip + take` of a block that decodes to `block_len` bytes.
    Block {
        id: BlockId,
        block_len: u64,
        skip: u64,
        take: u64,
    },
    /// Bytes stored as they are shown, `take` from `at` on in the array's own numbering; read with
    /// [`Array::read_stored`] and never cached here: the kernel caches both sides already.
    Stored { at: u64, take: u64 },
}

impl Piece {
    pub fn take(&self) -> u64 {
        match *self {
            Piece::Block { take, .. } | Piece::Stored { take, .. } => take,
        }
    }
}

/// An array of a container. Errors carry the block and the stored bytes; the caller adds the names.
pub trait Array: Send + Sync {
    fn name(&self) -> &str;

    /// May read the source the first time (names are counted, chunks are walked), never much memory.
    fn info(&self) -> Result<Info>;

    /// Appends the pieces that make up `range`, in order; `range` lies within `0..info().bytes`.
    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()>;

    /// Memory that decoding this block takes beside its output; counts against the budget.
    fn scratch(&self, _block: BlockId) -> u64 {
        0
    }

    /// Decodes one block into `out`, which has the `block_len` that [`Array::pieces`] gave.
    fn decode(&self, block: BlockId, out: &mut [u8]) -> Result<()>;

    /// Reads bytes of [`Piece::Stored`].
    fn read_stored(&self, _at: u64, _out: &mut [u8]) -> Result<()> {
        Err(Fault::new("this array has no plainly stored bytes").into())
    }

    /// Checks what reading every block does not: the rules that only a full check can see. Reports
    /// every broken rule it finds.
    fn verify(&self, _report: &mut dyn FnMut(Fault)) -> Result<()> {
        Ok(())
    }
}

/// Appends the pieces of an array whose blocks all decode to `block_len` bytes but the last.
pub fn even_pieces(bytes: u64, block_len: u64, range: Range<u64>, out: &mut Vec<Piece>) {
    let mut at = range.start;
    let end = range.end.min(bytes);
    while at < end {
        let block = at / block_len;
        let start = block * block_len;
        let len = block_len.min(bytes - start);
        let take = (start + len).min(end) - at;
        out.push(Piece::Block {
            id: BlockId(block),
            block_len: len,
            skip: at - start,
            take,
        });
        at += take;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn even_pieces_cover_the_range(bytes in 0u64..5000, block_len in 1u64..700, a in 0u64..5000, b in 0u64..5000) {
            let (start, end) = (a.min(b).min(bytes), a.max(b).min(bytes));
            let mut pieces = Vec::new();
            even_pieces(bytes, block_len, start..end, &mut pieces);
            let mut at = start;
            for piece in pieces {
                let Piece::Block { id, block_len: len, skip, take } = piece else { panic!("not a block") };
                prop_assert_eq!(id.0 * block_len + skip, at);
                prop_assert!(take > 0 && skip + take <= len);
                prop_assert_eq!(len, block_len.min(bytes - id.0 * block_len));
                at += take;
            }
            prop_assert_eq!(at, end);
        }
    }
}
