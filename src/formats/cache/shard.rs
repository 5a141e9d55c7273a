//! A part of the cache with a lock of its own: the recency list and the decodes under way.
//!
//! The lock is held for look-ups only, never while decoding or while freeing blocks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lru::LruCache;

use super::flight::{Flight, Landing};
use super::{BlockKey, VersionId};
use crate::memory::block::Block;
use crate::memory::set_aside;
use crate::sync::{Mutex, MutexGuard};

/// What the table of the recency list takes for a block when it grows, and there are two.
const GROWTH: u64 = 64;

#[derive(Default)]
pub(super) struct Shard {
    state: Mutex<Blocks>,
    /// What the blocks in the list take from the budget; changed with the lock held.
    charged: AtomicU64,
}

struct Blocks {
    blocks: LruCache<BlockKey, Arc<Block>>,
    /// The keys of the blocks in their order: a version is forgotten without looking at those of
    /// others.
    keys: BTreeSet<BlockKey>,
    flights: HashMap<BlockKey, Arc<Flight>>,
}

impl Default for Blocks {
    fn default() -> Self {
        Blocks {
            blocks: LruCache::unbounded(),
            keys: BTreeSet::new(),
            flights: HashMap::new(),
        }
    }
}

pub(super) enum Sought<'a> {
    Cached(Arc<Block>),
    InFlight(Arc<Flight>),
    /// The caller must decode the block and land it.
    Nothing(Landing<'a>),
}

impl Shard {
    /// Whether the block is here or being decoded; counts as a use of it.
    pub(super) fn has(&self, key: BlockKey) -> bool {
        let mut state = self.lock();
        state.blocks.get(&key).is_some() || state.flights.contains_key(&key)
    }

    /// The block, if it is here; counts as a use of it.
    pub(super) fn cached(&self, key: BlockKey) -> Option<Arc<Block>> {
        self.lock().blocks.get(&key).map(Arc::clone)
    }

    pub(super) fn find(&self, key: BlockKey) -> Sought<'_> {
        let mut state = self.lock();
        if let Some(block) = state.blocks.get(&key) {
            return Sought::Cached(Arc::clone(block));
        }
        if let Some(flight) = state.flights.get(&key) {
            return Sought::InFlight(Arc::clone(flight));
        }
        let flight = Arc::new(Flight::default());
        state.flights.insert(key, Arc::clone(&flight));
        Sought::Nothing(Landing::new(self, key, flight))
    }

    pub(super) fn land(&self, key: BlockKey, block: Option<&Arc<Block>>) {
        let mut state = self.lock();
        state.flights.remove(&key);
        // The list grows by itself; a block that it has no memory for is not cached.
        let room = GROWTH * state.blocks.len() as u64;
        let replaced = block.and_then(|block| {
            let push = || {
                state.keys.insert(key);
                state.blocks.push(key, Arc::clone(block))
            };
            let replaced = set_aside(room, "cannot cache a block", push).ok()?;
            self.charged.fetch_add(block.charge(), Ordering::Relaxed);
            replaced
        });
        self.discharge(replaced.as_ref().map(|(_, block)| block));
        drop(state);
        drop(replaced);
    }

    pub(super) fn evict_one(&self) -> bool {
        let mut state = self.lock();
        let evicted = state.blocks.pop_lru();
        if let Some((key, _)) = &evicted {
            state.keys.remove(key);
        }
        self.discharge(evicted.as_ref().map(|(_, block)| block));
        drop(state);
        evicted.is_some()
    }

    pub(super) fn let_go(&self, key: BlockKey) {
        let mut state = self.lock();
        let dropped = state.blocks.pop(&key);
        state.keys.remove(&key);
        self.discharge(&dropped);
        drop(state);
        drop(dropped);
    }

    pub(super) fn forget(&self, version: VersionId) {
        let mut state = self.lock();
        let Blocks { blocks, keys, .. } = &mut *state;
        let its_own: Vec<BlockKey> = keys.range(BlockKey::all_of(version)).copied().collect();
        let drop_one = |key: &BlockKey| {
            keys.remove(key);
            blocks.pop(key)
        };
        let dropped: Vec<_> = its_own.iter().filter_map(drop_one).collect();
        self.discharge(&dropped);
        drop(state);
        drop(dropped);
    }

    /// What evicting every block would give back, at once or when their readers let go of them.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    fn discharge<'a>(&self, blocks: impl IntoIterator<Item = &'a Arc<Block>>) {
        let bytes = blocks.into_iter().map(|block| block.charge()).sum();
        self.charged.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().blocks.len()
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.state.lock()
    }
}
