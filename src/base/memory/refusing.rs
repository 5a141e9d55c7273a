//! Makes the allocator refuse, in tests, one large allocation of a thread.
//!
//! Small ones are exempt ([`LARGE`]): a reserve is kept for them. So are allocations for which
//! memory was set aside, up to that size: setting too little aside is found out.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::allocator::LARGE;

/// Whether anything was ever to be refused: only tests want that, and the program asks no further.
static WANTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Large allocations to be granted before one is refused; none are refused without a number.
    static GRANTED: Cell<Option<u64>> = const { Cell::new(None) };
    /// Bytes left of what was set aside; none if nothing was.
    static COVERED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `work` with its large allocation of number `granted` (from 0 on) refused; says whether it
/// came to that.
pub fn refusing<R>(granted: u64, work: impl FnOnce() -> R) -> (R, bool) {
    WANTED.store(true, Ordering::Relaxed);
    GRANTED.set(Some(granted));
    let done = work();
    let refused = GRANTED.replace(None).is_none();
    (done, refused)
}

/// Whether to ask the others here.
pub(super) fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Whether an allocation of this size is the one to be refused. Later ones are granted.
pub(super) fn refuses(size: usize) -> bool {
    refuses_more(0, size)
}

/// Whether an allocation that grows to this size is the one to be refused.
pub(super) fn refuses_more(from: usize, to: usize) -> bool {
    if to <= from {
        given_back(from - to);
        return false;
    }
    // While it is moved there are both.
    if is_covered(to) {
        given_back(from);
        return false;
    }
    refuses_uncovered(to)
}

/// Whether memory that is set aside, which nothing covers, is the one to be refused.
pub(super) fn refuses_uncovered(size: usize) -> bool {
    if size < LARGE {
        return false;
    }
    let refuses = GRANTED.try_with(|granted| match granted.get() {
        Some(0) => {
            granted.set(None);
            true
        }
        left => {
            granted.set(left.map(|left| left - 1));
            false
        }
    });
    refuses.unwrap_or(false)
}

fn is_covered(size: usize) -> bool {
    let covered = COVERED.try_with(|left| match left.get()?.checked_sub(size) {
        Some(rest) => {
            left.set(Some(rest));
            Some(())
        }
        None => None,
    });
    covered.is_ok_and(|covered| covered.is_some())
}

/// Memory has been freed.
pub(super) fn given_back(size: usize) {
    let _ = COVERED.try_with(|left| left.set(left.get().map(|left| left.saturating_add(size))));
}

/// What memory was set aside for, as long as it lives.
pub(super) struct Covered {
    outer: Option<usize>,
}

/// Allocations of this thread are covered up to so many bytes, if any are to be refused.
pub(super) fn covered(bytes: u64) -> Option<Covered> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    is_wanted().then(|| Covered {
        outer: COVERED.replace(Some(bytes)),
    })
}

impl Drop for Covered {
    fn drop(&mut self) {
        COVERED.set(self.outer);
    }
}

#[test]
fn the_allocation_that_was_meant_is_refused() {
    let refused = |granted| {
        refusing(granted, || {
            let mut first: Vec<u8> = Vec::new();
            let mut second: Vec<u8> = Vec::new();
            let small = vec![0u8; LARGE - 1].len();
            let large = [&mut first, &mut second].map(|v| v.try_reserve(LARGE).is_err());
            (small, large)
        })
    };
    assert_eq!(refused(0), ((LARGE - 1, [true, false]), true));
    assert_eq!(refused(1), ((LARGE - 1, [false, true]), true));
    assert_eq!(refused(2), ((LARGE - 1, [false, false]), false));
}

#[test]
fn what_was_set_aside_is_not_refused_and_what_is_more_is() {
    let (failed, refused) = refusing(1, || {
        super::set_aside(3 * LARGE as u64, "x", || {
            let mut held: [Vec<u8>; 3] = Default::default();
            held.each_mut()
                .map(|v| v.try_reserve_exact(LARGE + 1).is_err())
        })
    });
    assert_eq!((failed.unwrap(), refused), ([false, false, true], true));
}
