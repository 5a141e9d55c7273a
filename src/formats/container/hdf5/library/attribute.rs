//! Attributes of groups and datasets: strings as text, everything else as JSON.
//!
//! What has no JSON (references) or is too long is named, not shown. Their values go
//! into `arrays.json` and to the formats that keep descriptors in attributes.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use hdf5_sys::h5::{H5_index_t, H5_iter_order_t, herr_t};
use hdf5_sys::h5a::{H5A_info_t, H5Aiterate2};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5t::H5T_class_t;
use serde_json::Value as Json;

use super::elements::{LibraryAttribute, ReadElements};
use super::identifier::{Identifier, Outcome, check};
use super::json::{JsonMaker, NoJson, nested};
use super::space::count;
use super::text::{self, ReadTexts};
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

/// The value, and how it is stored, where that is not obvious.
fn value(of: &Identifier, name: &CStr) -> Outcome<(AttributeValue, Option<AttributeStorage>)> {
    let opened = LibraryAttribute::open(of, name)?;
    let dims = opened.dims()?;
    let (value, told) = shown(&opened, dims.as_deref())?;
    if MACHINERY.contains(&name.to_bytes()) {
        return Ok((value, None));
    }
    let stored = AttributeStorage {
        element: types::described(&opened.element),
        committed: types::committed(&opened.element),
        dims,
        told,
    };
    let stored = (!is_obvious(&value, &stored)).then_some(stored);
    Ok((value, stored))
}

/// The value as it is shown, and whether that tells what is stored.
fn shown(
    opened: &LibraryAttribute,
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
        dims,
        elements: elements as usize,
    };
    match opened.class() {
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
    opened: &'a LibraryAttribute,
    dims: &'a [u64],
    elements: usize,
}

impl Reading<'_> {
    fn strings(&self) -> Outcome<(AttributeValue, ValueFidelity)> {
        let single = self.elements == 1 && self.dims.len() <= 1;
        let most = if single { TEXT_MOST } else { LIST_MOST };
        let LibraryAttribute { element, space, .. } = self.opened;
        let read = text::read(self.opened, element, space, self.elements, most)?;
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
        let (of, count) = (&self.opened.element, self.elements);
        let bytes = types::size(of).checked_mul(count);
        let bytes = bytes.filter(|n| *n <= LIST_MOST);
        let Some(bytes) = bytes else {
            return Ok(omitted(format!("more than {} MiB", LIST_MOST >> 20)));
        };
        let room = vec![0; bytes];
        // SAFETY: there is room for all elements of this type.
        let read = unsafe { ReadElements::of(self.opened, (of, &self.opened.space), room)? };
        let values = &read.elements;
        let mut maker = JsonMaker::new();
        // SAFETY: they have just been read, or there are none.
        let made = unsafe { maker.values(of, values, count, 1) };
        match made {
            Ok(made) if maker.is_exact => Ok((json(self.dims, made), ValueFidelity::Exactly)),
            Ok(made) => Ok((json(self.dims, made), untold(of, values)?)),
            Err(NoJson::Omitted(why)) => Ok(omitted(why)),
            Err(NoJson::Refused(why)) => Err(why),
        }
    }
}

/// What is stored, where JSON does not tell it: only what does not lie elsewhere.
fn untold(element: &Identifier, stored: &[u8]) -> Outcome<ValueFidelity> {
    Ok(match describe(element)?.is_plain() {
        true => text::untold(stored.to_vec()),
        false => ValueFidelity::Never("values that JSON does not tell exactly".into()),
    })
}

/// Values in C order as lists within lists.
fn json(dims: &[u64], values: Vec<Json>) -> AttributeValue {
    // Empty lists within endless lists say nothing and cost much.
    if values.is_empty() {
        return AttributeValue::Json("[]".into());
    }
    let shown = nested(dims, values).into_iter().next();
    AttributeValue::Json(shown.unwrap_or_default().to_string())
}
