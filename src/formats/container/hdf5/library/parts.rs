//! What a virtual dataset is made of: which parts of which datasets lie where in it. Nothing is
//! opened.

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

use super::identifier::{Identifier, Outcome, asked, check};
use crate::container::hdf5::index::{Stripe, UNLIMITED, VirtualLayout, VirtualPart};

/// Longest name that is passed on.
const NAME_MOST: usize = 4096;
/// Most names of other files that are passed on.
const FILES_MOST: usize = 16;
const PARTS_MOST: usize = 65_536;

type NameOf = unsafe extern "C" fn(hid_t, usize, *mut c_char, usize) -> isize;

/// `properties`: those that a virtual dataset of these dimensions was created with.
pub(super) fn describe(properties: &Identifier, dims: &[u64]) -> Outcome<VirtualLayout> {
    let count = asked(properties, 0, H5Pget_virtual_count)?;
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
    let elsewhere = files.iter().any(|file| file != b".");
    let mut ends = Vec::new();
    let parts = if elsewhere {
        Err("parts of other files are never followed".into())
    } else if count > PARTS_MOST {
        Err(format!("it has {count} parts"))
    } else {
        parts(properties, count, dims, &mut ends)
    };
    Ok(VirtualLayout {
        files,
        parts,
        open_ended: elsewhere && has_no_end(properties, count)?,
        ends,
    })
}

/// Whether any part goes on for as long as the dataset that it is made of.
fn has_no_end(properties: &Identifier, count: usize) -> Outcome<bool> {
    for at in 0..count.min(PARTS_MOST) {
        // SAFETY: the list has more than `at` parts.
        let here = Identifier::new(unsafe { H5Pget_virtual_vspace(properties.id(), at) })?;
        if let Ok(Some(stripes)) = selection(&here)
            && unlimited(&stripes).is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The dimension along which a selection has no end.
fn unlimited(stripes: &[Stripe]) -> Option<usize> {
    let endless = |stripe: &Stripe| stripe.count == UNLIMITED || stripe.block == UNLIMITED;
    stripes.iter().position(endless)
}

/// `ends`: see [`VirtualLayout`].
fn parts(
    properties: &Identifier,
    count: usize,
    dims: &[u64],
    ends: &mut Vec<Vec<u8>>,
) -> Outcome<Vec<VirtualPart>> {
    let mut parts = Vec::new();
    for at in 0..count {
        // SAFETY: the list has more than `at` parts.
        let here = Identifier::new(unsafe { H5Pget_virtual_vspace(properties.id(), at) })?;
        // SAFETY: as above.
        let there = Identifier::new(unsafe { H5Pget_virtual_srcspace(properties.id(), at) })?;
        let (here, there) = (selection(&here)?, selection(&there)?);
        let name = name(properties, at, H5Pget_virtual_dsetname)?;
        let most = PARTS_MOST - parts.len();
        match NumberedName::parse(&name) {
            NumberedName::One(dataset) => {
                if here.as_deref().and_then(unlimited).is_some() {
                    ends.push(dataset.clone());
                }
                parts.push(VirtualPart {
                    dataset,
                    here,
                    there,
                });
            }
            NumberedName::Many(pieces) => {
                ends.push(numbered(&pieces, here, there, dims, most, &mut parts)?);
            }
        }
        if parts.len() > PARTS_MOST {
            return Err(format!("it has more than {PARTS_MOST} parts"));
        }
    }
    Ok(parts)
}

/// Adds a part for each block of a selection without end: the first lies in the dataset numbered 0.
/// The name of the first dataset behind the end.
fn numbered(
    name: &[Vec<u8>],
    here: Option<Vec<Stripe>>,
    there: Option<Vec<Stripe>>,
    dims: &[u64],
    most: usize,
    parts: &mut Vec<VirtualPart>,
) -> Outcome<Vec<u8>> {
    let odd = || String::from("the names of its parts are numbered, but its selection has an end");
    let here = here.ok_or_else(odd)?;
    let axis = unlimited(&here).ok_or_else(odd)?;
    let (stripe, len) = match (here.get(axis), dims.get(axis)) {
        (Some(stripe), Some(len)) if stripe.count == UNLIMITED => (*stripe, *len),
        _ => return Err(odd()),
    };
    let blocks = len
        .saturating_sub(stripe.start)
        .div_ceil(stripe.stride.max(1));
    if usize::try_from(blocks).map_or(true, |blocks| blocks > most) {
        return Err(format!("it has {blocks} numbered parts"));
    }
    let named = |number: u64| name.join(number.to_string().as_bytes());
    for number in 0..blocks {
        let mut here = here.clone();
        here[axis] = Stripe {
            start: stripe.start + number * stripe.stride,
            count: 1,
            ..stripe
        };
        parts.push(VirtualPart {
            dataset: named(number),
            here: Some(here),
            there: there.clone(),
        });
    }
    Ok(named(blocks))
}

/// The name of a part's dataset: `%b` stands for the number of a block, `%%` for a percent sign.
#[derive(Debug, PartialEq)]
enum NumberedName {
    One(Vec<u8>),
    /// What stands before, between and behind the numbers.
    Many(Vec<Vec<u8>>),
}

impl NumberedName {
    fn parse(name: &[u8]) -> NumberedName {
        let (mut pieces, mut piece) = (Vec::new(), Vec::new());
        let mut rest = name.iter().copied().peekable();
        while let Some(byte) = rest.next() {
            match (byte, rest.peek()) {
                (b'%', Some(b'b')) => {
                    rest.next();
                    pieces.push(std::mem::take(&mut piece));
                }
                (b'%', Some(b'%')) => {
                    rest.next();
                    piece.push(b'%');
                }
                _ => piece.push(byte),
            }
        }
        if pieces.is_empty() {
            return NumberedName::One(piece);
        }
        pieces.push(piece);
        NumberedName::Many(pieces)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_percent_b() {
        let one = |name: &str| NumberedName::One(name.into());
        let many = |pieces: &[&str]| {
            NumberedName::Many(pieces.iter().map(|p| p.as_bytes().to_vec()).collect())
        };
        for (name, parsed) in [
            ("plain", one("plain")),
            ("100%%", one("100%")),
            ("a%", one("a%")),
            ("d-%b", many(&["d-", ""])),
            ("%b/%%%b", many(&["", "/%", ""])),
        ] {
            assert_eq!(NumberedName::parse(name.as_bytes()), parsed, "{name}");
        }
    }
}
