//! Arrays that other arrays are decoded from: the last blocks of them are kept, below the cache.
//!
//! A BPCells array of an HDF5 group is decoded from other arrays, a few hundred bytes at a time;
//! without this, each time would decode a whole chunk. The blocks are charged to the budget and
//! given up when memory is needed. A reader holds memory already and may not wait for more: if
//! there is none, it overdraws for one block ([`Budget::overdraw`]), which is then not kept. Used
//! by `container::hdf5`, and by `container::creation` for what is made again.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use lru::LruCache;

use super::fetcher;
use super::gather::{self, PieceSource};
use super::steps::PlacedRange;
use super::{Array, BlockId};
use crate::error::Result;
use crate::memory::block::{Block, Workspace};
use crate::memory::budget::{Budget, Reclaim};
use crate::source::StoredRanges;
use crate::sync::{Mutex, MutexGuard};

/// The kept blocks of all arrays of a container take up to this part of the budget, or they are one
/// block.
const PART: u64 = 16;

/// Blocks that are kept for the arrays of a container.
pub struct NestedBlocks {
    budget: Arc<Budget>,
    kept: Arc<KeptBlocks>,
    arrays: AtomicU64,
    registered: OnceLock<()>,
}

/// An array and its kept blocks.
pub struct NestedArray {
    array: Arc<dyn Array>,
    number: u64,
    blocks: Arc<NestedBlocks>,
}

/// A block of an array, by the array's number.
type NestedBlock = (u64, BlockId);

struct KeptBlocks {
    blocks: Mutex<LruCache<NestedBlock, Arc<Block>>>,
    /// What they take from the budget; changed with the lock held.
    charged: AtomicU64,
    most: u64,
}

impl NestedBlocks {
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(NestedBlocks {
            kept: Arc::new(KeptBlocks {
                blocks: Mutex::new(LruCache::unbounded()),
                charged: AtomicU64::new(0),
                most: budget.limit() / PART,
            }),
            budget: Arc::clone(budget),
            arrays: AtomicU64::new(0),
            registered: OnceLock::new(),
        })
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub fn array(self: &Arc<Self>, array: Arc<dyn Array>) -> NestedArray {
        NestedArray {
            array,
            number: self.arrays.fetch_add(1, Ordering::Relaxed),
            blocks: Arc::clone(self),
        }
    }

    /// Keeps a block. Most containers never do.
    fn keep(&self, key: NestedBlock, block: &Arc<Block>) {
        self.registered.get_or_init(|| {
            let lender: Weak<KeptBlocks> = Arc::downgrade(&self.kept);
            self.budget.register(lender);
        });
        self.kept.put(key, block);
        self.budget.announce();
    }
}

impl KeptBlocks {
    /// The block at hand stays, however large it is.
    fn put(&self, key: NestedBlock, block: &Arc<Block>) {
        let charge = block.charge();
        let replaced = self.lock().push(key, Arc::clone(block));
        self.charged.fetch_add(charge, Ordering::Relaxed);
        if let Some((_, replaced)) = replaced {
            self.charged.fetch_sub(replaced.charge(), Ordering::Relaxed);
        }
        while self.reclaimable() > self.most.max(charge) && self.give_up() {}
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<NestedBlock, Arc<Block>>> {
        self.blocks.lock()
    }
}

impl Reclaim for KeptBlocks {
    fn reclaimable(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    fn give_up(&self) -> bool {
        let mut blocks = self.lock();
        let Some((_, block)) = blocks.pop_lru() else {
            return false;
        };
        self.charged.fetch_sub(block.charge(), Ordering::Relaxed);
        drop(blocks);
        true
    }
}

impl NestedArray {
    pub fn array(&self) -> &Arc<dyn Array> {
        &self.array
    }

    pub fn budget(&self) -> &Arc<Budget> {
        self.blocks.budget()
    }

    /// Whether a block is kept.
    pub fn has(&self, block: BlockId) -> bool {
        self.blocks.kept.lock().contains(&(self.number, block))
    }

    /// Fills `out` from byte `at` of the array on; the range must lie within it.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let from = at..at.saturating_add(out.len() as u64);
        let ranges = [PlacedRange { from, to: 0 }];
        gather::gather(&*self.array, &ranges, &mut &*self, out)
    }

    /// Names what reading a range fetches ([`Array::stored`]).
    pub fn stored(&self, range: Range<u64>, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        fetcher::name_range(&*self.array, range, round, needed)
    }

    /// Decodes a block to be kept. Two readers may decode the same block at once; both get the
    /// same.
    fn decode(&self, id: BlockId, mut space: Workspace) -> Result<Block> {
        let (block, scratch) = space.parts();
        self.array.decode(id, block, scratch)?;
        Ok(space.into_block())
    }
}

impl PieceSource for &NestedArray {
    fn block(
        &mut self,
        id: BlockId,
        len: u64,
        copy: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (key, budget) = ((self.number, id), self.budget());
        let kept = self.blocks.kept.lock().get(&key).cloned();
        if let Some(block) = kept {
            return copy(block.bytes());
        }
        let scratch = self.array.scratch(id);
        let bytes = len.saturating_add(scratch);
        // What is more than could be overdrawn is refused the same way.
        let hold = match bytes <= budget.limit() / 2 {
            true => budget.try_reserve(bytes),
            false => None,
        };
        if let Some(hold) = hold {
            let block = self.decode(id, Workspace::new(len, scratch, hold, len)?)?;
            let block = Arc::new(block);
            self.blocks.keep(key, &block);
            return copy(block.bytes());
        }
        let mut overdraft = budget.overdraw(bytes)?;
        let space = Workspace::new(len, scratch, overdraft.hold(), len)?;
        copy(self.decode(id, space)?.bytes())
    }

    fn direct(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }
}
