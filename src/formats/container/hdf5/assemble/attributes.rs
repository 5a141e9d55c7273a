//! Attributes of groups and datasets, as JSON for `arrays.json`. Used by `assemble`.

use serde_json::{Map, Value as Json};

use crate::container::describe::value_room;
use crate::container::hdf5::index::details::MACHINERY;
use crate::container::hdf5::index::{AttributeEntry, AttributeValue};
use crate::container::names;
use crate::error::Result;
use crate::memory::set_aside;

/// Machinery of dimension scales; elsewhere these names are the writer's own.
pub(super) const OF_SCALES: [&[u8]; 2] = [b"CLASS", b"NAME"];

const SCALE: &[u8] = b"DIMENSION_SCALE";

/// An attribute in a map that grows, but for its value.
const ATTRIBUTE: u64 = 1 << 10;

/// How the NAME of a dimension begins that has no variable.
const DIMENSION_ALONE: &[u8] = b"This is a netCDF dimension but not a netCDF variable";

pub(super) fn find<'a>(
    attributes: &'a [AttributeEntry],
    name: &[u8],
) -> Option<&'a AttributeValue> {
    let mut named = attributes.iter().filter(|attribute| attribute.name == name);
    named.next().map(|attribute| &attribute.value)
}

pub(super) fn text<'a>(attributes: &'a [AttributeEntry], name: &[u8]) -> Option<&'a [u8]> {
    match find(attributes, name)? {
        AttributeValue::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether the attributes are of a dimension of NetCDF-4 and nothing else.
pub(super) fn is_dimension_alone(attributes: &[AttributeEntry]) -> bool {
    text(attributes, b"NAME").is_some_and(|name| name.starts_with(DIMENSION_ALONE))
}

/// Whether the attributes are of a dimension scale.
pub(super) fn is_scale(attributes: &[AttributeEntry]) -> bool {
    text(attributes, b"CLASS") == Some(SCALE)
}

/// The numbers that an attribute holds; none if it holds anything else.
pub(super) fn numbers(value: &AttributeValue) -> Vec<u64> {
    let AttributeValue::Json(text) = value else {
        return Vec::new();
    };
    let one = || serde_json::from_str(text).map(|number| vec![number]);
    serde_json::from_str(text)
        .or_else(|_| one())
        .unwrap_or_default()
}

/// `except`: the one that is shown elsewhere. `is_netcdf`: a list of one is its element.
pub(super) fn json(
    attributes: &[AttributeEntry],
    except: &[u8],
    is_netcdf: bool,
) -> Result<Map<String, Json>> {
    let is_scale = is_scale(attributes);
    let is_hidden = |name: &[u8]| {
        name == except || MACHINERY.contains(&name) || (is_scale && OF_SCALES.contains(&name))
    };
    let shown = attributes.iter().filter(|a| !is_hidden(&a.name));
    let shown: Vec<&AttributeEntry> = shown.collect();
    let room = shown
        .iter()
        .map(|attribute| ATTRIBUTE + 3 * attribute.name.len() as u64 + room(&attribute.value));
    set_aside(room.sum(), "cannot show attributes", || {
        all(&shown, is_netcdf)
    })
}

/// What the value of an attribute takes, and while it becomes one.
fn room(value: &AttributeValue) -> u64 {
    match value {
        // Of each byte that is no text a character is made that has three.
        AttributeValue::Text(text) => 9 * text.len() as u64,
        AttributeValue::Json(text) => value_room(text.as_bytes()),
        AttributeValue::Omitted(reason) => 3 * reason.len() as u64,
    }
}

fn all(shown: &[&AttributeEntry], is_netcdf: bool) -> Map<String, Json> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    shown
        .iter()
        .map(|attribute| {
            let value = match &attribute.value {
                AttributeValue::Text(text) => Json::String(lossy(text)),
                AttributeValue::Json(text) => {
                    let value = serde_json::from_str(text);
                    let value = value.unwrap_or_else(|_| Json::String(text.clone()));
                    match is_netcdf && is_list_of_one(attribute) {
                        true => only(value),
                        false => value,
                    }
                }
                AttributeValue::Omitted(reason) => Json::String(format!("(not shown: {reason})")),
            };
            (names::escape(&attribute.name), value)
        })
        .collect()
}

fn is_list_of_one(attribute: &AttributeEntry) -> bool {
    let dims = attribute.stored.as_ref().and_then(|of| of.dims.as_ref());
    dims.is_some_and(|dims| dims[..] == [1])
}

/// The element of a list of one.
fn only(list: Json) -> Json {
    match list {
        Json::Array(mut items) if items.len() == 1 => items.remove(0),
        other => other,
    }
}
