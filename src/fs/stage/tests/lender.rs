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
        stage.write(WrittenArray(0), 0, &[7; 100 << 10]).unwrap();
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

/// A reader that began before has the layer, and may be waiting for memory.
#[test]
fn what_is_committed_is_not_charged_whoever_reads_it_still() {
    type End = fn(&Stage, &Container);
    let ends: [End; 2] = [
        |stage, container| {
            let lens = container.lens();
            stage.freeze(&mut to_nobody).unwrap();
            let base = container.base.clone();
            let ended = stage.committed(&stage.alone_in_place(), base, &lens, &mut to_nobody);
            ended.unwrap();
        },
        |stage, _| stage.throw_away().unwrap(),
    ];
    for end in ends {
        let container = Container::new();
        let stage = container.stage(1 << 20);
        let budget = Arc::clone(stage.memory.budget());
        stage.write(WrittenArray(0), 0, &[7; 100 << 10]).unwrap();
        let read = stage.layers();
        end(&stage, &container);
        assert_eq!((budget.used(), stage.memory.used()), (0, 0));
        let mut bytes = [0; 10];
        read[0].read(WrittenArray(0), 5000, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 10]);
    }
}

/// Making room for a write takes away what it would have changed in memory: then the room does not
/// suffice.
#[test]
fn a_slab_that_is_not_used_goes_back() {
    let container = Container::new();
    let stage = container.stage(64 << 10);
    let budget = Arc::clone(stage.memory.budget());
    stage.write(WrittenArray(0), 0, &[1; 16 << 10]).unwrap();
    let _others = budget.reserve(48 << 10);
    stage.write(WrittenArray(0), 0, &[2; 20 << 10]).unwrap();
    assert_eq!((stage.bytes_held(), stage.memory.used()), (0, 0));
    let shown = container.read(0, &stage.layers());
    assert_eq!(shown[..20 << 10], [2; 20 << 10]);
}
