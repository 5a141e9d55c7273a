//! Another value for an attribute that is there: one string, or whole numbers.
//!
//! The attribute keeps its type and space. A string of fixed length that has not the room is
//! deleted and made anew, with the same character set, and the same padding unless that hides its
//! end: it is the last of its object's attributes then, where these have an order. Used by
//! `editing`.

use std::ffi::{CStr, CString, c_void};

use hdf5_sys::h5a::{H5Adelete, H5Aget_create_plist, H5Awrite};
use hdf5_sys::h5t::{
    H5T_NATIVE_ULLONG, H5T_class_t, H5T_str_t, H5Tcopy, H5Tget_size, H5Tget_strpad, H5Tset_size,
    H5Tset_strpad,
};

use super::elements::{Elements, LibraryAttribute, create_attribute};
use super::identifier::{Identifier, Outcome, check};
use super::space::count;
use super::text::unpadded;
use super::types::is_variable;
use crate::container::hdf5::edit::NewValue;

/// Largest string of fixed length whose content is looked at, in bytes.
const FIXED_MOST: usize = 16 << 20;

/// Gives the attribute of this name another value.
pub(super) fn put(object: &Identifier, name: &CStr, value: &NewValue) -> Outcome<()> {
    let of = LibraryAttribute::open(object, name)?;
    let attribute = StoredAttribute {
        count: of.dims()?.as_deref().and_then(count).unwrap_or(0),
        of,
    };
    match value {
        NewValue::Text(text) => attribute.put_text(object, name, text),
        NewValue::Numbers(numbers) => attribute.put_numbers(numbers),
    }
}

struct StoredAttribute {
    of: LibraryAttribute,
    /// Of elements.
    count: u64,
}

impl StoredAttribute {
    fn put_numbers(&self, numbers: &[u64]) -> Outcome<()> {
        if self.of.class() != H5T_class_t::H5T_INTEGER || self.count != numbers.len() as u64 {
            return Err("the attribute has not as many whole numbers".into());
        }
        // SAFETY: there are as many numbers as the attribute has elements.
        unsafe { write(&self.of.opened, *H5T_NATIVE_ULLONG, numbers.as_ptr().cast()) }
    }

    fn put_text(&self, object: &Identifier, name: &CStr, text: &[u8]) -> Outcome<()> {
        if self.of.class() != H5T_class_t::H5T_STRING || self.count != 1 {
            return Err("the attribute is not one string".into());
        }
        if is_variable(&self.of.element)? {
            let text = CString::new(text).map_err(|e| e.to_string())?;
            let at = [text.as_ptr()];
            // SAFETY: the one element is a pointer to a NUL-terminated string.
            return unsafe { write(&self.of.opened, self.of.element.id(), at.as_ptr().cast()) };
        }
        // SAFETY: the handle is a string type.
        let (size, padding) = unsafe {
            (
                H5Tget_size(self.of.element.id()),
                H5Tget_strpad(self.of.element.id()),
            )
        };
        let needed = text.len().max(1) + usize::from(self.is_terminated(size)?);
        // What would be taken for padding.
        let is_cut = unpadded(text, padding) != text;
        if needed <= size && !is_cut {
            return put_fixed(&self.of.opened, &self.of.element, size, text);
        }
        // SAFETY: the handle is a datatype.
        let longer = Identifier::new(unsafe { H5Tcopy(self.of.element.id()) })?;
        // SAFETY: the type is a string, and ours.
        check(unsafe { H5Tset_size(longer.id(), needed) })?;
        if is_cut {
            // SAFETY: as above.
            check(unsafe { H5Tset_strpad(longer.id(), H5T_str_t::H5T_STR_NULLPAD) })?;
        }
        let made = self.make_anew(object, name, &longer)?;
        put_fixed(&made, &longer, needed, text)
    }

    /// Whether its string ends with a NUL: not every writer leaves room for one, whatever the type
    /// says.
    fn is_terminated(&self, size: usize) -> Outcome<bool> {
        // SAFETY: the handle is a string type.
        let padding = unsafe { H5Tget_strpad(self.of.element.id()) };
        if padding != H5T_str_t::H5T_STR_NULLTERM || size > FIXED_MOST {
            return Ok(false);
        }
        let mut stored = vec![0u8; size];
        // SAFETY: there is room for the one element of this type.
        unsafe { self.of.read(&self.of.element, stored.as_mut_ptr().cast())? };
        Ok(stored.contains(&0))
    }

    fn make_anew(
        &self,
        object: &Identifier,
        name: &CStr,
        element: &Identifier,
    ) -> Outcome<Identifier> {
        // SAFETY: the handle is an attribute.
        let created = Identifier::new(unsafe { H5Aget_create_plist(self.of.opened.id()) })?;
        // SAFETY: the handle is an object and the name is NUL-terminated.
        check(unsafe { H5Adelete(object.id(), name.as_ptr()) })?;
        create_attribute((object, name), (element, &self.of.space), &created)
    }
}

/// A text that fits into `size` bytes, with the padding of its type behind it.
fn put_fixed(to: &Identifier, element: &Identifier, size: usize, text: &[u8]) -> Outcome<()> {
    // SAFETY: the handle is a string type.
    let padding = match unsafe { H5Tget_strpad(element.id()) } {
        H5T_str_t::H5T_STR_SPACEPAD => b' ',
        _ => 0,
    };
    let mut stored = text.to_vec();
    stored.resize(size, padding);
    // SAFETY: there are as many bytes as the one element has.
    unsafe { write(to, element.id(), stored.as_ptr().cast()) }
}

/// # Safety
/// At `from` are all elements of the attribute, of type `memory`.
unsafe fn write(to: &Identifier, memory: i64, from: *const c_void) -> Outcome<()> {
    // SAFETY: as the caller says.
    check(unsafe { H5Awrite(to.id(), memory, from) }).map(|_| ())
}
