//! Values of any type as JSON: how attributes are shown.
//!
//! Values come in memory as the file has them (libhdf5 reads them without conversion, but for
//! strings and sequences of variable length, which it puts behind pointers). Numbers are converted
//! by libhdf5, whatever their width, byte order and layout. Used by `attribute`.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{
    H5T_NATIVE_B64, H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT, H5T_NATIVE_LLONG, H5T_NATIVE_ULLONG,
    H5T_class_t, H5T_sign_t, H5Tconvert, H5Tget_class, H5Tget_member_offset, H5Tget_member_type,
    H5Tget_sign, H5Tget_strpad,
};
use serde_json::{Map, Number, Value as Json};

use super::identifier::{Identifier, Outcome, check};
use super::text::{tells, unpadded};
use super::types::{self, above, array_dims, describe, is_variable, member_name, members};
use crate::container::stored::TYPE_DEPTH_MOST;

/// Values in one attribute, all levels together.
const VALUES_MOST: usize = 65_536;
/// Bytes of text in one attribute that is more than a single string.
const TEXT_MOST: usize = 1 << 20;

/// What libhdf5 puts in memory for a sequence of variable length.
#[repr(C)]
pub(super) struct Sequence {
    pub(super) len: usize,
    pub(super) at: *const u8,
}

/// Makes values of one attribute, within bounds.
pub(super) struct JsonMaker {
    values_left: usize,
    text_left: usize,
    /// What has been made tells the stored bytes.
    pub(super) is_exact: bool,
}

/// Why there is no JSON.
pub(super) enum NoJson {
    /// Too long, or of a type that has none.
    Omitted(String),
    /// The library refused.
    Refused(String),
}

impl From<String> for NoJson {
    fn from(why: String) -> NoJson {
        NoJson::Refused(why)
    }
}

type Made = Result<Vec<Json>, NoJson>;

impl JsonMaker {
    pub(super) fn new() -> JsonMaker {
        JsonMaker {
            values_left: VALUES_MOST,
            text_left: TEXT_MOST,
            is_exact: true,
        }
    }

    /// The `count` values of type `of` in `bytes`.
    ///
    /// # Safety
    /// libhdf5 has read values of this very type there, or they are a part of such: pointers among
    /// them lead where they should.
    pub(super) unsafe fn values(
        &mut self,
        of: &Identifier,
        bytes: &[u8],
        count: usize,
        depth: u32,
    ) -> Made {
        if depth >= TYPE_DEPTH_MOST {
            return Err(omitted("types nested too deeply"));
        }
        let left = self.values_left.checked_sub(count);
        self.values_left = left.ok_or_else(|| omitted("too many values"))?;
        // SAFETY: the handle is a datatype.
        let class = unsafe { H5Tget_class(of.id()) };
        match class {
            H5T_class_t::H5T_INTEGER => {
                self.is_exact &= size(of) <= 8;
                Ok(integers(of, bytes, count)?)
            }
            H5T_class_t::H5T_FLOAT => {
                let made = floats(of, bytes, count)?;
                let is_named = describe(of)?.name().is_some();
                // There are many, and one spelling.
                let has_nan = made.iter().any(|value| value.as_str() == Some("NaN"));
                self.is_exact &= is_named && size(of) <= 8 && !has_nan;
                Ok(made)
            }
            // libhdf5 converts bit fields to nothing but each other.
            H5T_class_t::H5T_BITFIELD => Ok(numbers::<u64>(of, *H5T_NATIVE_B64, bytes, count)?),
            H5T_class_t::H5T_ENUM => {
                let made = enumerated(of, bytes, count)?;
                // A truth value may be any byte.
                let is_boolean = made.iter().any(Json::is_boolean);
                self.is_exact &= !is_boolean || bytes.iter().all(|byte| *byte <= 1);
                Ok(made)
            }
            H5T_class_t::H5T_COMPLEX => {
                let part = above(of)?;
                // SAFETY: a complex number is two numbers behind each other.
                let parts = unsafe { self.values(&part, bytes, 2 * count, depth + 1)? };
                Ok(nested(&[2], parts))
            }
            H5T_class_t::H5T_OPAQUE => Ok(bytes.chunks(size(of)).map(hexadecimal).collect()),
            // SAFETY: as the caller says.
            H5T_class_t::H5T_STRING => unsafe { self.strings(of, bytes) },
            // SAFETY: as the caller says.
            H5T_class_t::H5T_COMPOUND => unsafe { self.compounds(of, bytes, count, depth) },
            // SAFETY: as the caller says.
            H5T_class_t::H5T_ARRAY => unsafe { self.arrays(of, bytes, count, depth) },
            // SAFETY: as the caller says.
            H5T_class_t::H5T_VLEN => unsafe { self.sequences(of, bytes, depth) },
            H5T_class_t::H5T_REFERENCE => Err(omitted("reference")),
            H5T_class_t::H5T_TIME => Err(omitted("time")),
            H5T_class_t::H5T_NO_CLASS | H5T_class_t::H5T_NCLASSES => {
                Err(omitted("a type that is not known"))
            }
        }
    }

    /// # Safety
    /// As of [`JsonMaker::values`].
    unsafe fn strings(&mut self, of: &Identifier, bytes: &[u8]) -> Made {
        let is_variable = is_variable(of)?;
        // SAFETY: the handle is a string type.
        let padding = unsafe { H5Tget_strpad(of.id()) };
        let values = bytes.chunks_exact(size(of)).map(|stored| {
            let text = match is_variable {
                // SAFETY: the caller says that the pointers lead to strings.
                true => unsafe { pointed(stored) },
                false => unpadded(stored, padding),
            };
            let left = self.text_left.checked_sub(text.len());
            self.text_left = left.ok_or_else(|| omitted("too much text"))?;
            self.is_exact &= match is_variable {
                true => std::str::from_utf8(text).is_ok(),
                false => tells(text, stored, padding),
            };
            Ok(Json::from(String::from_utf8_lossy(text).into_owned()))
        });
        values.collect()
    }

    /// Objects; complex numbers as they were stored before HDF5 2.0 are pairs, like those of today.
    ///
    /// # Safety
    /// As of [`JsonMaker::values`].
    unsafe fn compounds(
        &mut self,
        of: &Identifier,
        bytes: &[u8],
        count: usize,
        depth: u32,
    ) -> Made {
        let mut made = vec![Map::new(); count];
        let whole = size(of);
        for at in 0..members(of)? {
            // SAFETY: the handle is a compound type with more than `at` members.
            let member = Identifier::new(unsafe { H5Tget_member_type(of.id(), at) })?;
            // SAFETY: as above.
            let offset = unsafe { H5Tget_member_offset(of.id(), at) };
            let end = offset.saturating_add(size(&member));
            let stored = bytes.chunks_exact(whole);
            let parts = stored.map(|one| one.get(offset..end).unwrap_or_default());
            let gathered: Vec<u8> = parts.flatten().copied().collect();
            // SAFETY: these are the members of values as the caller says.
            let values = unsafe { self.values(&member, &gathered, count, depth + 1)? };
            let name = member_name(of, at)?;
            for (object, value) in made.iter_mut().zip(values) {
                object.insert(name.clone(), value);
            }
        }
        let shown = |object: Map<String, Json>| match is_complex(&object) {
            true => object.into_iter().map(|(_, value)| value).collect(),
            false => Json::Object(object),
        };
        Ok(made.into_iter().map(shown).collect())
    }

    /// # Safety
    /// As of [`JsonMaker::values`].
    unsafe fn arrays(&mut self, of: &Identifier, bytes: &[u8], count: usize, depth: u32) -> Made {
        let dims = array_dims(of)?;
        if dims.contains(&0) {
            return Err(omitted("an empty array"));
        }
        let element = above(of)?;
        let all = bytes.len() / size(&element);
        // SAFETY: an array is its elements behind each other.
        let values = unsafe { self.values(&element, bytes, all, depth + 1)? };
        let mut values = nested(&dims, values);
        values.truncate(count);
        Ok(values)
    }

    /// # Safety
    /// As of [`JsonMaker::values`].
    unsafe fn sequences(&mut self, of: &Identifier, bytes: &[u8], depth: u32) -> Made {
        let element = above(of)?;
        let sequences = bytes.chunks_exact(size_of::<Sequence>()).map(|stored| {
            // SAFETY: libhdf5 puts this there for every value; it need not be aligned.
            let found = unsafe { ptr::read_unaligned(stored.as_ptr().cast::<Sequence>()) };
            if found.at.is_null() || found.len == 0 {
                return Ok(Json::Array(Vec::new()));
            }
            if found.len > self.values_left {
                return Err(omitted("too many values"));
            }
            let bytes = found.len.saturating_mul(size(&element));
            // SAFETY: libhdf5 has so many elements there.
            let stored = unsafe { std::slice::from_raw_parts(found.at, bytes) };
            // SAFETY: they are of this type.
            let values = unsafe { self.values(&element, stored, found.len, depth + 1)? };
            Ok(Json::Array(values))
        });
        sequences.collect()
    }
}

/// Whether an object is a complex number, as datasets of it are.
fn is_complex(object: &Map<String, Json>) -> bool {
    let names: Vec<&str> = object.keys().map(String::as_str).collect();
    let numbers = object
        .values()
        .all(|value| value.is_f64() || value.is_string());
    numbers && matches!(names[..], ["r", "i"] | ["real", "imag"])
}

fn omitted(why: &str) -> NoJson {
    NoJson::Omitted(why.into())
}

/// Bytes of one value; no type has none.
fn size(of: &Identifier) -> usize {
    types::size(of).max(1)
}

/// The string that a pointer stored in these bytes leads to.
///
/// # Safety
/// It is null or leads to a NUL-terminated string that outlives the bytes.
unsafe fn pointed(stored: &[u8]) -> &[u8] {
    // SAFETY: `stored` has the bytes of a pointer, which need not be aligned.
    let at = unsafe { ptr::read_unaligned(stored.as_ptr().cast::<*const c_char>()) };
    if at.is_null() {
        return b"";
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(at) }.to_bytes()
}

/// Values in C order as lists within lists of these dimensions, none of which is 0.
pub(super) fn nested(dims: &[u64], values: Vec<Json>) -> Vec<Json> {
    dims.iter().rev().fold(values, |values, &len| {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut values = values.into_iter().peekable();
        let mut lists = Vec::new();
        while values.peek().is_some() {
            lists.push(values.by_ref().take(len).collect());
        }
        lists
    })
}

fn hexadecimal(bytes: &[u8]) -> Json {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Json::String(digits.collect())
}

pub(super) fn integers(of: &Identifier, bytes: &[u8], count: usize) -> Outcome<Vec<Json>> {
    // SAFETY: the handle is an integer type.
    match unsafe { H5Tget_sign(of.id()) } {
        H5T_sign_t::H5T_SGN_NONE => numbers::<u64>(of, *H5T_NATIVE_ULLONG, bytes, count),
        _ => numbers::<i64>(of, *H5T_NATIVE_LLONG, bytes, count),
    }
}

/// The values in a type of the machine; `T` is that type.
fn numbers<T: Copy + Default + Into<Json>>(
    of: &Identifier,
    native: hid_t,
    bytes: &[u8],
    count: usize,
) -> Outcome<Vec<Json>> {
    let read = converted::<T>(of, native, bytes, count)?;
    Ok(read.into_iter().map(T::into).collect())
}

/// The shortest digits that give the same float again: a 32-bit one has its own.
fn floats(of: &Identifier, bytes: &[u8], count: usize) -> Outcome<Vec<Json>> {
    if size(of) <= 4 {
        let read = converted::<f32>(of, *H5T_NATIVE_FLOAT, bytes, count)?;
        let shortest = |value: f32| value.to_string().parse().unwrap_or(f64::from(value));
        return Ok(read.into_iter().map(shortest).map(double).collect());
    }
    let read = converted::<f64>(of, *H5T_NATIVE_DOUBLE, bytes, count)?;
    Ok(read.into_iter().map(double).collect())
}

/// As their numbers; h5py's booleans as such.
fn enumerated(of: &Identifier, bytes: &[u8], count: usize) -> Outcome<Vec<Json>> {
    let numbers = integers(&above(of)?, bytes, count)?;
    Ok(match describe(of)?.is_boolean() {
        true => numbers.into_iter().map(|n| Json::Bool(n != 0)).collect(),
        false => numbers,
    })
}

/// JSON has no infinities and no NaN; they are spelled as strings.
fn double(value: f64) -> Json {
    match Number::from_f64(value) {
        Some(number) => Json::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// The values in a type of the machine; `T` is that type.
fn converted<T: Copy + Default>(
    from: &Identifier,
    native: hid_t,
    bytes: &[u8],
    count: usize,
) -> Outcome<Vec<T>> {
    let wide = size(from).max(size_of::<T>());
    let mut room = vec![T::default(); (wide * count).div_ceil(size_of::<T>())];
    let stored = bytes.len().min(room.len() * size_of::<T>());
    let at = room.as_mut_ptr().cast::<c_void>();
    // SAFETY: the room has at least so many bytes.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), stored) };
    let none = ptr::null_mut();
    // SAFETY: the values are converted in place, where either type fits `count` times.
    check(unsafe { H5Tconvert(from.id(), native, count, at, none, H5P_DEFAULT) })?;
    room.truncate(count);
    Ok(room)
}
