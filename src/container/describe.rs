//! `arrays.json`: what a container holds, for programs; and the same for `info --json` and `ls --json`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Container;
use crate::array::Info;
use crate::error::Result;

#[derive(Serialize)]
pub struct Description<'a> {
    pub format: &'static str,
    pub version: &'a str,
    pub arrays: Vec<ArrayDescription>,
    pub attributes: &'a Map<String, Value>,
    /// Attributes of groups, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Map<String, Value>>,
    /// What is in the container and cannot be shown: name and reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Unreadable>,
    /// Symbolic links to groups: name and target.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// Containers in groups of this one: path and format.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

#[derive(Serialize)]
pub struct Unreadable {
    pub name: String,
    pub reason: String,
}

#[derive(Serialize)]
pub struct ArrayDescription {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub order: &'static str,
    pub bytes: u64,
    pub stored_bytes: u64,
    pub blocks: u64,
    pub codec: Cow<'static, str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

impl ArrayDescription {
    pub fn new(name: String, info: Info, attributes: Map<String, Value>) -> Self {
        ArrayDescription {
            name,
            dtype: info.dtype.name().into_owned(),
            shape: info.shape,
            order: info.order.name(),
            bytes: info.bytes,
            stored_bytes: info.stored_bytes,
            blocks: info.blocks,
            codec: info.codec,
            attributes,
        }
    }
}

/// Describes a container and those inside of it. An array whose description fails is left out; its fault
/// is among the faults.
pub fn describe(container: &Arc<Container>) -> Result<Description<'_>> {
    let mut faults: Vec<String> = texts(container.all_faults());
    let mut arrays = Vec::new();
    let mut described = container.all_described();
    for located in container.all_arrays() {
        let path = located.path();
        match located.array.info() {
            Ok(info) => {
                let attributes = described.remove(&path).unwrap_or_default();
                arrays.push(ArrayDescription::new(path, info, attributes));
            }
            Err(crate::error::Error::Fault(fault)) => {
                faults.push(located.locate(*fault).to_string());
            }
            Err(other) => return Err(other),
        }
    }
    let unreadable = container.all_unreadable().into_iter();
    let inner = container.all().into_iter().skip(1);
    let links = container.links.iter();
    Ok(Description {
        format: container.format,
        version: &container.version,
        arrays,
        attributes: &container.attributes,
        groups: described,
        unreadable: unreadable
            .map(|(name, reason)| Unreadable { name, reason })
            .collect(),
        links: links
            .map(|link| (link.name.clone(), link.target.clone()))
            .collect(),
        containers: inner
            .map(|(path, inner)| (path.to_string(), inner.format))
            .collect(),
        faults,
    })
}

fn texts(faults: Vec<crate::error::Fault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// How many times smaller the array is stored than shown.
pub fn ratio(info: &Info) -> Option<f64> {
    (info.stored_bytes > 0).then(|| info.bytes as f64 / info.stored_bytes as f64)
}

/// The text of `arrays.json`.
pub fn arrays_json(container: &Arc<Container>) -> Result<Vec<u8>> {
    let description = describe(container)?;
    let mut text = serde_json::to_vec_pretty(&description).unwrap_or_default();
    text.push(b'\n');
    Ok(text)
}
