//! Numbers in attributes, as JSON values.
//!
//! libhdf5 converts whatever is stored (either byte order, odd precisions) to the machine's widest
//! integer or to floats; a 32-bit float is printed with its own digits, not with those of a double.

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5t::{
    H5T_NATIVE_DOUBLE, H5T_NATIVE_FLOAT, H5T_NATIVE_LLONG, H5T_NATIVE_ULLONG, H5Tcopy,
};
use serde_json::{Number, Value as Json};

use super::identifier::{Identifier, Outcome};
use super::text::Elements;
use crate::container::hdf5::index::{Datatype, Integer};

/// The numbers or booleans of a value of `count` elements; none if its type has no JSON.
pub(super) fn read(
    from: &dyn Elements,
    element: &Datatype,
    count: usize,
) -> Outcome<Option<Vec<Json>>> {
    Ok(Some(match element {
        Datatype::Integer(stored) => integers(from, stored, count)?,
        Datatype::Enum { base, values } => {
            let stored = integers(from, base, count)?;
            if is_boolean(base, values) {
                stored.into_iter().map(|n| Json::Bool(n != 0)).collect()
            } else {
                stored
            }
        }
        Datatype::Float(stored) if stored.size <= 4 => {
            let read = converted::<f32>(from, *H5T_NATIVE_FLOAT, count)?;
            read.into_iter().map(single).collect()
        }
        Datatype::Float(_) => {
            let read = converted::<f64>(from, *H5T_NATIVE_DOUBLE, count)?;
            read.into_iter().map(double).collect()
        }
        _ => return Ok(None),
    }))
}

/// h5py's boolean: an enumeration of one byte, FALSE and TRUE.
fn is_boolean(base: &Integer, values: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let is = |name: &[u8], value: u8| values.iter().any(|(n, v)| n == name && *v == [value]);
    base.size == 1 && values.len() == 2 && is(b"FALSE", 0) && is(b"TRUE", 1)
}

fn integers(from: &dyn Elements, stored: &Integer, count: usize) -> Outcome<Vec<Json>> {
    if stored.signed {
        let read = converted::<i64>(from, *H5T_NATIVE_LLONG, count)?;
        return Ok(read.into_iter().map(Json::from).collect());
    }
    let read = converted::<u64>(from, *H5T_NATIVE_ULLONG, count)?;
    Ok(read.into_iter().map(Json::from).collect())
}

/// Reads elements in a type of the machine; `T` is that type.
fn converted<T: Copy + Default>(
    from: &dyn Elements,
    native: hid_t,
    count: usize,
) -> Outcome<Vec<T>> {
    // SAFETY: a predefined type, copied so that the handle may close it.
    let memory = Identifier::new(unsafe { H5Tcopy(native) })?;
    let mut read = vec![T::default(); count];
    // SAFETY: there is room for `count` elements of that type.
    unsafe { from.read(&memory, read.as_mut_ptr().cast())? };
    Ok(read)
}

fn single(value: f32) -> Json {
    // The shortest digits that give the same float again.
    let shortest = value.to_string().parse().unwrap_or(f64::from(value));
    double(shortest)
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
