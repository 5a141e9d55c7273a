//! Which thread gets memory, which waits, and that none waits for ever.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Memory that can be reclaimed, in parts of ten bytes.
struct Lender {
    budget: Arc<Budget>,
    parts: Mutex<Vec<Hold>>,
}

impl Lender {
    fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let lender = Arc::new(Lender {
            budget: Arc::clone(budget),
            parts: Mutex::default(),
        });
        let weak = Arc::downgrade(&lender);
        budget.register(weak);
        lender
    }

    fn fill(&self, parts: usize) {
        for _ in 0..parts {
            if let Some(part) = self.budget.try_reserve(10) {
                self.parts.lock().push(part);
                self.budget.announce();
            }
        }
    }
}

impl Reclaim for Lender {
    fn reclaimable(&self) -> u64 {
        10 * self.parts.lock().len() as u64
    }

    fn give_up(&self) -> bool {
        let part = self.parts.lock().pop();
        part.is_some()
    }
}

/// Tables that are kept although they are not in use.
struct Idle(Mutex<Vec<Hold>>);

impl Reclaim for Idle {
    fn reclaimable(&self) -> u64 {
        0
    }

    fn give_up(&self) -> bool {
        false
    }

    fn give_up_kept(&self) -> bool {
        let gone = self.0.lock().pop();
        gone.is_some()
    }
}

#[test]
fn idle_tables_go_before_anybody_is_refused() {
    let budget = Budget::new(100);
    let parts = (0..5).map(|_| budget.keep(10).unwrap()).collect();
    let idle = Arc::new(Idle(Mutex::new(parts)));
    let weak = Arc::downgrade(&idle);
    budget.register(weak);
    assert!(is_no_memory(budget.keep(51)));
    assert_eq!(budget.kept(), 50, "it would not have sufficed");
    let kept = budget.keep(15).unwrap();
    assert_eq!(budget.kept(), 45, "no more than needed");
    let others = budget.keep(35).unwrap();
    assert_eq!(budget.kept(), 50);
    assert!(is_no_memory(budget.keep(1)), "all of it is in use");
    drop((kept, others));
}

fn is_no_memory<T>(result: Result<T>) -> bool {
    match result {
        Err(crate::error::Error::Io { cause, .. }) => cause.raw_os_error() == Some(libc::ENOMEM),
        _ => false,
    }
}

#[test]
fn reserves_up_to_the_limit() {
    let budget = Budget::new(10);
    let mut held = budget.try_reserve(6).unwrap();
    assert!(matches!(budget.charge(5, None), Charged::Short(1)));
    drop(held.split(2));
    assert_eq!((held.bytes(), budget.used()), (4, 4));
    drop(held);
    let held = budget.try_reserve(u64::MAX).unwrap();
    assert_eq!(held.bytes(), 10);
    assert!(budget.try_reserve(1).is_none());
}

#[test]
fn nobody_takes_what_the_first_of_the_queue_waits_for() {
    let budget = Budget::new(10);
    let turn = budget.queue();
    assert!(matches!(budget.charge(1, None), Charged::OthersFirst));
    assert!(matches!(budget.charge(1, Some(&turn)), Charged::All(_)));
    drop(turn);
    assert!(budget.try_reserve(1).is_some());
}

#[test]
fn what_is_kept_is_charged_at_once_and_takes_half_at_most() {
    let budget = Budget::new(100);
    let held = budget.reserve(90);
    let mut kept = budget.keep(50).unwrap();
    assert_eq!((budget.used(), budget.kept()), (140, 50));
    assert!(is_no_memory(budget.keep(1)));
    assert!(is_no_memory(budget.keep(u64::MAX)));
    assert!(budget.try_reserve(1).is_none());
    drop(kept.split(20));
    assert_eq!((budget.used(), budget.kept()), (120, 30));
    drop(held);
    assert_eq!(budget.reserve(u64::MAX).bytes(), 70);
    drop(kept);
    assert_eq!((budget.used(), budget.kept()), (0, 0));
}

/// A floor for tables, whatever the limit is: what is beyond half of it takes nothing from blocks.
#[test]
fn what_is_kept_beyond_half_makes_nobody_wait() {
    let budget = Budget::keeping(100, 500);
    let kept = budget.keep(480).unwrap();
    assert_eq!((budget.used(), budget.kept()), (480, 480));
    assert_eq!(budget.counted(), 50);
    assert!(is_no_memory(budget.keep(21)));
    let held = budget.reserve(60);
    assert_eq!(held.bytes(), 50, "half is left for blocks");
    assert!(budget.try_reserve(1).is_none());
    drop(held);
    let lender = Lender::new(&budget);
    lender.fill(10);
    assert_eq!(lender.reclaimable(), 50);
    let more = budget.keep(20).unwrap();
    assert_eq!(lender.reclaimable(), 50, "it is beside the limit");
    drop((more, kept));
    assert_eq!(budget.reserve(u64::MAX).bytes(), 100);
    drop(lender);
    assert_eq!((budget.used(), budget.kept()), (0, 0));
}

#[test]
fn what_is_there_already_is_charged_and_not_refused() {
    let budget = Budget::new(100);
    let idle = Arc::new(Idle(Mutex::new(vec![budget.keep(30).unwrap()])));
    let weak = Arc::downgrade(&idle);
    budget.register(weak);
    let built = budget.keep_built(40);
    assert_eq!(budget.kept(), 40, "idle tables went");
    let more = budget.keep_built(70);
    assert_eq!((budget.kept(), budget.counted()), (110, 50));
    assert!(is_no_memory(budget.keep(1)));
    assert_eq!(budget.reserve(60).bytes(), 50);
    drop((built, more));
    assert_eq!((budget.used(), budget.kept()), (0, 0));
}

#[test]
fn a_refusal_says_how_large_the_budget_would_have_to_be() {
    let budget = Budget::keeping(1 << 20, 24 << 20);
    let mut kept = budget.keep(20 << 20).unwrap();
    kept.keep_more(4 << 20).unwrap();
    let refused = kept.keep_more((1 << 20) + 1).unwrap_err().to_string();
    assert!(
        refused.contains("26 MiB are needed, 24 MiB may be kept (cache=52M would do)"),
        "{refused}"
    );
    assert_eq!(kept.bytes(), 24 << 20);
    drop(kept);
    assert_eq!(budget.used(), 0);
}

#[test]
fn memory_is_reclaimed_before_anybody_waits_or_the_limit_is_passed() {
    let budget = Budget::new(100);
    let lender = Lender::new(&budget);
    lender.fill(10);
    let kept = budget.keep(45).unwrap();
    assert_eq!((budget.used(), lender.reclaimable()), (95, 50));
    let held = budget.reserve(15);
    assert_eq!((budget.used(), lender.reclaimable()), (100, 40));
    assert!(budget.try_reserve(41).is_none());
    assert_eq!(lender.reclaimable(), 40, "it would not have sufficed");
    drop((kept, held, lender));
    assert_eq!(budget.used(), 0);
    assert_eq!(budget.reclaimable(), 0);
}

#[test]
fn a_waiter_for_all_there_is_goes_on_when_some_of_it_is_kept() {
    let budget = Budget::new(100);
    let held = budget.reserve(60);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| budget.reserve(90).bytes());
        while budget.waiting() == 0 {
            std::thread::yield_now();
        }
        let kept = budget.keep(50).unwrap();
        drop(held);
        assert_eq!(waiter.join().unwrap(), 50);
        drop(kept);
    });
    assert_eq!(budget.used(), 0);
}

/// What others hold may be waiting for the thread that waits.
#[test]
fn what_is_never_given_back_is_not_waited_for_for_ever() {
    let budget = Budget::impatient(100);
    let held = budget.reserve(100);
    let beyond = budget.reserve(70);
    assert_eq!((beyond.bytes(), budget.used()), (70, 170));
    assert!(budget.try_reserve(1).is_none());
    drop(beyond);
    assert!(budget.try_reserve(1).is_none());
    drop(held);
    assert_eq!((budget.used(), budget.waiting()), (0, 0));
    assert!(budget.try_reserve(100).is_some());
}

#[test]
fn one_thread_at_a_time_overdraws_and_may_do_so_again() {
    let budget = Budget::new(100);
    let held = budget.reserve(100);
    assert!(is_no_memory(budget.overdraw(51)));
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let outer = budget.overdraw(50).unwrap();
                    let mut inner = budget.overdraw(30).unwrap();
                    let hold = inner.hold();
                    most.fetch_max(budget.used(), Ordering::Relaxed);
                    drop((hold, inner, outer));
                }
            });
        }
    });
    assert_eq!((most.into_inner(), budget.used()), (180, 100));
    drop(held);
}

/// Readers that wait, read-ahead that does not, tables that are kept, decodes within decodes, and a
/// cache, all at once: every thread comes through, and in the end nothing is in use.
#[test]
fn nobody_waits_for_ever_and_everything_comes_back() {
    let budget = Budget::new(1000);
    let lender = Lender::new(&budget);
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..8u64 {
            let (budget, lender, refused) = (&budget, &lender, &refused);
            scope.spawn(move || {
                let mut seed = worker;
                for _ in 0..3000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = (seed >> 33) % 1200;
                    match (seed >> 48) % 6 {
                        0 => lender.fill(20),
                        1 => drop(budget.keep(bytes)),
                        2 => drop(budget.try_reserve(bytes)),
                        _ => busy(budget, bytes, refused),
                    }
                    assert!(budget.kept() <= 500);
                    assert!(budget.used() <= 1000 + 500 + 500);
                }
            });
        }
    });
    drop(lender);
    assert_eq!((budget.used(), budget.kept(), budget.waiting()), (0, 0, 0));
}

/// A decode: waits for its memory, and while it has it keeps a table and decodes a block within.
fn busy(budget: &Arc<Budget>, bytes: u64, refused: &AtomicU64) {
    let held = budget.reserve(bytes);
    assert!(held.bytes() >= bytes.min(500));
    let kept = budget.keep(bytes / 8);
    if kept.is_err() {
        refused.fetch_add(1, Ordering::Relaxed);
    }
    let within = budget.overdraw(bytes / 4).unwrap();
    drop((within, kept, held));
}
