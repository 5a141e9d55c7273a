//! Which dimension scales a dataset's dimensions have: the references in its `DIMENSION_LIST`.
//!
//! Nothing is followed; a list of any other kind than the HDF5 library makes says nothing. Used by
//! `walk`.

use std::ptr;

use hdf5_sys::h5t::{H5T_STD_REF_OBJ, H5T_class_t, H5Tequal};

use super::elements::{LibraryAttribute, ReadElements};
use super::identifier::{Identifier, Outcome};
use super::json::Sequence;
use super::space::count;
use super::types::above;
use crate::container::hdf5::index::AttributeEntry;
use crate::container::hdf5::index::details::DIMENSION_LIST;

/// Largest rank: a limit of libhdf5.
const RANK_MOST: u64 = 32;
/// Scales of one dimension; nobody has so many.
const SCALES_MOST: usize = 64;

/// The tokens of the scales of each dimension; empty if there are none.
pub(super) fn of(dataset: &Identifier, attributes: &[AttributeEntry]) -> Vec<Vec<u64>> {
    let is_list = |attribute: &AttributeEntry| attribute.name == DIMENSION_LIST;
    match attributes.iter().any(is_list) {
        true => read(dataset).unwrap_or_default(),
        false => Vec::new(),
    }
}

fn read(dataset: &Identifier) -> Outcome<Vec<Vec<u64>>> {
    let list = LibraryAttribute::open(dataset, c"DIMENSION_LIST")?;
    let dimensions = list.dims()?.as_deref().and_then(count).unwrap_or(0);
    if dimensions == 0 || dimensions > RANK_MOST || !is_of_references(&list)? {
        return Ok(Vec::new());
    }
    let none = || Sequence {
        len: 0,
        at: ptr::null(),
    };
    let room = std::iter::repeat_with(none)
        .take(dimensions as usize)
        .collect();
    // SAFETY: there is room for so many sequences, which is what libhdf5 puts there.
    let read = unsafe { ReadElements::of(&list, (&list.element, &list.space), room)? };
    // SAFETY: they have just been read, and are references to objects.
    let tokens = |list: &Sequence| unsafe { tokens(list) };
    Ok(read.elements.iter().map(tokens).collect())
}

/// Whether an attribute has sequences of addresses of objects.
fn is_of_references(list: &LibraryAttribute) -> Outcome<bool> {
    if list.class() != H5T_class_t::H5T_VLEN {
        return Ok(false);
    }
    let base = above(&list.element)?;
    // SAFETY: both handles are datatypes.
    Ok(unsafe { H5Tequal(base.id(), *H5T_STD_REF_OBJ) } > 0)
}

/// # Safety
/// libhdf5 has read references to objects there: each is an address.
unsafe fn tokens(list: &Sequence) -> Vec<u64> {
    if list.at.is_null() {
        return Vec::new();
    }
    let at = list.at.cast::<u64>();
    let one = |number: usize| {
        // SAFETY: there are more than `number`, as the caller says; they need not be aligned.
        unsafe { ptr::read_unaligned(at.add(number)) }
    };
    (0..list.len.min(SCALES_MOST)).map(one).collect()
}
