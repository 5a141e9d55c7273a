//! Stored bytes that have to be decoded as a whole before a part of them can be read: a deflated
//! member of a zip file, a shard that is compressed once more.
//!
//! Decoded ones are kept for a while, charged to the budget and given up when memory is needed
//! ([`NestedBlocks`]). Each begins with its own length, which is not known before. Used by
//! [`super::zip`] and by the shards of arrays.

use std::ops::Range;
use std::sync::Arc;

use crate::array::dtype::Dtype;
use crate::array::nested::{NestedArray, NestedBlocks};
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::error::{Error, Fault, Result};
use crate::memory::Arena;
use crate::source::{Fetch, Source, SourceIdentity};

/// Bytes of the length in front.
const LENGTH: u64 = 8;

/// What is decoded as a whole, by its number.
pub(in super::super) trait DecodesWhole: Send + Sync {
    /// Most bytes that one has when it is decoded.
    fn most(&self, number: u64) -> u64;

    /// Memory beside these; a sum of [`crate::memory::room`]s.
    fn scratch(&self, number: u64) -> u64;

    /// Whether what they are decoded from is far away; and tells it that one will be wanted.
    fn is_far(&self) -> bool;

    fn expect(&self, number: u64);

    /// Decodes one to the front of `out`, which is as long as the most that it has; returns the
    /// number of bytes.
    fn decode(&self, number: u64, out: &mut [u8], scratch: Arena<'_>) -> Result<u64>;
}

/// The decoded ones of one kind.
pub(in super::super) struct DecodedBlocks {
    of: Arc<dyn DecodesWhole>,
    blocks: NestedArray,
}

/// They as an array: each is a block at a place of its own.
struct WholeArray {
    of: Arc<dyn DecodesWhole>,
}

/// Far enough from each other for any length; a number of one finds its place.
const APART: u64 = 1 << 33;

impl Array for WholeArray {
    fn name(&self) -> &str {
        ""
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::U8,
            shape: vec![u64::MAX],
            order: Order::C,
            bytes: u64::MAX,
            stored_bytes: 0,
            blocks: u64::MAX / APART,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let number = range.start / APART;
        let (skip, take) = (range.start % APART, range.end - range.start);
        let block_len = LENGTH.saturating_add(self.of.most(number));
        if skip.saturating_add(take) > block_len.min(APART) {
            return Err(Fault::new("there are no such bytes")
                .expected(block_len)
                .into());
        }
        out.push(Piece::Block {
            id: BlockId(number),
            block_len,
            skip,
            take,
        });
        Ok(())
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.of.scratch(block.0)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let Some((length, bytes)) = out.split_first_chunk_mut() else {
            return Err(Error::Bug("a block has no room for its length".into()));
        };
        *length = self.of.decode(block.0, bytes, scratch)?.to_le_bytes();
        Ok(())
    }
}

impl DecodedBlocks {
    pub(in super::super) fn new(
        of: Arc<dyn DecodesWhole>,
        nested: &Arc<NestedBlocks>,
    ) -> Arc<DecodedBlocks> {
        let array: Arc<dyn Array> = Arc::new(WholeArray {
            of: Arc::clone(&of),
        });
        Arc::new(DecodedBlocks {
            of,
            blocks: nested.array(array),
        })
    }

    /// Whether one is kept by now.
    pub(in super::super) fn has(&self, number: u64) -> bool {
        self.blocks.has(BlockId(number))
    }

    /// One of them as a source, of which it is known how long it is when it is decoded: that is
    /// done when it is read.
    pub(in super::super) fn sized(
        self: &Arc<Self>,
        number: u64,
        identity: SourceIdentity,
    ) -> Result<Arc<dyn Source>> {
        let start = number.checked_mul(APART);
        let start = start.ok_or_else(|| Error::from(Fault::new("there are too many members")))?;
        Ok(Arc::new(DecodedSource {
            of: Arc::clone(self),
            start: start + LENGTH,
            identity,
        }))
    }

    /// One of them, decoded, as a source.
    pub(in super::super) fn source(
        self: &Arc<Self>,
        number: u64,
        identity: SourceIdentity,
    ) -> Result<Arc<dyn Source>> {
        let mut length = [0; LENGTH as usize];
        let start = number.checked_mul(APART);
        let start = start.ok_or_else(|| Error::from(Fault::new("there are too many chunks")))?;
        self.blocks.read(start, &mut length)?;
        Ok(Arc::new(DecodedSource {
            of: Arc::clone(self),
            start: start + LENGTH,
            identity: identity.resized(u64::from_le_bytes(length)),
        }))
    }
}

/// Decoded bytes, read as if they were stored so.
pub(in super::super) struct DecodedSource {
    of: Arc<DecodedBlocks>,
    start: u64,
    identity: SourceIdentity,
}

impl Source for DecodedSource {
    fn len(&self) -> u64 {
        self.identity.size()
    }

    fn identity(&self) -> SourceIdentity {
        self.identity
    }

    fn is_far(&self) -> bool {
        self.of.of.is_far()
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        if !ranges.is_empty() {
            self.of.of.expect(self.start / APART);
        }
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        ranges.iter_mut().try_for_each(|range| {
            let end = range.offset.saturating_add(range.buf.len() as u64);
            if end > self.len() {
                let fault = Fault::new("it ends too early")
                    .expected(end)
                    .found(self.len());
                return Err(fault.into());
            }
            self.of.blocks.read(self.start + range.offset, range.buf)
        })
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let left = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fetch_one(offset, &mut buf[..left])?;
        Ok(left)
    }
}
