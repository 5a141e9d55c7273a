//! Shapes, and how many elements or chunks they hold.

use hdf5_sys::h5s::{
    H5S_class_t, H5Sget_simple_extent_dims, H5Sget_simple_extent_ndims, H5Sget_simple_extent_type,
};

use super::identifier::{Identifier, Outcome, check, complaint};
use crate::array::grid::product;

/// The dimensions of a dataspace; none for one without elements (H5S_NULL), empty for a scalar.
pub(super) fn dims(space: &Identifier) -> Outcome<Option<Vec<u64>>> {
    // SAFETY: the handle is a dataspace.
    match unsafe { H5Sget_simple_extent_type(space.id()) } {
        H5S_class_t::H5S_NULL => Ok(None),
        H5S_class_t::H5S_SCALAR => Ok(Some(Vec::new())),
        H5S_class_t::H5S_SIMPLE => {
            // SAFETY: as above.
            let rank = check(unsafe { H5Sget_simple_extent_ndims(space.id()) })?;
            let mut dims = vec![0; rank];
            let largest = std::ptr::null_mut();
            // SAFETY: there is room for every dimension; the largest are not asked for.
            check(unsafe { H5Sget_simple_extent_dims(space.id(), dims.as_mut_ptr(), largest) })?;
            Ok(Some(dims))
        }
        H5S_class_t::H5S_NO_CLASS => Err(complaint()),
    }
}

/// The largest dimensions that a simple dataspace may get.
pub(super) fn largest(space: &Identifier) -> Outcome<Vec<u64>> {
    // SAFETY: the handle is a dataspace.
    let rank = check(unsafe { H5Sget_simple_extent_ndims(space.id()) })?;
    let mut largest = vec![0; rank];
    let dims = std::ptr::null_mut();
    // SAFETY: there is room for every dimension; the present ones are not asked for.
    check(unsafe { H5Sget_simple_extent_dims(space.id(), dims, largest.as_mut_ptr()) })?;
    Ok(largest)
}

/// Number of elements; none if it does not fit.
pub(super) fn count(dims: &[u64]) -> Option<u64> {
    product(dims, 1)
}

/// Chunks along each dimension; none if a chunk has no elements or the ranks differ.
pub(super) fn grid(dims: &[u64], chunk: &[u64]) -> Option<Vec<u64>> {
    if dims.len() != chunk.len() || chunk.contains(&0) {
        return None;
    }
    Some(
        dims.iter()
            .zip(chunk)
            .map(|(d, c)| d.div_ceil(*c))
            .collect(),
    )
}
