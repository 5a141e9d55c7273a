//! The block cache: decoded blocks of every container, one byte budget, one decode per block.
//!
//! A reader asks for a block by [`Key`] and says how to decode it. If the block is cached it is shared;
//! if somebody decodes it already, the reader waits for that decode; else it decodes, with no lock
//! held. Memory is reserved from the [`budget`] before the decode begins, so cached blocks, blocks being
//! read and decodes in flight together stay below the limit. Used by `array::read` alone.

pub mod budget;
pub mod buffer;
mod flight;
mod shard;
pub mod stats;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::array::BlockId;
use crate::error::Result;
use budget::Budget;
use buffer::{Block, Pool};
use flight::Landing;
use shard::{Found, Shard};
use stats::Stats;

/// One version of a container, as opened: never reused, so blocks of two versions never mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionId(pub u64);

/// Number of an array within its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayIndex(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub version: VersionId,
    pub array: ArrayIndex,
    pub block: BlockId,
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
    pool: Arc<Pool>,
    pub stats: Stats,
}

/// A decode that may be needed.
pub trait Decode {
    /// Bytes that it yields.
    fn yields(&self) -> u64;

    /// Memory that it takes beside that; asked only if it is needed.
    fn scratch(&self) -> u64;

    fn decode(&self, out: &mut [u8]) -> Result<()>;
}

impl BlockCache {
    pub fn new(limit: u64) -> Self {
        BlockCache {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: RandomState::new(),
            hand: AtomicUsize::new(0),
            budget: Arc::new(Budget::new(limit)),
            pool: Arc::new(Pool::new(limit)),
            stats: Stats::default(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Bytes in use: cached, being read and being decoded.
    pub fn used(&self) -> u64 {
        self.budget.used()
    }

    pub fn blocks(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// The block, decoded by `decode` if nobody has it.
    ///
    /// The caller holds no other block meanwhile: a thread that waits for memory while it keeps some
    /// from others could wait forever.
    pub fn get(&self, key: Key, decode: &impl Decode) -> Result<Arc<Block>> {
        match self.shard(&key).find(key) {
            Found::Cached(block) => {
                self.stats.hit();
                Ok(block)
            }
            Found::InFlight(flight) => {
                self.stats.wait();
                flight.wait()
            }
            Found::Nothing(landing) => {
                self.stats.miss();
                let scratch = decode.scratch();
                self.reserve(needed(decode.yields(), scratch));
                self.decode(key, scratch, landing, decode)
            }
        }
    }

    /// Decodes a block that will be wanted soon, unless somebody has it or memory is short.
    pub fn prefetch(&self, key: Key, decode: &impl Decode) {
        let Found::Nothing(landing) = self.shard(&key).find(key) else {
            return;
        };
        let scratch = decode.scratch();
        if self.try_reserve(needed(decode.yields(), scratch)) {
            self.stats.prefetch();
            // An error is found again, and reported, by the reader that wants the block.
            let _ = self.decode(key, scratch, landing, decode);
        }
    }

    /// Drops a block that will not be asked for again.
    pub fn let_go(&self, key: Key) {
        self.shard(&key).let_go(key);
    }

    /// Drops every cached block of a version: its container changed underneath.
    pub fn forget(&self, version: VersionId) {
        for shard in &self.shards {
            shard.forget(version);
        }
    }

    /// The budget has been charged for both; the block keeps its part, the scratch is returned.
    fn decode(
        &self,
        key: Key,
        scratch: u64,
        landing: Landing<'_>,
        decode: &impl Decode,
    ) -> Result<Arc<Block>> {
        let all = self.budget.clamp(needed(decode.yields(), scratch));
        let scratch = self.budget.hold(scratch.min(all));
        let mut block = Block::new(
            decode.yields(),
            self.budget.hold(all - scratch.bytes()),
            &self.pool,
        );
        let outcome = decode.decode(block.bytes_mut()).map(|()| Arc::new(block));
        drop(scratch);
        if outcome.is_ok() {
            self.stats.decoded(decode.yields());
        }
        let outcome = landing.land(key, outcome);
        // Whoever waits for memory may take this block's.
        self.budget.announce();
        outcome
    }

    fn shard(&self, key: &Key) -> &Shard {
        &self.shards[(self.hasher.hash_one(key) as usize) % SHARDS]
    }

    /// Takes `bytes` from the budget, evicting and at last waiting for others to finish. A block larger
    /// than the whole budget gets it alone.
    fn reserve(&self, bytes: u64) {
        loop {
            let seen = self.budget.changes();
            if self.try_reserve(bytes) {
                return;
            }
            self.budget.wait(seen);
        }
    }

    fn try_reserve(&self, bytes: u64) -> bool {
        let bytes = self.budget.clamp(bytes);
        while !self.budget.try_take(bytes) {
            if !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// Drops the least recently used block of the next shard that has one.
    fn evict_one(&self) -> bool {
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

/// What a block of `len` bytes takes from the budget.
fn needed(len: u64, scratch: u64) -> u64 {
    len.saturating_add(scratch).saturating_add(ENTRY_OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;

    fn key(block: u64) -> Key {
        Key {
            version: VersionId(1),
            array: ArrayIndex(0),
            block: BlockId(block),
        }
    }

    /// A decode made of a length and a function.
    struct By<F>(u64, F);

    impl<F: Fn(&mut [u8]) -> Result<()>> Decode for By<F> {
        fn yields(&self) -> u64 {
            self.0
        }

        fn scratch(&self) -> u64 {
            0
        }

        fn decode(&self, out: &mut [u8]) -> Result<()> {
            (self.1)(out)
        }
    }

    fn fill(len: u64, with: u8) -> impl Decode {
        By(len, move |out: &mut [u8]| {
            out.fill(with);
            Ok(())
        })
    }

    fn never(len: u64, why: &'static str) -> impl Decode {
        By(len, move |_: &mut [u8]| panic!("{why}"))
    }

    #[test]
    fn one_decode_for_many_readers() {
        let cache = BlockCache::new(1 << 20);
        let decodes = AtomicU64::new(0);
        let together = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    let block = cache.get(
                        key(7),
                        &By(1000, |out: &mut [u8]| {
                            decodes.fetch_add(1, Ordering::SeqCst);
                            out.fill(9);
                            Ok(())
                        }),
                    );
                    assert_eq!(block.unwrap().bytes(), &[9; 1000]);
                });
            }
        });
        assert_eq!(decodes.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn stays_within_the_budget_and_keeps_what_was_used_last() {
        let cache = BlockCache::new(100_000);
        for block in 0..1000 {
            cache.get(key(block), &fill(5000, block as u8)).unwrap();
            assert!(cache.used() <= cache.limit());
        }
        assert!(cache.blocks() >= 10, "{} blocks", cache.blocks());
        cache.get(key(999), &never(5000, "was just used")).unwrap();
    }

    #[test]
    fn a_block_larger_than_the_budget_is_decoded_alone() {
        let cache = BlockCache::new(1000);
        cache.get(key(1), &fill(500, 1)).unwrap();
        let block = cache.get(key(2), &fill(50_000, 2)).unwrap();
        assert_eq!(block.bytes().len(), 50_000);
        drop(block);
        cache.get(key(3), &fill(500, 3)).unwrap();
        assert!(cache.used() <= 1000);
    }

    #[test]
    fn waiting_for_memory_ends_when_others_let_go() {
        let cache = BlockCache::new(10_000);
        let held = cache.get(key(1), &fill(9000, 1)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| cache.get(key(2), &fill(9000, 2)).unwrap().bytes()[0]);
            drop(held);
            assert_eq!(waiting.join().unwrap(), 2);
        });
    }

    /// A block that lands in the cache can be evicted, although nothing is given back: with memory for
    /// one block and readers of many, somebody always waits.
    #[test]
    fn readers_of_more_than_fits_all_come_through() {
        let cache = BlockCache::new(10_000);
        std::thread::scope(|scope| {
            for reader in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..2000 {
                        let block = (n * 7 + reader * 13) % 5;
                        let read = cache.get(key(block), &fill(9000, block as u8)).unwrap();
                        assert_eq!(read.bytes()[0], block as u8);
                    }
                });
            }
        });
        assert!(cache.used() <= cache.limit());
    }

    #[test]
    fn errors_are_delivered_and_not_cached() {
        let cache = BlockCache::new(10_000);
        let failed = cache.get(
            key(1),
            &By(10, |_: &mut [u8]| Err(Fault::new("bad").into())),
        );
        assert!(failed.is_err());
        assert!(cache.get(key(1), &fill(10, 4)).is_ok());
        assert!(cache.used() < 1000);
    }

    #[test]
    fn a_panicking_decoder_leaves_nothing_behind() {
        let cache = BlockCache::new(10_000);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = cache.get(key(1), &never(10, "decoder"));
        }));
        assert!(panicked.is_err());
        assert_eq!(cache.used(), 0);
        assert!(cache.get(key(1), &fill(10, 4)).is_ok());
    }

    #[test]
    fn forgetting_a_version_frees_its_blocks() {
        let cache = BlockCache::new(100_000);
        cache.get(key(1), &fill(1000, 1)).unwrap();
        let other = Key {
            version: VersionId(2),
            ..key(1)
        };
        cache.get(other, &fill(1000, 2)).unwrap();
        cache.forget(VersionId(1));
        assert_eq!(cache.blocks(), 1);
        cache
            .get(other, &never(1000, "other versions stay"))
            .unwrap();
    }

    #[test]
    fn prefetch_never_waits() {
        let cache = BlockCache::new(10_000);
        let held = cache.get(key(1), &fill(9000, 1)).unwrap();
        cache.prefetch(key(2), &never(9000, "no memory for this"));
        drop(held);
        cache.prefetch(key(2), &fill(9000, 2));
        cache.get(key(2), &never(9000, "was prefetched")).unwrap();
    }
}
