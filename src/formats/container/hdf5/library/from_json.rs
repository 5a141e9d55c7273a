//! Values of any type out of JSON, as `arrays.json` shows them: the way back of [`super::json`].
//!
//! Values are put together in memory as the file has them, but for strings and sequences of
//! variable length, which are pointers there. The library converts numbers; one that its type
//! cannot hold is refused. The text comes from a user: what it makes is bounded by what it is long,
//! times the size of an element. Used by [`super::editing`].

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{
    H5T_IEEE_F64LE, H5T_STD_B64LE, H5T_STD_I64LE, H5T_STD_U64LE, H5T_class_t, H5T_str_t,
    H5Tconvert, H5Tget_class, H5Tget_member_offset, H5Tget_member_type, H5Tget_strpad,
};
use serde_json::Value as Json;

use super::identifier::{Identifier, Outcome, check};
use super::space::count;
use super::types::{above, array_dims, is_variable, member_name, members, size};
use crate::container::hdf5::made::bytes_of;

/// Most bytes of the values of one attribute.
const BYTES_MOST: usize = 64 << 20;

/// Makes values, and keeps what they point to.
#[derive(Default)]
pub(super) struct ValueMaker {
    texts: Vec<CString>,
    lists: Vec<Vec<u8>>,
}

/// What libhdf5 takes from memory for a sequence of variable length.
#[repr(C)]
pub(super) struct GivenSequence {
    pub(super) len: usize,
    pub(super) at: *const u8,
}

impl ValueMaker {
    /// The values that lists within lists hold, as many as `dims` say; a scalar has no dimensions.
    /// A value by itself is a list of one, too.
    pub(super) fn values(
        &mut self,
        of: &Identifier,
        dims: &[u64],
        shown: &Json,
    ) -> Outcome<Vec<u8>> {
        let elements = count(dims).and_then(|n| usize::try_from(n).ok());
        let bytes = elements.and_then(|n| n.checked_mul(size(of)));
        let bytes = bytes.filter(|bytes| *bytes <= BYTES_MOST);
        let mut out = vec![0; bytes.ok_or("more values than can be made")?];
        let each = size(of).max(1);
        let mut places = out.chunks_exact_mut(each);
        let dims = match (shown, elements) {
            (Json::Array(_), _) => dims,
            (_, Some(1)) => &[],
            _ => dims,
        };
        self.nested(of, dims, shown, &mut places)?;
        match places.next() {
            None => Ok(out),
            Some(_) => Err("there are fewer values than the shape says".into()),
        }
    }

    /// Strings of variable length, each of which ends with a NUL.
    pub(super) fn texts(&mut self, dims: &[u64], stored: &[u8]) -> Outcome<Vec<u8>> {
        let texts: Vec<&[u8]> = stored.split_inclusive(|byte| *byte == 0).collect();
        if count(dims) != Some(texts.len() as u64) {
            return Err(format!("{} stored strings", texts.len()));
        }
        let mut out = vec![0; texts.len() * size_of::<*const c_char>()];
        for (text, place) in texts
            .iter()
            .zip(out.chunks_exact_mut(size_of::<*const c_char>()))
        {
            let text = CStr::from_bytes_with_nul(text).map_err(|e| e.to_string())?;
            let text = text.to_owned();
            put_pointer(text.as_ptr(), place);
            self.texts.push(text);
        }
        Ok(out)
    }

    fn nested(
        &mut self,
        of: &Identifier,
        dims: &[u64],
        shown: &Json,
        places: &mut std::slice::ChunksExactMut<'_, u8>,
    ) -> Outcome<()> {
        let Some((len, rest)) = dims.split_first() else {
            let place = places
                .next()
                .ok_or("there are more values than the shape says")?;
            return self.put(of, shown, place);
        };
        let list = shown.as_array().ok_or("a value is no list")?;
        if dims.contains(&0) {
            return Ok(());
        }
        if list.len() as u64 != *len {
            return Err(format!("a list of {} values instead of {len}", list.len()));
        }
        let mut list = list.iter();
        list.try_for_each(|one| self.nested(of, rest, one, places))
    }

    /// Puts one value into as many bytes as its type has.
    fn put(&mut self, of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
        // SAFETY: the handle is a datatype.
        match unsafe { H5Tget_class(of.id()) } {
            H5T_class_t::H5T_INTEGER => integer(of, shown, out),
            H5T_class_t::H5T_ENUM => integer(&above(of)?, shown, out),
            H5T_class_t::H5T_BITFIELD => {
                let bits = shown.as_u64().ok_or_else(|| unfit(shown))?;
                convert(*H5T_STD_B64LE, &bits.to_le_bytes(), of, out)
            }
            H5T_class_t::H5T_FLOAT => float(of, shown, out),
            H5T_class_t::H5T_COMPLEX => {
                let part = above(of)?;
                let parts = shown.as_array().map(Vec::as_slice);
                let Some([real, imaginary]) = parts else {
                    return Err(unfit(shown));
                };
                let (first, second) = out.split_at_mut(size(&part).min(out.len()));
                self.put(&part, real, first)?;
                self.put(&part, imaginary, second)
            }
            H5T_class_t::H5T_STRING => self.string(of, shown, out),
            H5T_class_t::H5T_OPAQUE => hexadecimal(shown, out),
            H5T_class_t::H5T_COMPOUND => self.compound(of, shown, out),
            H5T_class_t::H5T_ARRAY => self.array(of, shown, out),
            H5T_class_t::H5T_VLEN => self.sequence(of, shown, out),
            _ => Err("a value of a type that has none here".into()),
        }
    }

    fn string(&mut self, of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
        let text = shown.as_str().ok_or_else(|| unfit(shown))?;
        if is_variable(of)? {
            let text = CString::new(text).map_err(|e| e.to_string())?;
            put_pointer(text.as_ptr(), out);
            self.texts.push(text);
            return Ok(());
        }
        let room = out.get_mut(..text.len());
        let room = room.ok_or_else(|| format!("a text of {} bytes", text.len()))?;
        room.copy_from_slice(text.as_bytes());
        // SAFETY: the handle is a string type.
        if unsafe { H5Tget_strpad(of.id()) } == H5T_str_t::H5T_STR_SPACEPAD {
            out[text.len()..].fill(b' ');
        }
        Ok(())
    }

    /// Out of an object; a complex number as it was stored before HDF5 2.0 is a pair.
    fn compound(&mut self, of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
        for at in 0..members(of)? {
            // SAFETY: the handle is a compound type with more than `at` members.
            let member = Identifier::new(unsafe { H5Tget_member_type(of.id(), at) })?;
            // SAFETY: as above.
            let offset = unsafe { H5Tget_member_offset(of.id(), at) };
            let name = member_name(of, at)?;
            let value = match shown {
                Json::Array(pair) => pair.get(at as usize),
                shown => shown.get(&name),
            };
            let value = value.ok_or_else(|| format!("a value without its member {name}"))?;
            let place = out.get_mut(offset..offset.saturating_add(size(&member)));
            let place = place.ok_or("a member that lies outside of its compound")?;
            self.put(&member, value, place)?;
        }
        Ok(())
    }

    fn array(&mut self, of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
        let dims = array_dims(of)?;
        let element = above(of)?;
        let mut places = out.chunks_exact_mut(size(&element).max(1));
        self.nested(&element, &dims, shown, &mut places)
    }

    fn sequence(&mut self, of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
        let list = shown.as_array().ok_or_else(|| unfit(shown))?;
        let values = self.values(&above(of)?, &[list.len() as u64], shown)?;
        let sequence = GivenSequence {
            len: list.len(),
            at: values.as_ptr(),
        };
        self.lists.push(values);
        if out.len() < size_of::<GivenSequence>() {
            return Err("a sequence of an odd size".into());
        }
        // SAFETY: there is room, which need not be aligned.
        unsafe { ptr::write_unaligned(out.as_mut_ptr().cast(), sequence) };
        Ok(())
    }
}

fn unfit(shown: &Json) -> String {
    let text: String = shown.to_string().chars().take(40).collect();
    format!("{text} is no value of the type")
}

fn put_pointer(at: *const c_char, out: &mut [u8]) {
    if out.len() >= size_of::<*const c_char>() {
        // SAFETY: there is room, which need not be aligned.
        unsafe { ptr::write_unaligned(out.as_mut_ptr().cast(), at) };
    }
}

fn integer(of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
    let (from, bytes) = match shown {
        Json::Bool(bit) => (*H5T_STD_I64LE, i64::from(*bit).to_le_bytes()),
        shown => match (shown.as_i64(), shown.as_u64()) {
            (Some(number), _) => (*H5T_STD_I64LE, number.to_le_bytes()),
            (_, Some(number)) => (*H5T_STD_U64LE, number.to_le_bytes()),
            _ => return Err(unfit(shown)),
        },
    };
    convert(from, &bytes, of, out)?;
    // The library cuts what does not fit to the largest that does.
    let mut back = vec![0; out.len().max(8)];
    let stored = out.to_vec();
    converted(of.id(), &stored, from, &mut back)?;
    match back[..8] == bytes {
        true => Ok(()),
        false => Err(unfit(shown)),
    }
}

fn float(of: &Identifier, shown: &Json, out: &mut [u8]) -> Outcome<()> {
    let number = match shown.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => shown.as_f64(),
    };
    let number = number.ok_or_else(|| unfit(shown))?;
    convert(*H5T_IEEE_F64LE, &number.to_le_bytes(), of, out)
}

/// Converts a little-endian number to a type, of which there is one element in `out`.
fn convert(from: hid_t, number: &[u8; 8], to: &Identifier, out: &mut [u8]) -> Outcome<()> {
    let mut room = vec![0; out.len().max(8)];
    converted(from, number, to.id(), &mut room)?;
    out.copy_from_slice(&room[..out.len()]);
    Ok(())
}

/// `room` is as large as either type.
fn converted(from: hid_t, number: &[u8], to: hid_t, room: &mut [u8]) -> Outcome<()> {
    room[..number.len()].copy_from_slice(number);
    let at = room.as_mut_ptr().cast::<c_void>();
    // SAFETY: one number is converted in place, where either type fits.
    check(unsafe { H5Tconvert(from, to, 1, at, ptr::null_mut(), H5P_DEFAULT) }).map(drop)
}

fn hexadecimal(shown: &Json, out: &mut [u8]) -> Outcome<()> {
    let digits = shown.as_str().ok_or_else(|| unfit(shown))?;
    let bytes = bytes_of(digits).filter(|bytes| bytes.len() == out.len());
    out.copy_from_slice(&bytes.ok_or_else(|| unfit(shown))?);
    Ok(())
}
