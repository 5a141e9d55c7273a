//! Single strings, however they are stored: of variable or fixed length, with any padding.
//!
//! Used for attributes (the descriptors of Binsparse among them) and for descriptors in datasets.

use std::ffi::{CStr, c_char};
use std::ptr;

use hdf5_sys::h5::H5free_memory;
use hdf5_sys::h5p::H5Pget_fill_value;
use hdf5_sys::h5t::{H5T_str_t, H5Tget_size, H5Tget_strpad};

use super::elements::{Elements, ReadElements};
use super::identifier::{Identifier, Outcome, check};
use super::types::is_variable;
use crate::container::hdf5::index::details::ValueFidelity;

/// Strings, and whether they tell what is stored.
pub(super) struct ReadTexts {
    pub(super) texts: Vec<Vec<u8>>,
    pub(super) told: ValueFidelity,
}

/// Most bytes that are told beside a value that does not tell them.
pub(super) const STORED_MOST: usize = 64 << 10;

/// Bytes that their value does not tell.
pub(super) fn untold(stored: Vec<u8>) -> ValueFidelity {
    match stored.len() {
        0..=STORED_MOST => ValueFidelity::Not(stored),
        _ => ValueFidelity::Never(format!(
            "more than {} KiB that JSON does not tell exactly",
            STORED_MOST >> 10
        )),
    }
}

/// The strings of a value of `count` elements, at most `most` bytes together; none if there is
/// more.
pub(super) fn read(
    from: &dyn Elements,
    element: &Identifier,
    space: &Identifier,
    count: usize,
    most: usize,
) -> Outcome<Option<ReadTexts>> {
    if is_variable(element)? {
        variable(from, element, space, count, most)
    } else {
        fixed(from, element, count, most)
    }
}

fn fixed(
    from: &dyn Elements,
    element: &Identifier,
    count: usize,
    most: usize,
) -> Outcome<Option<ReadTexts>> {
    // SAFETY: the handle is a string type.
    let (size, pad) = unsafe { (H5Tget_size(element.id()), H5Tget_strpad(element.id())) };
    let Some(bytes) = size.checked_mul(count).filter(|n| *n <= most) else {
        return Ok(None);
    };
    let mut stored = vec![0; bytes];
    // SAFETY: there is room for `count` elements of the type's own size.
    unsafe { from.read(element, stored.as_mut_ptr().cast())? };
    let mut strings = stored.chunks_exact(size.max(1));
    let texts = strings.clone().map(|s| unpadded(s, pad).to_vec()).collect();
    let is_told = strings.all(|s| tells(unpadded(s, pad), s, pad));
    let told = match is_told {
        true => ValueFidelity::Exactly,
        false => untold(stored),
    };
    Ok(Some(ReadTexts { texts, told }))
}

/// Whether this text, padded, is what is stored.
pub(super) fn tells(text: &[u8], stored: &[u8], pad: H5T_str_t) -> bool {
    let padding = match pad {
        H5T_str_t::H5T_STR_SPACEPAD => b' ',
        _ => 0,
    };
    let behind = stored.get(text.len()..).unwrap_or_default();
    std::str::from_utf8(text).is_ok() && behind.iter().all(|&byte| byte == padding)
}

/// A string without its padding. Not every writer leaves room for a NUL.
pub(super) fn unpadded(stored: &[u8], pad: H5T_str_t) -> &[u8] {
    let end = stored.iter().position(|&b| b == 0).unwrap_or(stored.len());
    let text = &stored[..end];
    if pad == H5T_str_t::H5T_STR_SPACEPAD {
        return text.trim_ascii_end();
    }
    text
}

/// The fill value of a dataset of strings of variable length, by its list of properties.
pub(super) fn fill(properties: &Identifier, element: &Identifier) -> Outcome<Vec<u8>> {
    let mut text: *mut c_char = ptr::null_mut();
    let at = (&raw mut text).cast();
    // SAFETY: there is room for the pointer that an element of this type is.
    check(unsafe { H5Pget_fill_value(properties.id(), element.id(), at) })?;
    // The NetCDF library gives them the empty one, by no pointer.
    let fill = match text.is_null() {
        true => Vec::new(),
        // SAFETY: a text of the library ends with a NUL.
        false => unsafe { CStr::from_ptr(text) }.to_bytes().to_vec(),
    };
    // SAFETY: the library has made it, and nobody else has it; it takes null, too.
    check(unsafe { H5free_memory(text.cast()) })?;
    Ok(fill)
}

fn variable(
    from: &dyn Elements,
    element: &Identifier,
    space: &Identifier,
    count: usize,
    most: usize,
) -> Outcome<Option<ReadTexts>> {
    if count > most {
        return Ok(None);
    }
    // SAFETY: there is room for `count` pointers, which is what elements of this type are in
    // memory.
    let lent = unsafe {
        ReadElements::of(
            from,
            (element, space),
            vec![ptr::null_mut::<c_char>(); count],
        )?
    };
    let mut left = most;
    let mut strings = Vec::with_capacity(count);
    for &at in &lent.elements {
        let text: &[u8] = if at.is_null() {
            b""
        } else {
            // SAFETY: libhdf5 sets pointers to NUL-terminated strings.
            unsafe { CStr::from_ptr(at) }.to_bytes()
        };
        let Some(rest) = left.checked_sub(text.len()) else {
            return Ok(None);
        };
        left = rest;
        strings.push(text.to_vec());
    }
    let told = match strings.iter().all(|text| std::str::from_utf8(text).is_ok()) {
        true => ValueFidelity::Exactly,
        // Each ends with a NUL.
        false => {
            let ended = strings
                .iter()
                .flat_map(|text| [&text[..], &b"\0"[..]].concat());
            untold(ended.collect())
        }
    };
    Ok(Some(ReadTexts {
        texts: strings,
        told,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_goes_and_text_without_room_for_a_nul_stays() {
        let nul = H5T_str_t::H5T_STR_NULLTERM;
        assert_eq!(unpadded(b"abc", nul), b"abc");
        assert_eq!(unpadded(b"ab\0\0", nul), b"ab");
        assert_eq!(unpadded(b"ab\0c", H5T_str_t::H5T_STR_NULLPAD), b"ab");
        assert_eq!(unpadded(b"ab  ", H5T_str_t::H5T_STR_SPACEPAD), b"ab");
        assert_eq!(unpadded(b"ab  ", nul), b"ab  ");
    }
}
