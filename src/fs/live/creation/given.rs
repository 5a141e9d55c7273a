//! The type that attributes give an array which is to be made: `user.arrayfs.dtype` and `.shape`.
//!
//! Of a file in a new container they are attributes of that file, and give the type of its bytes
//! when it is packed. Used by [`super::pack`], and by `tree::writing::retyped`, which sets them.

use std::ffi::OsStr;
use std::path::Path;

use crate::array::dtype::name_of;
use crate::container::creation::GivenType;
use crate::error::{Error, Result};
use crate::source::{FileId, Store};

/// Of all attributes that are ours.
pub(crate) const PREFIX: &str = "user.arrayfs.";
pub(crate) const DTYPE: &str = "dtype";
pub(crate) const SHAPE: &str = "shape";

/// The type or shape that an attribute of this name gives; none if it is another attribute.
pub(crate) fn given_type(name: &OsStr, value: &[u8]) -> Option<Result<GivenType>> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    let invalid = |what: &str| {
        let value = String::from_utf8_lossy(value);
        Error::Invalid(format!("{PREFIX}{name}: {value} is no {what}"))
    };
    match name {
        DTYPE => Some(match std::str::from_utf8(value) {
            Ok(dtype) => Ok(GivenType {
                dtype: Some(name_of(dtype.trim()).into_owned()),
                shape: None,
            }),
            Err(_) => Err(invalid("dtype of NumPy's")),
        }),
        SHAPE => Some(match serde_json::from_slice(value) {
            Ok(shape) => Ok(GivenType {
                dtype: None,
                shape: Some(shape),
            }),
            Err(_) => Err(invalid("shape, such as [2, 3]")),
        }),
        _ => None,
    }
}

/// The type that attributes give a draft.
pub(crate) fn said_of_draft(store: &dyn Store, path: &Path, id: FileId) -> Result<GivenType> {
    let mut said = GivenType::default();
    for name in [DTYPE, SHAPE].map(|name| format!("{PREFIX}{name}")) {
        let name = OsStr::new(&name);
        let value = match store.posix()?.xattr(path, Some(id), name) {
            Err(Error::NoAttribute | Error::Unsupported) => continue,
            value => value?,
        };
        if let Some(given) = given_type(name, &value) {
            let given = given?;
            said.dtype = said.dtype.or(given.dtype);
            said.shape = said.shape.or(given.shape);
        }
    }
    Ok(said)
}
