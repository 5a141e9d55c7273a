//! The documents of version 3: `zarr.json` of an array. Pure. Used by [`super::nodes`].

use serde_json::Value;

use super::document::{ArrayDocument, DocumentRefusal, chunk_shape, configuration, named, shape};
use super::element;
use super::fill::{self, Version};
use super::keys::KeyEncoding;
use super::plan::DecodePlan;

/// What the document of an array may have.
const KNOWN: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "storage_transformers",
    "dimension_names",
];

/// The fields that nobody knows and that must be understood.
pub(super) fn unknown_fields(document: &Value, known: &[&str]) -> Result<(), DocumentRefusal> {
    for (name, value) in document.as_object().into_iter().flatten() {
        let may_be_ignored = value.get("must_understand") == Some(&Value::Bool(false));
        if !known.contains(&name.as_str()) && !may_be_ignored {
            return Err(DocumentRefusal::not_shown(format!(
                "the field {name}, which must be understood"
            )));
        }
    }
    Ok(())
}

/// What an array's document says.
pub(super) fn array(document: &Value) -> Result<ArrayDocument, DocumentRefusal> {
    let required = |key: &str| {
        let missing = || DocumentRefusal::fault(format!("the document has no {key}"));
        document.get(key).ok_or_else(missing)
    };
    let element = element::of_version_3(required("data_type")?);
    // What is broken is told before what is not known.
    let shape = match &element {
        Ok(element) => shape(document.get("shape"), element)?,
        Err(_) => {
            let bytes = element::ZarrElement {
                kind: element::Kind::Void(1),
                is_big: false,
            };
            shape(document.get("shape"), &bytes)?
        }
    };
    let dims = dims(document.get("dimension_names"), shape.len())?;
    unknown_fields(document, &KNOWN)?;
    let transformers = document.get("storage_transformers");
    if transformers
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
    {
        return Err(DocumentRefusal::not_shown("storage transformers"));
    }
    let chunk = grid(required("chunk_grid")?, &shape)?;
    let keys = KeyEncoding::of_version_3(document.get("chunk_key_encoding"))?;
    let codecs = required("codecs")?;
    let list = codecs.as_array();
    let list =
        list.ok_or_else(|| DocumentRefusal::fault("the codecs are no list").found(codecs))?;
    let fill = required("fill_value")?;
    let element = element?;
    Ok(ArrayDocument {
        plan: DecodePlan::of_version_3(chunk, &element, list)?,
        fill: fill::bytes(fill, &element, Version::V3)?,
        keys,
        dims,
        shape,
        element,
    })
}

fn grid(grid: &Value, shape: &[u64]) -> Result<Vec<u64>, DocumentRefusal> {
    match named(grid) {
        Some(("regular", configured)) => {
            chunk_shape(configuration(configured, "chunk_shape"), shape)
        }
        Some((name, _)) => Err(DocumentRefusal::not_shown(format!(
            "the grid {name} of chunks"
        ))),
        None => Err(DocumentRefusal::fault("the grid of chunks has no name").found(grid)),
    }
}

fn dims(names: Option<&Value>, dimensions: usize) -> Result<Vec<Option<String>>, DocumentRefusal> {
    let Some(names) = names.filter(|names| !names.is_null()) else {
        return Ok(Vec::new());
    };
    let name = |name: &Value| match name {
        Value::Null => Some(None),
        name => name.as_str().map(|name| Some(name.to_owned())),
    };
    let list = names.as_array().filter(|list| list.len() == dimensions);
    let list = list.and_then(|list| list.iter().map(name).collect::<Option<Vec<_>>>());
    list.ok_or_else(|| {
        let fault = DocumentRefusal::fault("the names of dimensions are none of this array");
        fault
            .expected(format_args!("{dimensions} names"))
            .found(names)
    })
}
