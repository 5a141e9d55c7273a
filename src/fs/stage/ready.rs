//! Slabs whose pages the system has cleared already, so that large writes need not wait for that.
//!
//! There are at most [`MOST`], charged to the budget but not yet to the stages' half of it, and the
//! first to go when memory is wanted. They are filled without haste: a background thread calls
//! [`super::LayerMemory::prepare`]. Cleared pages for readers are another matter ([`pages`]). Used
//! by [`super::slab`].

use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;

use crate::memory::budget::Hold;
use crate::memory::is_short;
use crate::memory::pages::{self, LARGE_PAGE};
use crate::sync::Mutex;

/// Bytes of such a slab: one large page, which the system gives and clears at once.
pub(super) const HUGE: u64 = LARGE_PAGE as u64;

/// The system clears more in a moment than a program writes.
const MOST: usize = 3;

#[derive(Default)]
pub(super) struct ReadySlabs {
    slabs: Mutex<Vec<(MmapMut, Hold)>>,
    /// One has been taken since they were last filled up.
    wanted: AtomicBool,
}

impl ReadySlabs {
    pub(super) fn take(&self) -> Option<(MmapMut, Hold)> {
        self.wanted.store(true, Ordering::Relaxed);
        self.with(Vec::pop)
    }

    /// Whether there is something to do for [`Self::fill`]; says so once.
    pub(super) fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// `reserve` gives memory that is free; `still` says, when one is done, whether a writer may
    /// want it.
    pub(super) fn fill(&self, reserve: impl Fn() -> Option<Hold>, still: impl Fn() -> bool) {
        for _ in self.with(|slabs| slabs.len())..MOST {
            let Some((hold, mapping)) = reserve().zip(map()) else {
                return;
            };
            pages::populate(&mapping);
            let kept = self.with(|slabs| {
                let wanted = still();
                if wanted {
                    slabs.push((mapping, hold));
                }
                wanted
            });
            if !kept {
                return;
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.with(|slabs| slabs.len() as u64 * HUGE)
    }

    /// Gives one up; false if there is none.
    pub(super) fn give_up(&self) -> bool {
        self.with(Vec::pop).is_some()
    }

    pub(super) fn clear(&self) {
        let all = self.with(std::mem::take);
        drop(all);
    }

    /// A lock under which nothing is waited for.
    fn with<T>(&self, work: impl FnOnce(&mut Vec<(MmapMut, Hold)>) -> T) -> T {
        work(&mut self.slabs.lock())
    }
}

/// Memory for one, not touched yet.
pub(super) fn map() -> Option<MmapMut> {
    if is_short() {
        return None;
    }
    pages::large_page().ok()
}

#[cfg(test)]
mod tests {
    use super::super::slab::LayerMemory;
    use super::*;
    use crate::memory::budget::{Budget, Reclaim};

    #[test]
    fn slabs_are_made_ready_while_much_is_written_and_go_with_the_last_one() {
        let budget = Budget::new(64 << 20);
        let memory = LayerMemory::new(std::sync::Arc::clone(&budget));
        memory.prepare();
        assert!(!memory.wants_slabs() && budget.used() == 0);
        let first = memory.slab(1, 16 << 20);
        assert!(memory.wants_slabs() && !memory.wants_slabs());
        memory.prepare();
        assert_eq!(budget.used(), (1 + MOST as u64) * HUGE);
        assert_eq!(memory.used(), HUGE);
        let second = memory.slab(1, 16 << 20);
        assert_eq!(
            (memory.used(), budget.used()),
            (2 * HUGE, (1 + MOST as u64) * HUGE)
        );
        // A want of memory takes the ready slabs, and only those.
        assert!(memory.give_up());
        assert_eq!(memory.reclaimable(), 3 * HUGE);
        assert!(memory.give_up() && !memory.give_up());
        assert!(budget.try_reserve((64 << 20) - 2 * HUGE).is_some());
        // No lender gives anything up for them.
        let rest = budget.try_reserve((64 << 20) - 2 * HUGE);
        memory.prepare();
        assert_eq!(memory.reclaimable(), 2 * HUGE);
        drop(rest);
        memory.prepare();
        drop((first, second));
        assert_eq!((memory.used(), budget.used()), (0, 0));
    }

    #[test]
    fn who_may_have_no_more_takes_none() {
        let memory = LayerMemory::new(Budget::new(8 << 20));
        let slabs = [1, 2].map(|_| memory.slab(1, 16 << 20));
        assert_eq!(memory.used(), 2 * HUGE);
        memory.prepare();
        let ready = memory.reclaimable();
        assert!(memory.slab(HUGE, 16 << 20).is_none());
        assert!(ready > 2 * HUGE && memory.reclaimable() == ready);
        drop(slabs);
    }
}
