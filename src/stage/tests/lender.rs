//! What a stage gives back where others hold its locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::sample::Container;
use super::*;
use crate::memory::budget::Reclaim;

/// Is asked after all others, and gives nothing.
#[derive(Default)]
struct LastAsked(AtomicBool);

impl Reclaim for LastAsked {
    fn reclaimable(&self) -> u64 {
        0
    }

    fn give_up(&self) -> bool {
        self.0.store(true, Ordering::Release);
        false
    }
}

/// Threads that hold them say nothing when they are free.
#[test]
fn memory_comes_back_from_a_stage_whose_locks_were_held_when_it_was_asked() {
    type Hold = fn(&Stage, &mut dyn FnMut());
    let holds: [Hold; 2] = [
        |stage, wait| {
            let _log = stage.lock_log();
            wait();
        },
        |stage, wait| {
            let _layers = stage.write_layers();
            wait();
        },
    ];
    let container = Container::new();
    for hold in holds {
        let stage = container.stage(1 << 20);
        let budget = Arc::clone(stage.memory.budget());
        let asked = Arc::new(LastAsked::default());
        let lender: Weak<LastAsked> = Arc::downgrade(&asked);
        budget.register(lender);
        stage.write(StagedArray(0), 0, &[7; 100 << 10]).unwrap();
        std::thread::scope(|scope| {
            let budget = &budget;
            let mut waiter = None;
            hold(&stage, &mut || {
                waiter = Some(scope.spawn(move || budget.reserve(1 << 20).bytes()));
                while !asked.0.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
            assert_eq!(waiter.unwrap().join().unwrap(), 1 << 20);
        });
    }
}
