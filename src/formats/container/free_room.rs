//! Room in a file that nothing lies in: what this daemon's commits have freed.
//!
//! libhdf5 does not remember it from one opening to the next, so a file of which chunks are
//! rewritten again and again would grow. The list belongs to a version of a container: it is good
//! as long as no other program changes the file. Used by `hdf5`; kept by `live`.

use crate::sync::{Mutex, MutexGuard};

/// Most ranges that are remembered; the smallest go first.
const MOST: usize = 4096;

/// Room of a file: address and length of each range.
#[derive(Debug, Default)]
pub struct FreeRoom(Mutex<Box<[(u64, u64)]>>);

impl FreeRoom {
    /// What lies before the end of the file.
    pub(crate) fn offered(&self, end: u64) -> Vec<(u64, u64)> {
        let room = self.lock();
        let lie = room
            .iter()
            .filter(|(at, len)| at.saturating_add(*len) <= end);
        lie.copied().collect()
    }

    pub(crate) fn set(&self, mut room: Vec<(u64, u64)>) {
        if room.len() > MOST {
            room.sort_unstable_by_key(|(_, len)| std::cmp::Reverse(*len));
            room.truncate(MOST);
        }
        *self.lock() = room.into_boxed_slice();
    }

    fn lock(&self) -> MutexGuard<'_, Box<[(u64, u64)]>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_remembered() {
        let room = FreeRoom::default();
        let all = (0..2 * MOST as u64).map(|n| (1000 * n, n + 1));
        room.set(all.collect());
        let kept = room.offered(u64::MAX);
        assert_eq!(kept.len(), MOST);
        assert!(kept.iter().all(|(_, len)| *len > MOST as u64));
        assert!(room.offered(10).is_empty());
    }
}
