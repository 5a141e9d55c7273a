//! Ways of encoding that have been tried in the life of a mount: a chunk has been read back, and
//! was what it is to be.
//!
//! Belongs to a version of a container, like all that commits leave. Used by `hdf5`; kept by
//! `live`.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::sync::{Mutex, MutexGuard};

/// Most that are remembered; others are tried each time.
const MOST: usize = 4096;

/// Parts of a container, by their numbers, each with the bits of the filters that a chunk of it
/// skipped. Small as long as there are none.
#[derive(Debug, Default)]
pub struct ProvenEncodings(OnceLock<Box<Mutex<Encodings>>>);

type Encodings = BTreeSet<(u64, u32)>;

impl ProvenEncodings {
    pub(crate) fn has(&self, encoding: (u64, u32)) -> bool {
        let proven = self.0.get();
        proven.is_some_and(|proven| lock(proven).contains(&encoding))
    }

    pub(crate) fn add(&self, encoding: (u64, u32)) {
        let mut proven = lock(self.0.get_or_init(Box::default));
        if proven.len() < MOST {
            proven.insert(encoding);
        }
    }
}

fn lock(proven: &Mutex<Encodings>) -> MutexGuard<'_, Encodings> {
    proven.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_is_remembered_and_not_too_many() {
        let proven = ProvenEncodings::default();
        assert!(!proven.has((7, 0)));
        proven.add((7, 0));
        assert!(proven.has((7, 0)) && !proven.has((7, 1)) && !proven.has((8, 0)));
        (0..2 * MOST as u64).for_each(|part| proven.add((part, 2)));
        let many = (0..2 * MOST as u64).filter(|&part| proven.has((part, 2)));
        assert_eq!(many.count(), MOST - 1);
    }
}
