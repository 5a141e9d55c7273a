//! Attributes of groups and datasets, as JSON for `arrays.json`. Used by `assemble`.

use serde_json::{Map, Value as Json};

use crate::container::describe::value_room;
use crate::container::hdf5::index::{AttributeEntry, AttributeValue};
use crate::error::Result;
use crate::memory::set_aside;

/// Machinery of NetCDF-4 that says nothing to a reader of arrays.
const HIDDEN: [&[u8]; 6] = [
    b"_NCProperties",
    b"_Netcdf4Dimid",
    b"_Netcdf4Coordinates",
    b"_nc3_strict",
    b"DIMENSION_LIST",
    b"REFERENCE_LIST",
];

/// The same of a dimension scale; elsewhere these names are the writer's own.
const OF_SCALES: [&[u8]; 2] = [b"CLASS", b"NAME"];

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

/// `except`: the one that is shown elsewhere.
pub(super) fn json(attributes: &[AttributeEntry], except: &[u8]) -> Result<Map<String, Json>> {
    let is_scale = text(attributes, b"CLASS") == Some(SCALE);
    let is_hidden = |name: &[u8]| {
        name == except || HIDDEN.contains(&name) || (is_scale && OF_SCALES.contains(&name))
    };
    let shown = attributes.iter().filter(|a| !is_hidden(&a.name));
    let shown: Vec<&AttributeEntry> = shown.collect();
    let room = shown
        .iter()
        .map(|attribute| ATTRIBUTE + room(&attribute.value));
    set_aside(room.sum(), "cannot show attributes", || all(&shown))
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

fn all(shown: &[&AttributeEntry]) -> Map<String, Json> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    shown
        .iter()
        .map(|attribute| {
            let value = match &attribute.value {
                AttributeValue::Text(text) => Json::String(lossy(text)),
                AttributeValue::Json(text) => {
                    serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.clone()))
                }
                AttributeValue::Omitted(reason) => Json::String(format!("(not shown: {reason})")),
            };
            (lossy(&attribute.name), value)
        })
        .collect()
}
