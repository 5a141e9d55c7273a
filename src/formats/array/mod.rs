//! What every format offers, in one vocabulary: an [`Array`] is a sequence of bytes with a type and
//! a shape, cut into blocks that a codec decodes.
//!
//! Implemented by `container`, one type per kind of stored array; used by [`read`] (mount and
//! `cat`), by `verify` and by the views. A new format implements this trait and nothing else of the
//! read path.

pub mod byte_order;
pub mod chunking;
pub mod direct;
pub mod dtype;
pub(crate) mod fetcher;
pub mod fill;
pub mod fixed_text;
mod gather;
pub mod grid;
pub(crate) mod held;
pub(crate) mod lazy;
pub mod lengthened;
pub mod nested;
pub mod npy;
pub mod own_feeds;
pub mod partly_replaced;
pub mod prefetch;
pub mod read;
pub mod sequential;
mod steps;
pub mod stored_run;
mod strided;
pub mod uncached;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::error::{Fault, Result};
use crate::memory::block::Block;
use crate::memory::{Arena, set_aside};
use crate::source::StoredRanges;
use dtype::Dtype;
use own_feeds::OwnFeeds;

pub use crate::cache::BlockId;

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
    /// What it occupies in the container; [`Info::UNCOUNTED`] if that is in more files than are
    /// looked at.
    pub stored_bytes: u64,
    pub blocks: u64,
    pub codec: Cow<'static, str>,
}

impl Info {
    /// Of an array of which nobody has counted what it occupies.
    pub const UNCOUNTED: u64 = u64::MAX;

    /// What it occupies, if that is known.
    pub fn stored(&self) -> Option<u64> {
        (self.stored_bytes != Info::UNCOUNTED).then_some(self.stored_bytes)
    }

    /// Of a text of one value, which lies as it is shown.
    pub fn text(bytes: u64) -> Info {
        Info {
            dtype: Dtype::Text,
            shape: vec![1],
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: 1,
            codec: "none".into(),
        }
    }
}

/// Blocks of an array that skip filters which others go through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unfiltered {
    /// How many are stored so, if they have been counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Why one that changes would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

impl Unfiltered {
    pub fn is_none(&self) -> bool {
        self.chunks.is_none_or(|chunks| chunks == 0) && self.changed.is_none()
    }
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
    /// Bytes that need no decoding, `take` from `at` on in the array's own numbering: stored as
    /// they are shown, or made up (fill values). Got from [`Array::read_direct`] and never cached
    /// here: the kernel caches both sides already.
    Direct { at: u64, take: u64 },
}

impl Piece {
    pub fn take(&self) -> u64 {
        match *self {
            Piece::Block { take, .. } | Piece::Direct { take, .. } => take,
        }
    }

    /// The block that it is a part of.
    pub fn block(&self) -> Option<BlockId> {
        match *self {
            Piece::Block { id, .. } => Some(id),
            Piece::Direct { .. } => None,
        }
    }

    /// The array's own bytes that it is, if they need no decoding.
    pub fn direct(&self) -> Option<Range<u64>> {
        match *self {
            Piece::Block { .. } => None,
            Piece::Direct { at, take } => Some(at..at.saturating_add(take)),
        }
    }
}

/// An array of a container. Errors carry the block and the stored bytes; the caller adds the names.
pub trait Array: Send + Sync {
    fn name(&self) -> &str;

    /// May read the source the first time (names are counted, chunks are walked), never much
    /// memory.
    fn info(&self) -> Result<Info>;

    /// What describing the array finds wrong, for `error.txt`. To be overridden where describing is
    /// dear.
    fn check_structure(&self) -> Result<()> {
        self.info().map(drop)
    }

    /// Appends the pieces that make up `range`, in order; `range` lies within `0..info().bytes`.
    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()>;

    /// Decoded bytes as they are now, if that may change from moment to moment, because the array
    /// is being written.
    fn len_now(&self) -> Option<u64> {
        None
    }

    /// About how many bytes it takes for as long as its container is open, but for what it charges
    /// by itself.
    fn weight(&self) -> u64 {
        1 << 10
    }

    /// Whether [`Array::pieces`] of this range takes nothing but a look into memory: no source is
    /// read for it, and no other thread is waited for. Asked by threads that must not wait; "no" is
    /// always a safe answer.
    fn places_known(&self, _range: &Range<u64>) -> bool {
        false
    }

    /// Visits the lengths of the values of a text, without the line feed behind each, if it knows
    /// them apart from the lines that it shows; says whether it does.
    fn value_lengths(&self, _visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        Ok(false)
    }

    /// The values of a text that have line feeds of their own, as far as that is told
    /// ([`own_feeds`]); none if more than so many shown bytes had to be read to know.
    fn own_feeds(&self, _most: u64) -> Result<Option<Arc<[OwnFeeds]>>> {
        Ok(Some(Arc::default()))
    }

    /// How many bytes at the start of a range are known to be zeros before they are read. Fewer is
    /// always a safe answer.
    fn zeros_ahead(&self, _range: Range<u64>) -> u64 {
        0
    }

    /// Bytes of scratch memory that decoding this block takes: a sum of [`crate::memory::room`].
    fn scratch(&self, _block: BlockId) -> u64 {
        0
    }

    /// Names the stored bytes that decoding a block, or reading direct bytes, is going to fetch, as
    /// far as they are known without fetching: a source that is far away is asked for those of a
    /// whole request at once ([`fetcher`]). What only stored bytes tell is named in a further
    /// round, when those of the rounds before are there; returns whether there is to be one.
    fn stored(&self, _piece: &Piece, _round: u32, _needed: &mut StoredRanges) -> Result<bool> {
        Ok(false)
    }

    /// Names the stored bytes that [`Array::pieces`] fetches of a range whose places are not known.
    fn stored_places(&self, _range: &Range<u64>, _needed: &mut StoredRanges) -> Result<()> {
        Ok(())
    }

    /// Decodes one block into `out`, which has the `block_len` that [`Array::pieces`] gave, with
    /// the memory that [`Array::scratch`] asked for.
    ///
    /// The thread holds memory of the budget already. So this may wait for the source, and for its
    /// turn where it needs a block of another array ([`nested`]), but for no memory, and for no
    /// lock that is held while memory is asked for.
    fn decode(&self, block: BlockId, _out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
        let fault = Fault::new("this array is not stored in blocks");
        Err(fault.block(block.0).into())
    }

    /// A block that needs no decoding, because another thread has decoded it already.
    fn at_hand(&self, _block: BlockId) -> Option<Arc<Block>> {
        None
    }

    /// Gives bytes of [`Piece::Direct`].
    fn read_direct(&self, _at: u64, _out: &mut [u8]) -> Result<()> {
        Err(Fault::new("this array has no plainly stored bytes").into())
    }

    /// Visits everything that is stored, for a full check: every block once (`skip` is 0, `take`
    /// the whole block) and every run of direct bytes, but no bytes that are made up. To be
    /// overridden where a block is not one range of the array, or where most of the array is made
    /// up.
    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        // There may be a piece for every byte.
        const STEP: u64 = 64 << 10;
        let bytes = self.info()?.bytes;
        let mut pieces = Vec::new();
        for at in (0..bytes).step_by(STEP as usize) {
            pieces.clear();
            let range = at..bytes.min(at + STEP);
            let room = steps::room_for_pieces(STEP);
            set_aside(room, steps::DOING, || self.pieces(range, &mut pieces))??;
            for piece in &pieces {
                match *piece {
                    // It began in an earlier step.
                    Piece::Block { skip, .. } if skip > 0 => {}
                    Piece::Block { id, block_len, .. } => visit(Piece::Block {
                        id,
                        block_len,
                        skip: 0,
                        take: block_len,
                    }),
                    direct => visit(direct),
                }
            }
        }
        Ok(())
    }

    /// Which of its blocks are stored unfiltered, and whether changed ones would be. To have them
    /// counted may take long: the places of all blocks are looked up.
    fn unfiltered(&self, _are_counted: bool) -> Result<Unfiltered> {
        Ok(Unfiltered::default())
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

/// Appends `range` as a direct piece, unless it is empty.
pub fn direct_piece(range: Range<u64>, out: &mut Vec<Piece>) {
    if range.start < range.end {
        let (at, take) = (range.start, range.end - range.start);
        out.push(Piece::Direct { at, take });
    }
}

/// Appends the pieces of `range` from blocks that begin at `starts`, whose last entry is their end;
/// an empty block gives none.
pub fn uneven_pieces(starts: &[u64], range: Range<u64>, out: &mut Vec<Piece>) {
    let first = starts
        .partition_point(|&start| start <= range.start)
        .saturating_sub(1);
    for (block, ends) in starts.windows(2).enumerate().skip(first) {
        let (from, to) = (ends[0].max(range.start), ends[1].min(range.end));
        if ends[0] >= range.end {
            break;
        }
        if from < to {
            let (id, block_len) = (BlockId(block as u64), ends[1] - ends[0]);
            out.push(Piece::Block {
                id,
                block_len,
                skip: from - ends[0],
                take: to - from,
            });
        }
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

        #[test]
        fn uneven_pieces_cover_the_range(
            sizes in proptest::collection::vec(0u64..9, 0..12),
            a in 0u64..60,
            b in 0u64..60,
        ) {
            let mut starts = vec![0];
            starts.extend(sizes.iter().scan(0, |at, size| { *at += size; Some(*at) }));
            let bytes = *starts.last().unwrap();
            let (start, end) = (a.min(b).min(bytes), a.max(b).min(bytes));
            let mut pieces = Vec::new();
            uneven_pieces(&starts, start..end, &mut pieces);
            let mut at = start;
            for piece in pieces {
                let Piece::Block { id, block_len, skip, take } = piece else { panic!("no block") };
                prop_assert_eq!(starts[id.0 as usize] + skip, at);
                prop_assert_eq!(block_len, starts[id.0 as usize + 1] - starts[id.0 as usize]);
                prop_assert!(take > 0 && skip + take <= block_len);
                at += take;
            }
            prop_assert_eq!(at, end);
        }
    }
}
