//! The block cache: decoded blocks of every container, one byte budget, one decode per block.
//!
//! A reader asks for a block by [`BlockKey`] and says how to decode it. If the block is cached it
//! is shared; if another thread decodes it already, the reader waits for that decode; else it
//! decodes, with no lock held. Memory is reserved from the [`Budget`] before the decode begins, so
//! cached blocks, blocks being read and decodes in flight together stay below the limit; a decode
//! that needs more than all of it is the only one while it lasts. Used by `array::read` alone.

mod flight;
mod shard;
pub mod stats;

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::error::Result;
use crate::memory::Arena;
use crate::memory::block::{Block, Workspace};
use crate::memory::budget::{Budget, Hold, KEPT_LEAST, Reclaim};
use crate::memory::reply::ReplyBuffers;
use flight::Landing;
use shard::{Shard, Sought};
use stats::{CacheStatus, Stats};

/// One version of a container, as opened: never reused, so blocks of two versions never mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionId(pub u64);

/// Number of an array within its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayIndex(pub u32);

/// A block of an array, numbered by its format: what is decoded at once and cached as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u64);

/// Those of a version follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey {
    pub version: VersionId,
    pub array: ArrayIndex,
    pub block: BlockId,
}

impl BlockKey {
    /// From the first that a version may have to the last.
    fn all_of(version: VersionId) -> RangeInclusive<BlockKey> {
        let key = |array, block| BlockKey {
            version,
            array: ArrayIndex(array),
            block: BlockId(block),
        };
        key(0, 0)..=key(u32::MAX, u64::MAX)
    }
}

const SHARDS: usize = 16;

/// Charged for every block beside its bytes: list node, map entry, reference counts.
const ENTRY_OVERHEAD: u64 = 256;

pub struct BlockCache {
    shards: Vec<Shard>,
    hasher: RandomState,
    /// Which shard gives up a block next.
    hand: AtomicUsize,
    budget: Arc<Budget>,
    pub stats: Stats,
    /// Where replies are put together that are not a part of one block.
    pub replies: ReplyBuffers,
}

/// Bytes that a decode needs from the budget.
struct Needed {
    block: u64,
    scratch: u64,
    /// The scratch memory in full, where the budget is smaller.
    scratch_len: u64,
}

/// A decode that may be needed.
pub trait Decode {
    /// Bytes that it yields.
    fn yields(&self) -> u64;

    /// Memory that it takes beside that; asked only if it is needed.
    fn scratch(&self) -> u64;

    fn decode(&self, out: &mut [u8], scratch: Arena<'_>) -> Result<()>;
}

impl BlockCache {
    /// A cache with a budget of `limit` bytes, which others may share.
    pub fn new(limit: u64) -> Arc<Self> {
        let cache = Arc::new(BlockCache {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: RandomState::new(),
            hand: AtomicUsize::new(0),
            budget: Budget::keeping(limit, KEPT_LEAST),
            stats: Stats::default(),
            replies: ReplyBuffers::default(),
        });
        let lender: Weak<BlockCache> = Arc::downgrade(&cache);
        cache.budget.register(lender);
        cache
    }

    /// What blocks are charged to, and everything else whose size a file decides.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Bytes in use: cached, being read and being decoded.
    pub fn used(&self) -> u64 {
        self.budget.counted()
    }

    pub fn blocks(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    pub fn status(&self) -> CacheStatus {
        CacheStatus {
            limit: self.limit(),
            used: self.used(),
            blocks: self.blocks(),
            ..self.stats.snapshot()
        }
    }

    /// The block, decoded by `decode` if it is neither cached nor being decoded.
    ///
    /// The caller holds no other block meanwhile: a thread that waits for memory while it keeps
    /// some from others could wait forever.
    pub fn get(&self, key: BlockKey, decode: &impl Decode) -> Result<Arc<Block>> {
        match self.shard(&key).find(key) {
            Sought::Cached(block) => {
                self.stats.hit();
                Ok(block)
            }
            Sought::InFlight(flight) => {
                self.stats.wait();
                flight.wait()
            }
            Sought::Nothing(landing) => {
                self.stats.miss();
                let needed = self.needed(decode);
                let memory = self.budget.reserve(needed.block + needed.scratch);
                self.decode(key, &needed, memory, landing, decode)
            }
        }
    }

    /// The block, if it is here: for threads that must not wait.
    pub fn cached(&self, key: BlockKey) -> Option<Arc<Block>> {
        let block = self.shard(&key).cached(key)?;
        self.stats.hit();
        Some(block)
    }

    /// Whether a block is here, or is being decoded.
    pub fn has(&self, key: BlockKey) -> bool {
        self.shard(&key).has(key)
    }

    /// Decodes a block that will be wanted soon, unless it is cached or being decoded, or memory is
    /// short.
    pub fn prefetch(&self, key: BlockKey, decode: &impl Decode) {
        if self.has(key) {
            return;
        }
        let needed = self.needed(decode);
        let Some(memory) = self.budget.try_reserve(needed.block + needed.scratch) else {
            return;
        };
        // Memory first: readers may join a decode as soon as it is registered, so it must take
        // place.
        if let Sought::Nothing(landing) = self.shard(&key).find(key) {
            self.stats.prefetch();
            // An error is found again, and reported, by the reader that wants the block.
            let _ = self.decode(key, &needed, memory, landing, decode);
        }
    }

    /// Drops a block that will not be asked for again.
    pub fn let_go(&self, key: BlockKey) {
        self.shard(&key).let_go(key);
    }

    /// Drops every cached block of a version: its container changed underneath.
    pub fn forget(&self, version: VersionId) {
        for shard in &self.shards {
            shard.forget(version);
        }
    }

    /// The block keeps its part of the memory, the scratch is returned.
    fn decode(
        &self,
        key: BlockKey,
        needed: &Needed,
        memory: Hold,
        landing: Landing<'_>,
        decode: &impl Decode,
    ) -> Result<Arc<Block>> {
        let space = Workspace::new(decode.yields(), needed.scratch_len, memory, needed.block);
        let outcome = space.and_then(|mut space| {
            let (block, scratch) = space.parts();
            decode.decode(block, scratch)?;
            Ok(Arc::new(space.into_block()))
        });
        if outcome.is_ok() {
            self.stats.decoded(decode.yields());
        }
        let outcome = landing.land(key, outcome);
        // A thread that waits for memory may take this block's.
        self.budget.announce();
        outcome
    }

    fn shard(&self, key: &BlockKey) -> &Shard {
        &self.shards[(self.hasher.hash_one(key) as usize) % SHARDS]
    }

    /// What a decode takes from the budget. A block larger than the whole budget gets it all, and
    /// so does one that needs more with its scratch; but a block is always charged for its own
    /// bytes first, since they are what stays.
    fn needed(&self, decode: &impl Decode) -> Needed {
        let limit = self.budget.limit();
        let block = decode.yields().saturating_add(ENTRY_OVERHEAD).min(limit);
        let scratch_len = decode.scratch();
        Needed {
            block,
            scratch: scratch_len.min(limit - block),
            scratch_len,
        }
    }
}

/// Blocks are what the cache can do without: a block in use is freed when its last reader drops it.
impl Reclaim for BlockCache {
    fn reclaimable(&self) -> u64 {
        self.shards.iter().map(Shard::charged).sum()
    }

    /// Drops the least recently used block of the next shard that has one.
    fn give_up(&self) -> bool {
        for _ in 0..SHARDS {
            let next = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            if self.shards[next].evict_one() {
                self.stats.evict();
                return true;
            }
        }
        false
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;
#[cfg(test)]
mod tests;
