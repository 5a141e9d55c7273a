//! Where the chunks of an extensible array really are.
//!
//! An extensible array numbers chunks with its one unlimited dimension first. libhdf5 (up to 2.2 at
//! least) counts through the index with the dimensions in their own order when it reports the
//! offsets of chunks, so the offsets are wrong unless that dimension is the first. The number in
//! the index can be had back from a reported offset, and the true offset from that. Used by
//! `chunks`.

use hdf5_sys::h5d::{H5D_chunk_index_t, H5Dget_chunk_index_type};

use super::identifier::{Identifier, Outcome, asked};
use super::space::largest;
use crate::container::hdf5::index::UNLIMITED;

/// `H5D_CHUNK_IDX_EARRAY`; the crate has no name for it.
const EXTENSIBLE_ARRAY: H5D_chunk_index_t = 4;

pub(super) struct Swizzle {
    /// The unlimited dimension; not the first.
    unlimited: usize,
    /// Chunks along each dimension when the dataset is as large as it can get; 1 for the unlimited
    /// one.
    most: Vec<u64>,
}

impl Swizzle {
    /// None if the library reports true offsets.
    pub(super) fn of(
        dataset: &Identifier,
        space: &Identifier,
        chunk: &[u64],
    ) -> Outcome<Option<Swizzle>> {
        if asked(dataset, 0, H5Dget_chunk_index_type)? != EXTENSIBLE_ARRAY {
            return Ok(None);
        }
        Ok(Swizzle::new(&largest(space)?, chunk))
    }

    fn new(largest: &[u64], chunk: &[u64]) -> Option<Swizzle> {
        let unlimited = largest.iter().position(|&dim| dim == UNLIMITED)?;
        let most = |(&dim, &chunk): (&u64, &u64)| match dim {
            UNLIMITED => 1,
            dim => dim.div_ceil(chunk.max(1)).max(1),
        };
        (unlimited > 0).then(|| Swizzle {
            unlimited,
            most: largest.iter().zip(chunk).map(most).collect(),
        })
    }

    /// The true place of a chunk in the grid; none if the index is out of all bounds.
    pub(super) fn truth(&self, reported: &[u64]) -> Option<Vec<u64>> {
        let counted = reported.iter().zip(&self.most).skip(self.unlimited);
        let mut number = counted.into_iter().try_fold(0u64, |number, (&at, &most)| {
            number.checked_mul(most)?.checked_add(at)
        })?;
        let mut place = vec![0; reported.len()];
        for dim in (0..reported.len())
            .rev()
            .filter(|&dim| dim != self.unlimited)
        {
            let most = *self.most.get(dim)?;
            place[dim] = number % most;
            number /= most;
        }
        place[self.unlimited] = number;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unlimited_dimension_is_the_slowest() {
        let swizzle = Swizzle::new(&[6, UNLIMITED, 9], &[2, 5, 2]).unwrap();
        // Chunks along the first and the last: 3 and 5.
        let mut number = 0;
        for middle in 0..4 {
            for first in 0..3 {
                for last in 0..5 {
                    let reported = [0, number / 5, number % 5];
                    assert_eq!(swizzle.truth(&reported), Some(vec![first, middle, last]));
                    number += 1;
                }
            }
        }
        assert_eq!(swizzle.truth(&[0, u64::MAX, 4]), None);
        assert!(Swizzle::new(&[UNLIMITED, 6], &[2, 2]).is_none());
    }
}
