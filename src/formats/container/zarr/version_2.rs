//! The documents of version 2: `.zarray`. Pure. Used by [`super::nodes`].

use serde_json::{Map, Value};

use super::document::{ArrayDocument, DocumentRefusal, chunk_shape, shape};
use super::element;
use super::fill::{self, Version};
use super::keys::KeyEncoding;
use super::plan::DecodePlan;

/// What an array's document says. `attributes`: those beside it, which may name its dimensions.
pub(super) fn array(
    document: &Value,
    attributes: &Map<String, Value>,
) -> Result<ArrayDocument, DocumentRefusal> {
    if document.get("zarr_format").and_then(Value::as_u64) != Some(2) {
        let found = document.get("zarr_format").unwrap_or(&Value::Null);
        return Err(DocumentRefusal::fault("the document has another version")
            .expected(2)
            .found(found));
    }
    let required = |key: &str| {
        let missing = || DocumentRefusal::fault(format!("the document has no {key}"));
        document.get(key).ok_or_else(missing)
    };
    let element = element::of_version_2(required("dtype")?)?;
    let shape = shape(document.get("shape"), &element)?;
    let chunk = chunk_shape(document.get("chunks"), &shape)?;
    let is_fortran = match required("order")?.as_str() {
        Some("C") => false,
        Some("F") => true,
        _ => {
            let fault = DocumentRefusal::fault("the order is none").expected("C or F");
            return Err(fault.found(required("order")?));
        }
    };
    let none = Vec::new();
    let filters = match document.get("filters") {
        None | Some(Value::Null) => &none,
        Some(Value::Array(filters)) => filters,
        Some(other) => return Err(DocumentRefusal::fault("the filters are no list").found(other)),
    };
    let compressor = document.get("compressor").filter(|codec| !codec.is_null());
    let plan = DecodePlan::of_version_2(chunk, &element, is_fortran, (filters, compressor))?;
    let fill = document.get("fill_value").unwrap_or(&Value::Null);
    Ok(ArrayDocument {
        fill: fill::bytes(fill, &element, Version::V2)?,
        keys: KeyEncoding::of_version_2(document.get("dimension_separator"))?,
        dims: dims(attributes, shape.len()),
        shape,
        element,
        plan,
    })
}

/// As xarray names dimensions; what names others is an attribute like any.
pub(super) fn dims(attributes: &Map<String, Value>, dimensions: usize) -> Vec<Option<String>> {
    let names = attributes
        .get("_ARRAY_DIMENSIONS")
        .and_then(Value::as_array);
    let names = names.filter(|names| names.len() == dimensions);
    let name = |name: &Value| name.as_str().map(str::to_owned);
    let names = names.map(|names| names.iter().map(name).collect());
    names.unwrap_or_default()
}
