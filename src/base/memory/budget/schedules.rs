//! The budget in many schedules of the threads that want memory. Run with the feature `schedules`.

use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;

use super::*;
use crate::sync::schedules::in_schedules;

const LIMIT: u64 = 100;

fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// What all threads hold by their own account.
#[derive(Default)]
struct Held(AtomicU64);

impl Held {
    fn while_held(&self, bytes: u64) {
        let before = self.0.fetch_add(bytes, Ordering::SeqCst);
        assert!(before + bytes <= LIMIT, "{} bytes at once", before + bytes);
        thread::yield_now();
        self.0.fetch_sub(bytes, Ordering::SeqCst);
    }
}

#[test]
fn no_more_is_held_than_there_is_and_everybody_gets_some() {
    in_schedules(2000, || {
        let (budget, held) = (Budget::new(LIMIT), Arc::new(Held::default()));
        let wants = [60, 60, 30, 100];
        let threads = wants.map(|bytes| {
            let (budget, held) = (Arc::clone(&budget), Arc::clone(&held));
            thread::spawn(move || {
                for _ in 0..2 {
                    let hold = budget.reserve(bytes);
                    held.while_held(hold.bytes());
                    drop(hold);
                    if let Some(hold) = budget.try_reserve(bytes / 2) {
                        held.while_held(hold.bytes());
                    }
                }
            })
        });
        join(threads.into());
        assert_eq!((budget.used(), budget.waiting()), (0, 0));
    });
}

/// Memory that is lent, in parts of ten bytes.
struct Parts(Mutex<Vec<Hold>>);

impl Reclaim for Parts {
    fn reclaimable(&self) -> u64 {
        self.0.lock().iter().map(Hold::bytes).sum()
    }

    fn give_up(&self) -> bool {
        let part = self.0.lock().pop();
        part.is_some()
    }
}

#[test]
fn what_lenders_have_is_taken_from_them() {
    in_schedules(2000, || {
        let budget = Budget::new(LIMIT);
        let parts = Arc::new(Parts(Mutex::default()));
        let lender: Weak<Parts> = Arc::downgrade(&parts);
        budget.register(lender);
        let fills = {
            let (budget, parts) = (Arc::clone(&budget), Arc::clone(&parts));
            thread::spawn(move || {
                for _ in 0..12 {
                    if let Some(part) = budget.try_reserve(10) {
                        parts.0.lock().push(part);
                        budget.announce();
                    }
                }
            })
        };
        let wants = [70, 50].map(|bytes| {
            let budget = Arc::clone(&budget);
            // What is kept may leave less than that.
            thread::spawn(move || assert!(budget.reserve(bytes).bytes() >= bytes.min(LIMIT - 40)))
        });
        let keeps = {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let kept = budget.keep(40);
                thread::yield_now();
                drop(kept);
            })
        };
        join([fills, keeps].into_iter().chain(wants).collect());
        parts.0.lock().clear();
        assert_eq!((budget.used(), budget.kept(), budget.waiting()), (0, 0, 0));
    });
}

/// A thread that holds memory and needs more does not wait for one that waits for it.
#[test]
fn threads_that_overdraw_take_turns() {
    in_schedules(2000, || {
        let budget = Budget::new(LIMIT);
        let threads = (0..3).map(|_| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let own = budget.reserve(50);
                thread::yield_now();
                let more = budget.overdraw(50);
                thread::yield_now();
                drop((more, own));
            })
        });
        join(threads.collect());
        assert_eq!((budget.used(), budget.waiting()), (0, 0));
    });
}
