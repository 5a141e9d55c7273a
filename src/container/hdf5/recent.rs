//! Bytes of an array for readers that stand below the block cache: the last few decoded blocks are kept.
//!
//! A BPCells array of an HDF5 group is decoded from other arrays, a few hundred bytes at a time; without
//! this, each time would decode a whole chunk. Memory: [`KEPT`] blocks of at most [`LARGEST`] bytes, or
//! one of any size. Used by `fields` and `lines`.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use crate::array::{Array, BlockId, Piece};
use crate::error::Result;
use crate::memory::scratch::Region;

const KEPT: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const LARGEST: u64 = 1 << 20;

pub(super) struct Recent {
    array: Arc<dyn Array>,
    blocks: Mutex<LruCache<BlockId, Arc<[u8]>>>,
}

impl Recent {
    pub(super) fn new(array: Arc<dyn Array>) -> Self {
        Recent {
            array,
            blocks: Mutex::new(LruCache::new(KEPT)),
        }
    }

    pub(super) fn array(&self) -> &Arc<dyn Array> {
        &self.array
    }

    /// Fills `out` from byte `at` of the array on; the range must lie within it.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut pieces = Vec::new();
        self.array
            .pieces(at..at.saturating_add(out.len() as u64), &mut pieces)?;
        let mut rest = out;
        for piece in pieces {
            let take = usize::try_from(piece.take()).unwrap_or(usize::MAX);
            let (part, others) = rest.split_at_mut(take.min(rest.len()));
            match piece {
                Piece::Direct { at, .. } => self.array.read_direct(at, part)?,
                Piece::Block {
                    id,
                    block_len,
                    skip,
                    ..
                } => {
                    let block = self.block(id, block_len)?;
                    let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(block.len());
                    let from = &block[skip..];
                    let n = part.len().min(from.len());
                    part[..n].copy_from_slice(&from[..n]);
                }
            }
            rest = others;
        }
        Ok(())
    }

    /// Two readers may decode the same block at once; both get the same.
    fn block(&self, id: BlockId, len: u64) -> Result<Arc<[u8]>> {
        let lock = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = lock().get(&id) {
            return Ok(Arc::clone(block));
        }
        let mut decoded = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let mut region = Region::default();
        let scratch = region.scratch(self.array.scratch(id))?;
        self.array.decode(id, &mut decoded, scratch)?;
        let block: Arc<[u8]> = decoded.into();
        let mut blocks = lock();
        if len > LARGEST {
            blocks.clear();
        }
        blocks.put(id, Arc::clone(&block));
        Ok(block)
    }
}
