//! What a virtual dataset is made of: which parts of which datasets lie where in it. Nothing is opened.

use std::ffi::c_char;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{
    H5Pget_virtual_count, H5Pget_virtual_dsetname, H5Pget_virtual_filename,
    H5Pget_virtual_srcspace, H5Pget_virtual_vspace,
};
use hdf5_sys::h5s::{
    H5S_sel_type, H5Sget_regular_hyperslab, H5Sget_select_type, H5Sget_simple_extent_ndims,
    H5Sis_regular_hyperslab,
};

use super::identifier::{Identifier, Outcome, check};
use crate::container::hdf5::index::{Stripe, VirtualLayout, VirtualPart};

/// Longest name that is passed on.
const NAME_MOST: usize = 4096;
/// Most names of other files that are passed on.
const FILES_MOST: usize = 16;
const PARTS_MOST: usize = 65_536;

type NameOf = unsafe extern "C" fn(hid_t, usize, *mut c_char, usize) -> isize;

/// `properties`: those that a virtual dataset was created with.
pub(super) fn describe(properties: &Identifier) -> Outcome<VirtualLayout> {
    let mut count = 0;
    // SAFETY: the handle is a dataset creation property list of a virtual dataset.
    check(unsafe { H5Pget_virtual_count(properties.id(), &mut count) })?;
    let mut files: Vec<Vec<u8>> = Vec::new();
    for at in 0..count {
        let file = name(properties, at, H5Pget_virtual_filename)?;
        if !files.contains(&file) {
            files.push(file);
        }
        if files.len() >= FILES_MOST {
            break;
        }
    }
    let parts = if files.iter().any(|file| file != b".") {
        Err("parts of other files are never followed".into())
    } else if count > PARTS_MOST {
        Err(format!("it has {count} parts"))
    } else {
        (0..count).map(|at| part(properties, at)).collect()
    };
    Ok(VirtualLayout { files, parts })
}

fn part(properties: &Identifier, at: usize) -> Outcome<VirtualPart> {
    // SAFETY: the list has more than `at` parts.
    let here = Identifier::new(unsafe { H5Pget_virtual_vspace(properties.id(), at) })?;
    // SAFETY: as above.
    let there = Identifier::new(unsafe { H5Pget_virtual_srcspace(properties.id(), at) })?;
    let dataset = name(properties, at, H5Pget_virtual_dsetname)?;
    // libhdf5 puts numbers there and doubles other percent signs.
    if dataset.contains(&b'%') {
        return Err("the names of its parts are numbered".into());
    }
    Ok(VirtualPart {
        dataset,
        here: selection(&here)?,
        there: selection(&there)?,
    })
}

/// What a dataspace selects; none: everything.
fn selection(space: &Identifier) -> Outcome<Option<Vec<Stripe>>> {
    // SAFETY: the handle is a dataspace.
    match unsafe { H5Sget_select_type(space.id()) } {
        H5S_sel_type::H5S_SEL_ALL => return Ok(None),
        H5S_sel_type::H5S_SEL_HYPERSLABS => {}
        _ => return Err("a part is not made of hyperslabs".into()),
    }
    // SAFETY: as above.
    if check(unsafe { H5Sis_regular_hyperslab(space.id()) })? == 0 {
        return Err("a part is not regular".into());
    }
    // SAFETY: as above.
    let rank = check(unsafe { H5Sget_simple_extent_ndims(space.id()) })?;
    let mut numbers = [(); 4].map(|()| vec![0; rank]);
    let [start, stride, count, block] = numbers.each_mut().map(|of| of.as_mut_ptr());
    // SAFETY: there is room for every dimension.
    check(unsafe { H5Sget_regular_hyperslab(space.id(), start, stride, count, block) })?;
    let [start, stride, count, block] = &numbers;
    let stripes = (0..rank).map(|axis| Stripe {
        start: start[axis],
        stride: stride[axis],
        count: count[axis],
        block: block[axis],
    });
    Ok(Some(stripes.collect()))
}

fn name(properties: &Identifier, at: usize, of: NameOf) -> Outcome<Vec<u8>> {
    let mut name: Vec<u8> = vec![0; NAME_MOST];
    // SAFETY: there are more than `at` parts; the name fits or is cut.
    let len = unsafe { of(properties.id(), at, name.as_mut_ptr().cast(), NAME_MOST) };
    check(if len < 0 { -1 } else { 0 })?;
    if len as usize >= NAME_MOST {
        return Err("a part of a virtual dataset has too long a name".into());
    }
    name.truncate(len as usize);
    Ok(name)
}
