//! A dataset as it is to be made of an array: type, shape, storage, fill value. Used by
//! [`super::objects`].

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::storage::{NewShape, of as storage_of};
use super::types::{self, inner_rank, stated};
use super::{NewFileKind, names};
use crate::array::grid::product;
use crate::container::creation::{GivenArray, GivenOrder};
use crate::container::hdf5::index::UNLIMITED;
use crate::container::hdf5::made::{MadeDataset, MadeFill, MadeValue, bytes_of};
use crate::container::stored::StoredType;
use crate::error::{Error, Result};

/// Bytes of an element, where there is none to see it by.
const USUAL_ELEMENT: u64 = 8;

/// A dataset, and what it holds.
pub(super) struct NewDataset {
    pub(super) made: MadeDataset,
    /// Strings of variable length.
    pub(super) is_text: bool,
}

/// Types that have names of their own, by their shown paths.
pub(super) type Committed<'a> = Option<&'a Map<String, Value>>;

/// `name`, of so many `bytes`; what of its description cannot be kept is added to `lost`.
pub(super) fn of(
    (name, bytes): (&str, u64),
    described: Option<&GivenArray>,
    (kind, committed): (NewFileKind, Committed<'_>),
    lost: &mut Vec<String>,
) -> Result<NewDataset> {
    let invalid = |why: String| Error::Invalid(format!("{name}: {why}"));
    let element = match described {
        None => StoredType::called("H5T_STD_U8LE"),
        Some(array) => {
            let unsaid = || format!("arrays.json does not say how {} is stored", array.dtype);
            let element = element_of(array, kind).map_err(invalid)?;
            element.ok_or_else(|| invalid(unsaid()))?
        }
    };
    let resolved = resolved(&element, committed);
    let is_text = resolved.is_text();
    let dims = match described {
        None => Some(vec![bytes]),
        Some(array) if array.more.get("space").is_some_and(|space| space == "null") => None,
        Some(array) => Some(dims_of(array, &resolved, lost).map_err(invalid)?),
    };
    let rank = dims.as_ref().map_or(0, Vec::len);
    described
        .map_or(Ok(()), |array| array.check_dims(rank))
        .map_err(invalid)?;
    let most = match &dims {
        Some(dims) => most_of(described, dims, lost).map_err(invalid)?,
        None => Vec::new(),
    };
    let elements = count(dims.as_deref().unwrap_or(&[0]));
    let shape = NewShape {
        dims: dims.as_deref().unwrap_or_default(),
        most: &most,
        // A string of variable length is a reference.
        element: match (is_text, elements) {
            (true, _) => 16,
            (false, elements) => bytes.checked_div(elements).unwrap_or(USUAL_ELEMENT).max(1),
        },
        bytes: if is_text {
            elements.saturating_mul(16)
        } else {
            bytes
        },
        is_text,
    };
    let (storage, filters) = storage_of(&shape, described, lost).map_err(invalid)?;
    Ok(NewDataset {
        is_text,
        made: MadeDataset {
            path: names::stored(name).map_err(Error::Invalid)?,
            element,
            fill: fill_of(described),
            dims,
            most,
            storage,
            filters,
        },
    })
}

/// What is said of an array, as far as it can be judged without it.
pub(super) fn check(array: &GivenArray, kind: NewFileKind, committed: Committed<'_>) -> Result<()> {
    let bytes = array.byte_len();
    let bytes = bytes.unwrap_or_else(|| count(&array.shape).saturating_mul(USUAL_ELEMENT));
    of(
        (&array.name, bytes),
        Some(array),
        (kind, committed),
        &mut Vec::new(),
    )
    .map(drop)
}

/// None for a dtype that does not tell it. A type of another format says nothing here; that is
/// known of what is copied.
fn element_of(
    array: &GivenArray,
    kind: NewFileKind,
) -> std::result::Result<Option<StoredType>, String> {
    match (array.more.get("type"), stated(array)) {
        (_, Some(stated)) => return types::read(Some(stated)).map(Some),
        (Some(other), None) if !array.is_told() => {
            let usual = "such as H5T_IEEE_F32LE";
            return Err(format!("{other} is no type of HDF5's, {usual}"));
        }
        _ => {}
    }
    Ok(match (kind, &*array.dtype) {
        // NetCDF has no truth values.
        (NewFileKind::NetCdf4, "bool") => StoredType::of_name("H5T_STD_I8LE"),
        (_, dtype) => types::of_dtype(dtype),
    })
}

/// A committed type by itself.
pub(super) fn resolved<'a>(
    element: &'a StoredType,
    committed: Committed<'_>,
) -> Cow<'a, StoredType> {
    let found = match element {
        StoredType::Committed { name } => committed.and_then(|types| types.get(name)),
        _ => None,
    };
    let found = found.and_then(|found| types::read(found.get("type")).ok());
    found.map_or(Cow::Borrowed(element), Cow::Owned)
}

fn dims_of(
    array: &GivenArray,
    element: &StoredType,
    lost: &mut Vec<String>,
) -> std::result::Result<Vec<u64>, String> {
    let inner = inner_rank(element);
    let rank = array.shape.len().checked_sub(inner);
    let rank = rank.ok_or("its shape lacks the dimensions of its type")?;
    let mut dims = array.shape[..rank].to_vec();
    if array.order == GivenOrder::F && dims.len() > 1 {
        dims.reverse();
        lost.push("its order is not Fortran's: the dimensions are reversed".into());
    }
    Ok(dims)
}

fn most_of(
    described: Option<&GivenArray>,
    dims: &[u64],
    lost: &mut Vec<String>,
) -> std::result::Result<Vec<u64>, String> {
    let stated = described.and_then(|array| array.more.get("maxshape"));
    let Some(stated) = stated else {
        return Ok(dims.to_vec());
    };
    let most = |(value, dim): (&Value, &u64)| match value {
        Value::Null => Some(UNLIMITED),
        value => value.as_u64().filter(|most| most >= dim),
    };
    let list = stated.as_array().filter(|list| list.len() == dims.len());
    let list = list.and_then(|list| list.iter().zip(dims).map(most).collect());
    let why = format!("maxshape {stated} does not fit its shape");
    match list {
        Some(list) => Ok(list),
        None if described.is_some_and(GivenArray::is_told) => {
            lost.push(why);
            Ok(dims.to_vec())
        }
        None => Err(why),
    }
}

pub(super) fn count(dims: &[u64]) -> u64 {
    product(dims, 1).unwrap_or(u64::MAX)
}

fn fill_of(described: Option<&GivenArray>) -> MadeFill {
    let member = |key: &str| described.and_then(|array| array.more.get(key));
    if let Some(stored) = member("fill_stored")
        .and_then(Value::as_str)
        .and_then(bytes_of)
    {
        return MadeFill::Value(MadeValue::Stored(stored));
    }
    match member("fill") {
        None => MadeFill::Usual,
        Some(Value::Null) => MadeFill::Undefined,
        Some(value) => MadeFill::Value(MadeValue::Shown(value.to_string())),
    }
}

/// The arrays of a description by their paths.
pub(super) type ByPath<'a> = HashMap<&'a str, &'a GivenArray>;
