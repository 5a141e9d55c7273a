//! What commits of a mount leave for later openings of the same version of a file.
//!
//! - Room that nothing lies in, since commits have freed it: libhdf5 does not remember it from one
//!   opening to the next, so a file of which chunks are rewritten again and again would grow.
//! - Ways of encoding that have been tried: a chunk has been read back, and was what it is to be.
//! - Of which datasets it has been told that their chunks skip their filters.
//!
//! It is good as long as no other program changes the file. Used by [`super`] when a file is
//! opened, and by [`super::write`].

use std::collections::BTreeSet;

use crate::sync::Mutex;

/// Most that is remembered of each kind: of the room the largest ranges; other encodings are tried
/// each time, and of other datasets nothing is told.
const MOST: usize = 4096;

/// The token of a dataset, and the bits of the filters that a chunk of it skips.
pub(super) type Encoding = (u64, u32);

#[derive(Default)]
pub(super) struct LeftInFile {
    /// Address and length of each range.
    room: Mutex<Box<[(u64, u64)]>>,
    proven: Mutex<BTreeSet<Encoding>>,
    /// By their tokens.
    told: Mutex<BTreeSet<u64>>,
}

impl LeftInFile {
    /// The room that lies before the end of the file.
    pub(super) fn room(&self, end: u64) -> Vec<(u64, u64)> {
        let room = self.room.lock();
        let lies = |(at, len): &&(u64, u64)| at.saturating_add(*len) <= end;
        room.iter().filter(lies).copied().collect()
    }

    pub(super) fn set_room(&self, mut room: Vec<(u64, u64)>) {
        if room.len() > MOST {
            room.sort_unstable_by_key(|(_, len)| std::cmp::Reverse(*len));
            room.truncate(MOST);
        }
        *self.room.lock() = room.into_boxed_slice();
    }

    pub(super) fn is_proven(&self, encoding: Encoding) -> bool {
        self.proven.lock().contains(&encoding)
    }

    pub(super) fn prove(&self, encoding: Encoding) {
        let mut proven = self.proven.lock();
        if proven.len() < MOST {
            proven.insert(encoding);
        }
    }

    /// Whether it is to be told that chunks of this dataset skip filters: the first time alone.
    pub(super) fn is_first_told(&self, token: u64) -> bool {
        let mut told = self.told.lock();
        told.len() < MOST && told.insert(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_ranges_are_remembered() {
        let left = LeftInFile::default();
        let all = (0..2 * MOST as u64).map(|n| (1000 * n, n + 1));
        left.set_room(all.collect());
        let kept = left.room(u64::MAX);
        assert_eq!(kept.len(), MOST);
        assert!(kept.iter().all(|(_, len)| *len > MOST as u64));
        assert!(left.room(10).is_empty());
    }

    #[test]
    fn each_dataset_is_told_of_once_and_not_too_many_are() {
        let left = LeftInFile::default();
        assert_eq!(
            [7, 7, 8, 7].map(|token| left.is_first_told(token)),
            [true, false, true, false]
        );
        let many = (0..2 * MOST as u64).filter(|&token| left.is_first_told(token));
        assert_eq!(many.count(), MOST - 2);
    }

    #[test]
    fn encodings_that_were_tried_are_remembered_and_not_too_many() {
        let left = LeftInFile::default();
        assert!(!left.is_proven((7, 0)));
        left.prove((7, 0));
        assert!(left.is_proven((7, 0)) && !left.is_proven((7, 1)) && !left.is_proven((8, 0)));
        (0..2 * MOST as u64).for_each(|token| left.prove((token, 2)));
        let many = (0..2 * MOST as u64).filter(|&token| left.is_proven((token, 2)));
        assert_eq!(many.count(), MOST - 1);
    }
}
