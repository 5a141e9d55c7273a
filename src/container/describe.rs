//! `arrays.json`: what a container holds, for programs; and the same for `info --json` and `ls --json`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Container;
use crate::array::Info;
use crate::error::Result;

#[derive(Serialize)]
pub struct Description<'a> {
    pub format: &'static str,
    pub version: &'a str,
    pub arrays: Vec<ArrayDescription<'a>>,
    pub attributes: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

#[derive(Serialize)]
pub struct ArrayDescription<'a> {
    pub name: &'a str,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub order: &'static str,
    pub bytes: u64,
    pub stored_bytes: u64,
    pub blocks: u64,
    pub codec: Cow<'static, str>,
}

impl<'a> ArrayDescription<'a> {
    pub fn new(name: &'a str, info: Info) -> Self {
        ArrayDescription {
            name,
            dtype: info.dtype.name().into_owned(),
            shape: info.shape,
            order: info.order.name(),
            bytes: info.bytes,
            stored_bytes: info.stored_bytes,
            blocks: info.blocks,
            codec: info.codec,
        }
    }
}

/// Describes a container. An array whose description fails is left out; its fault is told by the
/// caller's error list.
pub fn describe(container: &Container) -> Result<Description<'_>> {
    let mut faults: Vec<String> = container.faults.iter().map(|f| f.to_string()).collect();
    let mut arrays = Vec::with_capacity(container.arrays.len());
    for array in &container.arrays {
        match array.info() {
            Ok(info) => arrays.push(ArrayDescription::new(array.name(), info)),
            Err(crate::error::Error::Fault(fault)) => {
                faults.push(fault.array(array.name()).to_string());
            }
            Err(other) => return Err(other),
        }
    }
    Ok(Description {
        format: container.format,
        version: &container.version,
        arrays,
        attributes: &container.attributes,
        faults,
    })
}

/// How many times smaller the array is stored than shown.
pub fn ratio(info: &Info) -> Option<f64> {
    (info.stored_bytes > 0).then(|| info.bytes as f64 / info.stored_bytes as f64)
}

/// The text of `arrays.json`.
pub fn arrays_json(container: &Container) -> Result<Vec<u8>> {
    let description = describe(container)?;
    let mut text = serde_json::to_vec_pretty(&description).unwrap_or_default();
    text.push(b'\n');
    Ok(text)
}
