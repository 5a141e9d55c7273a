//! What a thread holds of the heap, in tests: as the system's allocator rounds it.
//!
//! What the system refuses is counted as well, and never given back, so the count may wrap.

use std::cell::Cell;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// What an allocation takes with glibc: 8 bytes before it, and a multiple of 16.
fn rounded(size: usize) -> i64 {
    (size + 8).next_multiple_of(16).max(32) as i64
}

pub(super) fn taken(size: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().wrapping_add(rounded(size))));
}

pub(super) fn given_back(size: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().wrapping_sub(rounded(size))));
}

/// Runs `work`, and says how many bytes this thread holds more since.
pub fn held_after<R>(work: impl FnOnce() -> R) -> (R, i64) {
    let before = HELD.get();
    let done = work();
    (done, HELD.get().wrapping_sub(before))
}

#[test]
fn what_is_held_is_counted_until_it_is_given_back() {
    let (list, held) = held_after(|| vec![0u8; 100]);
    assert_eq!(held, 112);
    let ((), held) = held_after(|| drop(list));
    assert_eq!(held, -112);
}
