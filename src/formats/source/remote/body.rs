//! Buffers for what is fetched, used again and again: most of the cost of a fresh one is the
//! kernel's, which clears each of its pages.
//!
//! Large ones alone are kept, and few of them; what pieces hold is charged to the budget
//! ([`super::piece`]), spare ones are not. Used by [`super::transport`] and [`super::cached_file`].

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Mutex;

/// Buffers of fewer bytes are the allocator's work.
const LARGE: usize = 512 << 10;
/// Spare bytes, at most.
const SPARE: usize = 16 << 20;

static ALLOWED: AtomicUsize = AtomicUsize::new(0);

static SPARES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// So many spare bytes may be kept, and no more than 16 MiB.
pub(super) fn allow_spares(bytes: u64) {
    let allowed = usize::try_from(bytes).unwrap_or(usize::MAX);
    ALLOWED.fetch_max(allowed.min(SPARE), Ordering::Relaxed);
}

/// Bytes that were fetched.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Body(Vec<u8>);

impl Body {
    /// An empty one with room for so many bytes; none if there is no memory for it.
    pub(super) fn with_room(bytes: usize) -> Option<Body> {
        if bytes >= LARGE
            && let Some(spare) = take_spare(bytes)
        {
            return Some(Body(spare));
        }
        let mut fresh = Vec::new();
        fresh.try_reserve_exact(bytes).ok()?;
        Some(Body(fresh))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body(bytes)
    }
}

/// None that is much larger than it has to be: a piece is charged by its bytes.
fn take_spare(bytes: usize) -> Option<Vec<u8>> {
    let mut spares = SPARES.lock();
    let fits = |spare: &Vec<u8>| spare.capacity() >= bytes && spare.capacity() / 9 * 8 <= bytes;
    let at = spares.iter().position(fits)?;
    Some(spares.swap_remove(at))
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        if bytes.capacity() < LARGE {
            return;
        }
        bytes.clear();
        let mut spares = SPARES.lock();
        let held: usize = spares.iter().map(Vec::capacity).sum();
        if held.saturating_add(bytes.capacity()) <= ALLOWED.load(Ordering::Relaxed) {
            spares.push(bytes);
        }
    }
}

impl Deref for Body {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Body {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_buffers_are_empty_and_not_much_too_large() {
        allow_spares(1 << 30);
        for _ in 0..100 {
            let mut large = Body::with_room(4 << 20).unwrap();
            assert!(large.is_empty() && large.capacity() >= 4 << 20);
            large.extend_from_slice(&[7; 1000]);
        }
        let part = Body::with_room(1 << 20).unwrap();
        assert!(part.capacity() < 2 << 20);
        drop(
            (0..100)
                .map(|_| Body::with_room(4 << 20))
                .collect::<Vec<_>>(),
        );
        assert!(SPARES.lock().iter().map(Vec::capacity).sum::<usize>() <= SPARE);
        assert!(Body::with_room(usize::MAX).is_none());
    }
}
