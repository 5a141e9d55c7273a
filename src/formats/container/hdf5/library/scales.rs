//! Which dimension scales a dataset's dimensions have: the references in its `DIMENSION_LIST`.
//!
//! Nothing is followed; a list of any other kind than the HDF5 library makes says nothing. Used by
//! `walk`.

use std::ptr;

use hdf5_sys::h5a::{H5Aget_space, H5Aget_type, H5Aopen, H5Aread};
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{H5T_STD_REF_OBJ, H5T_class_t, H5Tequal, H5Tget_class, H5Treclaim};

use super::identifier::{Identifier, Outcome, check};
use super::json::Sequence;
use super::space::{count, dims};
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
    let name = c"DIMENSION_LIST".as_ptr();
    // SAFETY: the handle is a dataset and the name is NUL-terminated.
    let list = Identifier::new(unsafe { H5Aopen(dataset.id(), name, H5P_DEFAULT) })?;
    // SAFETY: the handle is an attribute.
    let element = Identifier::new(unsafe { H5Aget_type(list.id()) })?;
    // SAFETY: as above.
    let space = Identifier::new(unsafe { H5Aget_space(list.id()) })?;
    let dimensions = dims(&space)?.as_deref().and_then(count).unwrap_or(0);
    if dimensions == 0 || dimensions > RANK_MOST || !is_of_references(&element)? {
        return Ok(Vec::new());
    }
    let mut lists = ReadLists {
        lists: Vec::new(),
        element: &element,
        space: &space,
    };
    let none = || Sequence {
        len: 0,
        at: ptr::null(),
    };
    lists.lists.resize_with(dimensions as usize, none);
    let into = lists.lists.as_mut_ptr().cast();
    // SAFETY: there is room for so many sequences, which is what libhdf5 puts there.
    check(unsafe { H5Aread(list.id(), element.id(), into) })?;
    // SAFETY: they have just been read, and are references to objects.
    Ok(lists
        .lists
        .iter()
        .map(|list| unsafe { tokens(list) })
        .collect())
}

/// Whether a type is of sequences of addresses of objects.
fn is_of_references(element: &Identifier) -> Outcome<bool> {
    // SAFETY: the handle is a datatype.
    if unsafe { H5Tget_class(element.id()) } != H5T_class_t::H5T_VLEN {
        return Ok(false);
    }
    let base = above(element)?;
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

/// Lists as libhdf5 reads them; what it allocated for them is given back when they are dropped.
struct ReadLists<'a> {
    lists: Vec<Sequence>,
    element: &'a Identifier,
    space: &'a Identifier,
}

impl Drop for ReadLists<'_> {
    fn drop(&mut self) {
        let at = self.lists.as_mut_ptr().cast();
        // SAFETY: these are values of this type and space, read or empty.
        unsafe { H5Treclaim(self.element.id(), self.space.id(), H5P_DEFAULT, at) };
    }
}
