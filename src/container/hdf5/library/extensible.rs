//! Where the chunks of an extensible array are, when libhdf5 miscounts them.
//!
//! The index of a dataset with one unlimited dimension is an extensible array, which numbers chunks with
//! that dimension as the slowest (HDF5 File Format Specification, VII.E). libhdf5 walks it (up to 2.0,
//! `H5Dchunk_iter` and the calls beside it) as though the numbers were in C order, so unless the unlimited
//! dimension is the first it tells the places of other chunks. Looking up one chunk by its place is right,
//! and tells whether the library at hand miscounts. Used by `chunks`.

use hdf5_sys::h5::{haddr_t, hsize_t};
use hdf5_sys::h5d::H5Dget_chunk_info_by_coord;
use hdf5_sys::h5s::H5S_UNLIMITED;

use super::handle::Handle;

/// How the numbers of an extensible array are counted.
pub(super) struct Counting {
    /// The unlimited dimension.
    slowest: usize,
    /// Chunks along each dimension, as many as there may ever be.
    most: Vec<u64>,
}

impl Counting {
    /// `largest`: elements that there may ever be along each dimension. None if C order is right.
    pub(super) fn of(largest: &[u64], chunk: &[u64]) -> Option<Counting> {
        let mut unlimited = (0..largest.len()).filter(|&i| largest[i] == H5S_UNLIMITED);
        let slowest = unlimited.next()?;
        let pairs = largest.iter().zip(chunk);
        let most: Vec<u64> = pairs.map(|(len, chunk)| len.div_ceil(*chunk)).collect();
        let differs = slowest > 0 && unlimited.next().is_none() && !most.contains(&0);
        differs.then_some(Counting { slowest, most })
    }

    /// Where the chunk is that a walk in C order takes to be at `told`; both count chunks. None if no
    /// such walk gets there.
    pub(super) fn place(&self, told: &[u64]) -> Option<Vec<u64>> {
        if told.len() != self.most.len() || told[..self.slowest].iter().any(|&at| at != 0) {
            return None;
        }
        let mut number = told[self.slowest];
        for (at, most) in told.iter().zip(&self.most).skip(self.slowest + 1) {
            number = number.checked_mul(*most)?.checked_add(*at)?;
        }
        let mut place = vec![0; told.len()];
        for i in (0..told.len()).rev().filter(|&i| i != self.slowest) {
            place[i] = number % self.most[i];
            number /= self.most[i];
        }
        place[self.slowest] = number;
        Some(place)
    }
}

/// The address of the chunk whose first element is at `offset`, looked up; none if there is none.
pub(super) fn address(dataset: &Handle, offset: &[hsize_t]) -> Option<haddr_t> {
    let (mut mask, mut address, mut size) = (0, 0, 0);
    let at = offset.as_ptr();
    // SAFETY: the handle is a chunked dataset of as many dimensions as `offset` has; the rest is ours.
    let status = unsafe {
        H5Dget_chunk_info_by_coord(dataset.id(), at, &mut mask, &mut address, &mut size)
    };
    (status >= 0 && size > 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_order_is_right_unless_one_later_dimension_is_unlimited() {
        let unlimited = H5S_UNLIMITED;
        for right in [
            &[5, 6][..],
            &[unlimited, 6],
            &[unlimited, unlimited],
            &[0, unlimited],
        ] {
            assert!(Counting::of(right, &[2, 2]).is_none());
        }
        assert!(Counting::of(&[5, unlimited], &[2, 2]).is_some());
    }

    #[test]
    fn places_are_counted_with_the_unlimited_dimension_as_the_slowest() {
        let counting = Counting::of(&[6, H5S_UNLIMITED, 9], &[2, 5, 2]).unwrap();
        // Chunks along the others: 3 and 5.
        let mut number = 0;
        for middle in 0..4 {
            for first in 0..3 {
                for last in 0..5 {
                    let told = [0, number / 5, number % 5];
                    assert_eq!(counting.place(&told), Some(vec![first, middle, last]));
                    number += 1;
                }
            }
        }
        assert_eq!(counting.place(&[1, 0, 0]), None);
        assert_eq!(counting.place(&[0, u64::MAX, 4]), None);
    }
}
