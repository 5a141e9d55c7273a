//! The program's allocator with what tests want beside it: large allocations that are refused, and
//! the count of what is held. The crates of arrayfs have it in their tests, and nothing else has.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use super::allocator::ReservingAllocator;
use super::{counting, refusing};

/// See [`refusing`] and [`counting`].
pub struct ObservedAllocator;

// SAFETY: the memory is that of the program's allocator, or null, which says that there is none.
unsafe impl GlobalAlloc for ObservedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refusing::refuses(layout.size()) {
            return ptr::null_mut();
        }
        counting::taken(layout.size());
        // SAFETY: the caller's promises are those of that allocator.
        unsafe { ReservingAllocator.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refusing::refuses(layout.size()) {
            return ptr::null_mut();
        }
        counting::taken(layout.size());
        // SAFETY: as above.
        unsafe { ReservingAllocator.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refusing::refuses_more(layout.size(), size) {
            return ptr::null_mut();
        }
        counting::given_back(layout.size());
        counting::taken(size);
        // SAFETY: as above.
        unsafe { ReservingAllocator.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        refusing::given_back(layout.size());
        counting::given_back(layout.size());
        // SAFETY: as above.
        unsafe { ReservingAllocator.dealloc(place, layout) }
    }
}
