//! What is told of the parts of a container once in the life of a mount, however often it is met.
//!
//! Belongs to a version of a container, like all that commits leave. Used by `hdf5`; kept by
//! `live`.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::sync::Mutex;

/// Most parts that are remembered; of others nothing is told.
const MOST: usize = 4096;

/// The parts of which it has been told, by their numbers. Small as long as there are none.
#[derive(Debug, Default)]
pub struct ToldOnce(OnceLock<Box<Mutex<BTreeSet<u64>>>>);

impl ToldOnce {
    /// Whether it is to be told of this part: the first time alone.
    pub(crate) fn is_first(&self, part: u64) -> bool {
        let mut told = self.0.get_or_init(Box::default).lock();
        told.len() < MOST && told.insert(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_told_once_and_not_too_many() {
        let told = ToldOnce::default();
        assert_eq!(
            [7, 7, 8, 7].map(|part| told.is_first(part)),
            [true, false, true, false]
        );
        let many = (0..2 * MOST as u64).filter(|&part| told.is_first(part));
        assert_eq!(many.count(), MOST - 2);
    }
}
