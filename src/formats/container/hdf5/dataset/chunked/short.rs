//! Filtered chunks that turned out shorter than the array needs.
//!
//! How long such a chunk is shows only when it is decoded. The first decode is refused, for some of
//! the bytes that were asked for may not be there; what is noted here lets the next plan leave them
//! out, so that the others are read. Used by [`super`].

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::{Mutex, MutexGuard};

/// Chunks noted at most; of any others no byte is shown.
const MOST: usize = 512;

#[derive(Default)]
pub(super) struct ShortChunks {
    /// Whether there are any: asked for every run of an array.
    some: AtomicBool,
    /// Numbers of chunks, rising, and how many shown bytes each has.
    held: Mutex<Vec<(u64, u64)>>,
}

impl ShortChunks {
    /// Shown bytes of a chunk that was noted.
    pub(super) fn held(&self, number: u64) -> Option<u64> {
        if !self.some.load(Ordering::Acquire) {
            return None;
        }
        let held = self.lock();
        let at = held.binary_search_by_key(&number, |(number, _)| *number);
        at.ok().and_then(|at| held.get(at)).map(|(_, held)| *held)
    }

    pub(super) fn note(&self, number: u64, bytes: u64) {
        let mut held = self.lock();
        let at = held.binary_search_by_key(&number, |(number, _)| *number);
        if let Err(at) = at
            && held.len() < MOST
            && held.try_reserve(1).is_ok()
        {
            held.insert(at, (number, bytes));
            self.some.store(true, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.held.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_noted_and_no_more() {
        let short = ShortChunks::default();
        assert_eq!(short.held(3), None);
        for number in (0..MOST as u64).rev() {
            short.note(2 * number, number);
        }
        assert_eq!((short.held(6), short.held(7)), (Some(3), None));
        short.note(7, 1);
        short.note(6, 1);
        assert_eq!((short.held(6), short.held(7)), (Some(3), None));
    }
}
