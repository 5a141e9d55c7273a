//! The allocator of the tests: refuses one large allocation of a thread when it is told to.
//!
//! Small ones are exempt ([`LARGE`]): what is bounded by a constant of ours may end the process where the system
//! has no memory left at all; what a file decides may not, and grows past this soon enough.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Allocations of at least this size are counted and may be refused.
const LARGE: usize = 16 << 10;

struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

thread_local! {
    /// Large allocations to be granted before one is refused; none are refused without a number.
    static GRANTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `work` with its large allocation of number `granted` (from 0 on) refused; says whether it came to that.
pub(crate) fn refusing<R>(granted: u64, work: impl FnOnce() -> R) -> (R, bool) {
    GRANTED.set(Some(granted));
    let done = work();
    let refused = GRANTED.replace(None).is_none();
    (done, refused)
}

/// Whether an allocation of this size is the one to be refused. Later ones are granted.
pub(super) fn refuses(size: usize) -> bool {
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

// SAFETY: the system's allocator, or null, which says that there is no memory.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match refuses(layout.size()) {
            true => std::ptr::null_mut(),
            // SAFETY: the caller's promises are those of the system's allocator.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match refuses(layout.size()) {
            true => std::ptr::null_mut(),
            // SAFETY: as above.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size > layout.size() && refuses(size) {
            true => std::ptr::null_mut(),
            // SAFETY: as above.
            false => unsafe { System.realloc(place, layout, size) },
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
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
