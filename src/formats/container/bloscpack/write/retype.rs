//! Another type for the bytes of an array: what NumPy's `view` and `reshape` do, in the metadata of
//! a file.
//!
//! The bytes stay as they are stored. Used by [`super`] for a file that is there, and by
//! [`super::new_file`].

use serde_json::Value;

use super::{BloscpackFile, shape};
use crate::array::{Array, Order};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::header;
use crate::container::bloscpack::metadata::numpy::Numpy;
use crate::container::bloscpack::metadata::{self, MAGIC};
use crate::container::creation::GivenType;
use crate::container::describe::value_room;
use crate::error::{Error, Result};
use crate::memory::set_aside;

impl BloscpackFile {
    /// This file with metadata that say another type, of so many bytes; none if they say this one
    /// already.
    pub(super) fn retyped(&self, to: &GivenType, bytes: u64) -> Result<Option<BloscpackFile>> {
        let info = self.data.info()?;
        let now = Numpy {
            dtype: info.dtype,
            shape: info.shape,
            order: info.order,
        };
        let new = retyped(&now, to, bytes)?;
        if new == now {
            return Ok(None);
        }
        let section = match (&self.text, self.is_numpy) {
            (Some(text), true) => {
                let mut old = [0; metadata::HEADER];
                self.data.source.fetch_one(header::LEN as u64, &mut old)?;
                shape::section(&old, &with_type(text, &new)?)?
            }
            (None, _) if !self.header.has_metadata => new_section(&new.metadata())?,
            _ => {
                let why =
                    "the file has metadata that are not of a NumPy array, and holds no others";
                return Err(Error::Invalid(why.into()));
            }
        };
        Ok(Some(BloscpackFile {
            data: self.data.clone(),
            header: self.header.clone(),
            after_metadata: self.after_metadata,
            is_numpy: self.is_numpy,
            text: self.text.clone(),
            retyped: Some(section),
            encoded_as: self.encoded_as,
        }))
    }
}

/// What `now` is as another type. A shape that is not given is the old one where elements are as
/// large as they were, else the last axis (of Fortran order the first) makes up for that, and if it
/// cannot, there is one dimension.
pub(super) fn retyped(now: &Numpy, to: &GivenType, bytes: u64) -> Result<Numpy> {
    let refuse = |why: String| Err(Error::Invalid(why));
    let dtype = match &to.dtype {
        Some(name) => match Numpy::named(name, Vec::new(), Order::C) {
            Some(named) => named.dtype,
            None => return refuse(format!("{name} is no dtype of NumPy's that can be stored")),
        },
        None => now.dtype.clone(),
    };
    let size = dtype.itemsize().unwrap_or(1).max(1);
    let shape = to
        .shape
        .clone()
        .unwrap_or_else(|| fitting(now, size, bytes));
    let new = Numpy {
        dtype,
        shape,
        order: now.order,
    };
    match new.bytes() {
        Some(all) if all == bytes => Ok(new),
        _ => {
            let (name, shape) = (new.dtype.name(), &new.shape);
            refuse(format!(
                "{name} of shape {shape:?} does not make the {bytes} bytes that there are"
            ))
        }
    }
}

fn fitting(now: &Numpy, size: u64, bytes: u64) -> Vec<u64> {
    let before = now.dtype.itemsize().unwrap_or(1).max(1);
    let mut shape = now.shape.clone();
    if before == size && now.bytes() == Some(bytes) {
        return shape;
    }
    let axis = match now.order {
        Order::C => shape.last_mut(),
        Order::Fortran => shape.first_mut(),
    };
    let along = axis.as_ref().and_then(|axis| axis.checked_mul(before));
    match (axis, along) {
        (Some(axis), Some(along)) if now.bytes() == Some(bytes) && along.is_multiple_of(size) => {
            *axis = along / size;
            shape
        }
        _ => vec![bytes / size],
    }
}

/// The metadata with another type, and whatever else they say.
fn with_type(text: &[u8], new: &Numpy) -> Result<Vec<u8>> {
    let unread = |e: serde_json::Error| Error::Invalid(format!("the metadata: {e}"));
    let parsed = set_aside(value_room(text), "cannot read the metadata", || {
        serde_json::from_slice(text)
    })?;
    let mut said: Value = parsed.map_err(unread)?;
    if let (Some(said), Value::Object(members)) = (said.as_object_mut(), new.metadata()) {
        said.extend(members);
    }
    Ok(said.to_string().into_bytes())
}

/// A metadata section where there was none.
pub(super) fn new_section(value: &Value) -> Result<Vec<u8>> {
    const ZLIB: u8 = 1;
    const LEVEL: u8 = 6;
    let mut header = [0; metadata::HEADER];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    header[9..12].copy_from_slice(&[Checksum::Adler32.code(), ZLIB, LEVEL]);
    shape::section(&header, value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numpy(dtype: &str, shape: &[u64], order: Order) -> Numpy {
        Numpy::named(dtype, shape.to_vec(), order).unwrap()
    }

    #[test]
    fn bytes_get_the_type_and_shape_that_numpy_would_give_them() {
        let as_type = |now: &Numpy, dtype: Option<&str>, shape: Option<&[u64]>| {
            let to = GivenType {
                dtype: dtype.map(str::to_owned),
                shape: shape.map(<[u64]>::to_vec),
            };
            let new = retyped(now, &to, now.bytes().unwrap()).ok()?;
            Some((new.dtype.name().into_owned(), new.shape))
        };
        let is = |dtype: &str, shape: &[u64]| Some((dtype.to_owned(), shape.to_vec()));
        let bytes = numpy("uint8", &[48], Order::C);
        assert_eq!(as_type(&bytes, Some("float64"), None), is("float64", &[6]));
        assert_eq!(
            as_type(&bytes, Some("<f8"), Some(&[2, 3])),
            is("float64", &[2, 3])
        );
        assert_eq!(as_type(&bytes, None, Some(&[6, 8])), is("uint8", &[6, 8]));
        let doubles = numpy("float64", &[2, 3], Order::C);
        assert_eq!(as_type(&doubles, Some("int64"), None), is("int64", &[2, 3]));
        assert_eq!(
            as_type(&doubles, Some("uint8"), None),
            is("uint8", &[2, 24])
        );
        assert_eq!(
            as_type(&doubles, Some("complex128"), None),
            is("complex128", &[3])
        );
        let fortran = numpy("float64", &[2, 3], Order::Fortran);
        assert_eq!(
            as_type(&fortran, Some("complex128"), None),
            is("complex128", &[1, 3])
        );
        let one = numpy("float64", &[], Order::C);
        assert_eq!(as_type(&one, Some("int64"), None), is("int64", &[]));
        assert_eq!(as_type(&one, Some("int32"), None), is("int32", &[2]));
        let pairs = "[('a', '<f4'), ('b', '<i2')]";
        assert_eq!(as_type(&bytes, Some(pairs), None), is(pairs, &[8]));
        for (dtype, shape) in [
            (Some("float65"), None),
            (Some("object"), None),
            (Some("float64"), Some(&[7][..])),
            (None, Some(&[u64::MAX, u64::MAX][..])),
            (Some("|S5"), None),
        ] {
            assert_eq!(as_type(&bytes, dtype, shape), None, "{dtype:?} {shape:?}");
        }
    }

    #[test]
    fn what_else_the_metadata_say_stays() {
        let text = br#"{"shape":[3],"dtype":"'<i2'","order":"C","container":"numpy","by":"me"}"#;
        let new = with_type(text, &numpy("int16", &[3, 1], Order::C)).unwrap();
        let said: Value = serde_json::from_slice(&new).unwrap();
        assert_eq!(
            (&said["by"], &said["shape"][1]),
            (&Value::from("me"), &Value::from(1))
        );
    }
}
