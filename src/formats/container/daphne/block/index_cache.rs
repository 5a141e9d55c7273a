//! What has been learnt about the insides of blocks, and can be learnt again.
//!
//! Marks, counts and sorted entries spare a reader another pass over a large block. They are
//! charged to the budget, never take more than half of it for one container, and what was not used
//! for longest goes first: when there are too many of them, or when others need the memory. Used by
//! [`super::BlockFile`] and `csr`.

use std::any::Any;
use std::sync::Arc;

use lru::LruCache;

use crate::error::Result;
use crate::memory::budget::{Budget, Hold, Reclaim};
use crate::memory::fallible;
use crate::sync::{Mutex, MutexGuard};

/// Bytes of a list that are not worth charging.
const FEW: u64 = 64;

/// What something was learnt about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum IndexedPart {
    /// Where the rows of a sparse block lie.
    Rows(u32),
    /// Which rows the runs of a COO block have.
    Runs(u32),
    /// How many entries a block has at which places.
    Places(u32),
    /// The sorted entries of a part of a block.
    Slab(u32, usize),
    /// How many entries the bands of a group of rows have.
    Bands(usize),
}

/// A list and the part of the budget that it takes.
pub(crate) struct ChargedList<T> {
    pub(crate) list: Vec<T>,
    /// None for a few bytes.
    charge: Option<Hold>,
}

struct CachedIndex {
    content: Arc<dyn Any + Send + Sync>,
    bytes: u64,
}

struct CachedIndices {
    /// The latest used first.
    list: LruCache<IndexedPart, CachedIndex>,
    bytes: u64,
}

pub(crate) struct BlockIndexCache {
    budget: Arc<Budget>,
    lessons: Mutex<CachedIndices>,
    /// Held while a large block is passed over: others would only do the same.
    learning: Mutex<()>,
}

impl BlockIndexCache {
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<BlockIndexCache> {
        let index_cache = Arc::new(BlockIndexCache {
            budget: Arc::clone(budget),
            lessons: Mutex::new(CachedIndices {
                list: LruCache::unbounded(),
                bytes: 0,
            }),
            learning: Mutex::default(),
        });
        let lender: Arc<dyn Reclaim> = Arc::clone(&index_cache) as _;
        budget.register(Arc::downgrade(&lender));
        index_cache
    }

    /// Bytes that all of it may take.
    pub(super) fn most(&self) -> u64 {
        self.budget.limit() / 2
    }

    /// The thread that holds it is the only one that passes over a block of this container.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        self.learning.lock()
    }

    /// What is cached about a subject, which becomes the latest used.
    pub(crate) fn recall<T: Any + Send + Sync>(&self, about: IndexedPart) -> Option<Arc<T>> {
        let content = Arc::clone(&self.lock().list.get(&about)?.content);
        content.downcast().ok()
    }

    /// Remembers what takes `bytes`, which its content has charged.
    pub(crate) fn remember<T: Any + Send + Sync>(
        &self,
        about: IndexedPart,
        content: T,
        bytes: u64,
    ) -> Arc<T> {
        let content = Arc::new(content);
        let lesson = CachedIndex {
            content: Arc::clone(&content) as _,
            bytes,
        };
        let mut lessons = self.lock();
        lessons.bytes += bytes;
        let old = lessons.list.put(about, lesson);
        lessons.bytes -= old.as_ref().map_or(0, |old| old.bytes);
        while lessons.bytes > self.most() && lessons.list.len() > 1 {
            let gone = lessons.forget();
            // Giving its bytes back locks the budget, which may be asking for some.
            drop(lessons);
            drop(gone);
            lessons = self.lock();
        }
        content
    }

    /// An empty list with room for `count` items, charged; what was learnt before makes room for
    /// it.
    pub(crate) fn list<T>(&self, count: u64) -> Result<ChargedList<T>> {
        self.list_with(count, 0)
    }

    /// An empty list with room for `count` items, charged with `beside` bytes more for each, for
    /// what goes with it.
    pub(crate) fn list_with<T>(&self, count: u64, beside: u64) -> Result<ChargedList<T>> {
        let bytes = count.saturating_mul(size_of::<T>() as u64 + beside);
        ChargedList::new(count, self.charge(bytes)?)
    }

    pub(crate) fn charge(&self, bytes: u64) -> Result<Option<Hold>> {
        if bytes <= FEW {
            return Ok(None);
        }
        // Asks this one too to give up what was learnt before.
        self.budget.keep(bytes).map(Some)
    }

    /// Makes room for so many more items; a list grows by half of what it has at least.
    pub(crate) fn grow<T: Copy>(&self, list: &mut ChargedList<T>, more: usize) -> Result<()> {
        let len = list.list.len();
        if list.list.capacity() - len < more {
            let mut larger = self.list((len + more.max(len / 2)) as u64)?;
            larger.list.extend_from_slice(&list.list);
            *list = larger;
        }
        Ok(())
    }

    /// An empty list with room for `count` items that one can do without: none if others need the
    /// memory.
    pub(super) fn list_if_free<T>(&self, count: u64) -> Option<ChargedList<T>> {
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        let charge = self.budget.try_reserve(bytes)?;
        // Less is charged for what is more than the whole budget.
        let list = (charge.bytes() == bytes).then(|| ChargedList::new(count, Some(charge)));
        list?.ok()
    }

    fn lock(&self) -> MutexGuard<'_, CachedIndices> {
        self.lessons.lock()
    }
}

impl<T> ChargedList<T> {
    /// Gives back the room in which nothing lies.
    pub(crate) fn fit(&mut self) {
        self.list.shrink_to_fit();
        let bytes = (self.list.capacity() * size_of::<T>()) as u64;
        if let Some(charge) = &mut self.charge {
            drop(charge.split(charge.bytes().saturating_sub(bytes)));
        }
    }

    fn new(count: u64, charge: Option<Hold>) -> Result<ChargedList<T>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let list = fallible::room_for(count, "cannot remember what the blocks hold")?;
        Ok(ChargedList { list, charge })
    }

    /// Bytes that are charged for it.
    pub(crate) fn bytes(&self) -> u64 {
        self.charge.as_ref().map_or(0, Hold::bytes)
    }
}

impl CachedIndices {
    fn forget(&mut self) -> Option<CachedIndex> {
        let (_, lesson) = self.list.pop_lru()?;
        self.bytes -= lesson.bytes;
        Some(lesson)
    }
}

impl Reclaim for BlockIndexCache {
    fn reclaimable(&self) -> u64 {
        self.lock().bytes
    }

    fn give_up(&self) -> bool {
        let gone = self.lock().forget();
        gone.is_some()
    }

    /// Most of it was kept.
    fn give_up_kept(&self) -> bool {
        self.give_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_goes_when_others_want_to_keep_something() {
        let budget = Budget::new(1000);
        let index_cache = BlockIndexCache::new(&budget);
        for number in 0..2 {
            let list: ChargedList<u8> = index_cache.list(200).unwrap();
            let bytes = list.bytes();
            index_cache.remember(IndexedPart::Rows(number), list, bytes);
        }
        assert_eq!(budget.kept(), 400);
        let kept = budget.keep(300).unwrap();
        assert_eq!(budget.kept(), 500, "the one not used for longest");
        assert!(
            index_cache
                .recall::<ChargedList<u8>>(IndexedPart::Rows(0))
                .is_none()
        );
        // Its own lists go as well.
        let list: ChargedList<u8> = index_cache.list(180).unwrap();
        assert_eq!(budget.kept(), 480);
        drop((list, kept));
        assert_eq!(budget.used(), 0);
    }
}
