//! Attributes of groups and datasets: strings as text, everything else as JSON.
//!
//! What has no JSON (references) or is too long is named, not shown. Their values go
//! into `arrays.json` and to the formats that keep descriptors in attributes.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use hdf5_sys::h5::{H5_index_t, H5_iter_order_t, herr_t};
use hdf5_sys::h5a::{H5A_info_t, H5Aget_space, H5Aget_type, H5Aiterate2, H5Aopen, H5Aread};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{H5T_class_t, H5Tget_class, H5Tget_size, H5Treclaim};
use serde_json::Value as Json;

use super::identifier::{Identifier, Outcome, check};
use super::json::{JsonMaker, NoJson};
use super::space::{count, dims};
use super::text::{self, Elements, done};
use crate::container::hdf5::index::{AttributeEntry, AttributeValue};

/// Elements of one attribute that is a list.
const ELEMENTS_MOST: u64 = 65_536;
/// Bytes of one attribute that is a list.
const LIST_MOST: usize = 1 << 20;
/// Bytes of one attribute that is a single string: descriptors may be long.
const TEXT_MOST: usize = 16 << 20;
/// Attributes of one object; no writer comes near.
const COUNT_MOST: usize = 65_536;

/// The attributes of an object in the order of names, and what could not be read.
pub(super) fn all(of: &Identifier, unread: &mut dyn FnMut(&[u8], String)) -> Vec<AttributeEntry> {
    let mut names: Vec<CString> = Vec::new();
    let (by, order) = (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_INC);
    let (start, found) = (ptr::null_mut(), (&raw mut names).cast());
    // SAFETY: the handle is an object; the callback gets our `names`, which outlive the call.
    let listed = check(unsafe { H5Aiterate2(of.id(), by, order, start, Some(note), found) });
    if let Err(why) = listed {
        unread(b"", why);
    }
    names.sort();
    let mut attributes = Vec::with_capacity(names.len());
    for name in &names {
        match value(of, name) {
            Ok(value) => attributes.push(AttributeEntry {
                name: name.as_bytes().to_vec(),
                value,
            }),
            Err(why) => unread(name.as_bytes(), why),
        }
    }
    attributes
}

unsafe extern "C" fn note(
    _: hid_t,
    name: *const c_char,
    _: *const H5A_info_t,
    names: *mut c_void,
) -> herr_t {
    // SAFETY: `names` is the list of `all`.
    let names = unsafe { &mut *names.cast::<Vec<CString>>() };
    // SAFETY: libhdf5 passes a NUL-terminated name that lives through the call.
    names.push(unsafe { CStr::from_ptr(name) }.to_owned());
    herr_t::from(names.len() >= COUNT_MOST)
}

struct OpenedAttribute(Identifier);

impl Elements for OpenedAttribute {
    unsafe fn read(&self, memory: &Identifier, into: *mut c_void) -> Outcome<()> {
        // SAFETY: the caller has room for all elements of this type.
        done(unsafe { H5Aread(self.0.id(), memory.id(), into) })
    }
}

fn value(of: &Identifier, name: &CStr) -> Outcome<AttributeValue> {
    // SAFETY: the handle is an object and the name is NUL-terminated.
    let opened = OpenedAttribute(Identifier::new(unsafe {
        H5Aopen(of.id(), name.as_ptr(), H5P_DEFAULT)
    })?);
    // SAFETY: the handle is an attribute.
    let element = Identifier::new(unsafe { H5Aget_type(opened.0.id()) })?;
    // SAFETY: as above.
    let space = Identifier::new(unsafe { H5Aget_space(opened.0.id()) })?;
    let Some(dims) = dims(&space)? else {
        return Ok(AttributeValue::Json("null".into()));
    };
    let elements = count(&dims).unwrap_or(u64::MAX);
    if elements > ELEMENTS_MOST {
        return Ok(AttributeValue::Omitted(format!("{elements} elements")));
    }
    let reading = Reading {
        opened: &opened,
        element: &element,
        space: &space,
        dims: &dims,
        elements: elements as usize,
    };
    // SAFETY: the handle is a datatype.
    match unsafe { H5Tget_class(element.id()) } {
        H5T_class_t::H5T_STRING => reading.strings(),
        _ => reading.others(),
    }
}

struct Reading<'a> {
    opened: &'a OpenedAttribute,
    element: &'a Identifier,
    space: &'a Identifier,
    dims: &'a [u64],
    elements: usize,
}

impl Reading<'_> {
    fn strings(&self) -> Outcome<AttributeValue> {
        let single = self.elements == 1 && self.dims.len() <= 1;
        let most = if single { TEXT_MOST } else { LIST_MOST };
        let strings = text::read(self.opened, self.element, self.space, self.elements, most)?;
        let Some(mut strings) = strings else {
            return Ok(AttributeValue::Omitted(format!(
                "more than {} MiB",
                most >> 20
            )));
        };
        if single {
            return Ok(AttributeValue::Text(strings.pop().unwrap_or_default()));
        }
        let strings = strings.iter();
        let values = strings.map(|s| Json::from(String::from_utf8_lossy(s).into_owned()));
        Ok(json(self.dims, values.collect()))
    }

    fn others(&self) -> Outcome<AttributeValue> {
        // SAFETY: the handle is a datatype.
        let size = unsafe { H5Tget_size(self.element.id()) };
        let bytes = size.checked_mul(self.elements).filter(|n| *n <= LIST_MOST);
        let Some(bytes) = bytes else {
            let most = LIST_MOST >> 20;
            return Ok(AttributeValue::Omitted(format!("more than {most} MiB")));
        };
        let mut values = ReadValues {
            bytes: vec![0; bytes],
            of: self,
        };
        if bytes > 0 {
            // SAFETY: there is room for all elements of this type.
            unsafe {
                self.opened
                    .read(self.element, values.bytes.as_mut_ptr().cast())?
            };
        }
        let (of, count) = (self.element, self.elements);
        // SAFETY: they have just been read, or there are none.
        match unsafe { JsonMaker::new().values(of, &values.bytes, count, 1) } {
            Ok(made) => Ok(json(self.dims, made)),
            Err(NoJson::Omitted(why)) => Ok(AttributeValue::Omitted(why)),
            Err(NoJson::Refused(why)) => Err(why),
        }
    }
}

/// Values as libhdf5 reads them; what it allocated for them is given back when they are dropped.
struct ReadValues<'a> {
    bytes: Vec<u8>,
    of: &'a Reading<'a>,
}

impl Drop for ReadValues<'_> {
    fn drop(&mut self) {
        let (element, space) = (self.of.element.id(), self.of.space.id());
        let at = self.bytes.as_mut_ptr().cast();
        // SAFETY: these are values of this type and space, read or zeros.
        unsafe { H5Treclaim(element, space, H5P_DEFAULT, at) };
    }
}

/// Values in C order as lists within lists.
fn json(dims: &[u64], values: Vec<Json>) -> AttributeValue {
    fn nest(dims: &[u64], values: &mut dyn Iterator<Item = Json>) -> Json {
        match dims.split_first() {
            None => values.next().unwrap_or_default(),
            Some((&len, rest)) => (0..len).map(|_| nest(rest, values)).collect(),
        }
    }
    // Empty lists within endless lists say nothing and cost much.
    if values.is_empty() {
        return AttributeValue::Json("[]".into());
    }
    AttributeValue::Json(nest(dims, &mut values.into_iter()).to_string())
}
