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
use hdf5_sys::h5t::{H5T_class_t, H5Tget_class, H5Treclaim};
use serde_json::Value as Json;

use super::identifier::{Identifier, Outcome, check};
use super::json::{JsonMaker, NoJson};
use super::space::{count, dims};
use super::text::{self, Elements, ReadTexts, done};
use super::types::{self, describe};
use crate::container::hdf5::index::details::{AttributeStorage, MACHINERY, ValueFidelity};
use crate::container::hdf5::index::{AttributeEntry, AttributeValue};
use crate::container::stored::StoredType;

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
            Ok((value, stored)) => attributes.push(AttributeEntry {
                name: name.as_bytes().to_vec(),
                value,
                stored,
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

/// The value, and how it is stored, where that is not obvious.
fn value(of: &Identifier, name: &CStr) -> Outcome<(AttributeValue, Option<AttributeStorage>)> {
    // SAFETY: the handle is an object and the name is NUL-terminated.
    let opened = OpenedAttribute(Identifier::new(unsafe {
        H5Aopen(of.id(), name.as_ptr(), H5P_DEFAULT)
    })?);
    // SAFETY: the handle is an attribute.
    let element = Identifier::new(unsafe { H5Aget_type(opened.0.id()) })?;
    // SAFETY: as above.
    let space = Identifier::new(unsafe { H5Aget_space(opened.0.id()) })?;
    let dims = dims(&space)?;
    let (value, told) = shown(&opened, (&element, &space), dims.as_deref())?;
    if MACHINERY.contains(&name.to_bytes()) {
        return Ok((value, None));
    }
    let stored = AttributeStorage {
        element: types::described(&element),
        committed: types::committed(&element),
        dims,
        told,
    };
    let stored = (!is_obvious(&value, &stored)).then_some(stored);
    Ok((value, stored))
}

/// The value as it is shown, and whether that tells what is stored.
fn shown(
    opened: &OpenedAttribute,
    (element, space): (&Identifier, &Identifier),
    dims: Option<&[u64]>,
) -> Outcome<(AttributeValue, ValueFidelity)> {
    let Some(dims) = dims else {
        let null = AttributeValue::Json("null".into());
        return Ok((null, ValueFidelity::Exactly));
    };
    let elements = count(dims).unwrap_or(u64::MAX);
    if elements > ELEMENTS_MOST {
        return Ok(omitted(format!("{elements} elements")));
    }
    let reading = Reading {
        opened,
        element,
        space,
        dims,
        elements: elements as usize,
    };
    // SAFETY: the handle is a datatype.
    match unsafe { H5Tget_class(element.id()) } {
        H5T_class_t::H5T_STRING => reading.strings(),
        _ => reading.others(),
    }
}

fn omitted(why: String) -> (AttributeValue, ValueFidelity) {
    (
        AttributeValue::Omitted(why.clone()),
        ValueFidelity::Never(why),
    )
}

/// Whether a value is stored as h5py would store it: then it says all. A list of one may be shown
/// as its only element.
fn is_obvious(value: &AttributeValue, stored: &AttributeStorage) -> bool {
    let Some(dims) = &stored.dims else {
        return false;
    };
    let is_plain = stored.told == ValueFidelity::Exactly && stored.committed.is_none();
    if !is_plain || dims[..] == [1] || dims.contains(&0) {
        return false;
    }
    let (of, name) = (&stored.element, stored.element.name());
    match (value, name.as_deref()) {
        (AttributeValue::Text(_), _) => *of == StoredType::TEXT,
        (AttributeValue::Json(_), None) => *of == StoredType::TEXT || *of == StoredType::boolean(),
        // Infinities are text.
        (AttributeValue::Json(text), Some("H5T_IEEE_F64LE")) => !text.contains('"'),
        (AttributeValue::Json(_), Some(name)) => name == "H5T_STD_I64LE",
        (AttributeValue::Omitted(_), _) => false,
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
    fn strings(&self) -> Outcome<(AttributeValue, ValueFidelity)> {
        let single = self.elements == 1 && self.dims.len() <= 1;
        let most = if single { TEXT_MOST } else { LIST_MOST };
        let read = text::read(self.opened, self.element, self.space, self.elements, most)?;
        let Some(ReadTexts { mut texts, told }) = read else {
            return Ok(omitted(format!("more than {} MiB", most >> 20)));
        };
        if single {
            let text = texts.pop().unwrap_or_default();
            return Ok((AttributeValue::Text(text), told));
        }
        let texts = texts.iter();
        let values = texts.map(|s| Json::from(String::from_utf8_lossy(s).into_owned()));
        Ok((json(self.dims, values.collect()), told))
    }

    fn others(&self) -> Outcome<(AttributeValue, ValueFidelity)> {
        let bytes = types::size(self.element).checked_mul(self.elements);
        let bytes = bytes.filter(|n| *n <= LIST_MOST);
        let Some(bytes) = bytes else {
            return Ok(omitted(format!("more than {} MiB", LIST_MOST >> 20)));
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
        let mut maker = JsonMaker::new();
        // SAFETY: they have just been read, or there are none.
        let made = unsafe { maker.values(of, &values.bytes, count, 1) };
        match made {
            Ok(made) if maker.is_exact => Ok((json(self.dims, made), ValueFidelity::Exactly)),
            Ok(made) => Ok((json(self.dims, made), values.untold()?)),
            Err(NoJson::Omitted(why)) => Ok(omitted(why)),
            Err(NoJson::Refused(why)) => Err(why),
        }
    }
}

/// Values as libhdf5 reads them; what it allocated for them is given back when they are dropped.
struct ReadValues<'a> {
    bytes: Vec<u8>,
    of: &'a Reading<'a>,
}

impl ReadValues<'_> {
    /// What is stored, where JSON does not tell it: only what does not lie elsewhere.
    fn untold(&self) -> Outcome<ValueFidelity> {
        Ok(match describe(self.of.element)?.is_plain() {
            true => text::untold(self.bytes.clone()),
            false => ValueFidelity::Never("values that JSON does not tell exactly".into()),
        })
    }
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
