//! BPCells containers in a new file: their arrays become the datasets that BPCells' own writer
//! makes of them, and their `version` an attribute of the group.
//!
//! Which groups these are says [`crate::container::creation`]. Indices of what is packed lie in
//! memory until the file is written. Where nothing is said of chunks and filters they are those of
//! BPCells' writer. Used by [`super::objects`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::array::partly_replaced::PartlyReplaced;
use crate::array::{Array, Info};
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::write::{NewFields, is_stored_alone};
use crate::container::creation::{
    GivenArray, GivenContent, GivenDescription, packed_member, split,
};
use crate::container::hdf5::text_lines;
use crate::container::inside::join;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// Elements of a chunk, as BPCells makes them.
const CHUNK: u64 = 1024;

/// What a new file has instead of the arrays of its BPCells containers.
pub(super) struct PackedGroups {
    /// With their datasets in the place of their arrays, and without a description.
    pub(super) content: GivenContent,
    /// How the datasets are stored.
    pub(super) described: Vec<GivenArray>,
    /// Of the containers, by their shown paths.
    pub(super) versions: BTreeMap<String, String>,
}

impl PackedGroups {
    /// None if the file is to have no such group.
    pub(super) fn of(content: &GivenContent, budget: &Arc<Budget>) -> Result<Option<PackedGroups>> {
        let paths = content.packed_directories()?;
        if paths.is_empty() {
            return Ok(None);
        }
        let of_other = |array: &&Arc<dyn Array>| {
            let member = packed_member(array.name());
            !member.is_some_and(|(directory, _)| paths.contains(directory))
        };
        let others = content.arrays.iter().filter(of_other);
        let mut packed = PackedGroups {
            content: GivenContent {
                arrays: others.cloned().collect(),
                groups: content.groups.clone(),
                links: content.links.clone(),
                descriptors: content.descriptors.clone(),
                ..GivenContent::default()
            },
            described: Vec::new(),
            versions: BTreeMap::new(),
        };
        for path in paths {
            let added = packed.add(path, content, budget);
            added.map_err(|e| in_group(e, path))?;
        }
        Ok(Some(packed))
    }

    fn add(&mut self, path: &str, content: &GivenContent, budget: &Arc<Budget>) -> Result<()> {
        let own = own_arrays(path, content)?;
        check_links(path, content)?;
        let described = description(path, content);
        let new = NewFields::given(&own, &described)?;
        for field in new.all(path, budget)? {
            let mut settings = described.arrays.iter();
            let settings = settings.find(|array| array.name == field.of);
            let (name, array) = (join(path, &field.name), field.array);
            self.described.push(match field.number {
                Some(number) => numbers(&name, number, &array.info()?, settings),
                None => {
                    let bytes = array.info()?.bytes;
                    texts(&name, text_lines::count(&*array, bytes, budget)?)
                }
            });
            self.content.arrays.push(renamed(&name, array));
        }
        let version = new.version().to_owned();
        self.versions.insert(path.to_owned(), version);
        Ok(())
    }
}

/// The arrays of a container, by their names in it.
fn own_arrays(path: &str, content: &GivenContent) -> Result<Vec<Arc<dyn Array>>> {
    let mut own = Vec::new();
    for array in &content.arrays {
        match split(array.name()) {
            (directory, name) if directory == path && is_stored_alone(name) => {
                return Err(Error::Invalid(format!(
                    "{name} is a file of BPCells as it is stored, and follows from the arrays"
                )));
            }
            _ => {}
        }
        if let Some((_, name)) = packed_member(array.name()).filter(|(of, _)| *of == path) {
            own.push(renamed(name, Arc::clone(array)));
        }
    }
    Ok(own)
}

/// What arrays are made of need not have their names.
fn check_links(path: &str, content: &GivenContent) -> Result<()> {
    let is_inside = |to: &str| packed_member(to).is_some_and(|(of, _)| of == path);
    match content.links.iter().find(|(_, to)| is_inside(to)) {
        None => Ok(()),
        Some((link, to)) => Err(Error::Invalid(format!(
            "{link} leads to {to}, which is no dataset of its own there"
        ))),
    }
}

/// What is said of a container: of its arrays by the whole file before what it says itself.
fn description(path: &str, content: &GivenContent) -> GivenDescription {
    let (whole, inner) = (content.description.as_ref(), content.inner.get(path));
    let own = match path {
        "" => whole.filter(|whole| whole.is_packed()),
        _ => inner,
    };
    let mut description = GivenDescription::default();
    if let Some(own) = own {
        (description.format, description.version) = (own.format.clone(), own.version.clone());
        description.attributes = own.attributes.clone();
    }
    let of_whole = whole.iter().flat_map(|whole| &whole.arrays);
    let of_whole = of_whole.filter_map(|array| {
        let (_, name) = packed_member(&array.name).filter(|(of, _)| *of == path)?;
        Some((name, array))
    });
    let of_inner = inner.iter().flat_map(|inner| &inner.arrays);
    let of_inner = of_inner.filter_map(|array| Some((packed_member(&array.name)?.1, array)));
    for (name, array) in of_whole.chain(of_inner) {
        if !description.arrays.iter().any(|said| said.name == name) {
            description.arrays.push(GivenArray {
                name: name.to_owned(),
                ..array.clone()
            });
        }
    }
    description
}

/// A dataset of numbers, which may be given other lengths.
fn numbers(name: &str, number: Number, info: &Info, settings: Option<&GivenArray>) -> GivenArray {
    let told = |key: &str| settings.and_then(|array| array.more.get(key)).cloned();
    let mut more = Map::new();
    more.insert("maxshape".into(), json!([null]));
    let chunks = told("chunks").unwrap_or_else(|| json!([CHUNK]));
    more.insert("chunks".into(), chunks);
    // BPCells itself has none.
    let filters = told("filters").unwrap_or_else(|| json!([]));
    more.insert("filters".into(), filters);
    more.extend(told("stored_bytes").map(|bytes| ("stored_bytes".into(), bytes)));
    GivenArray {
        dtype: number.dtype().name().into_owned(),
        shape: vec![info.bytes / number.width()],
        more,
        ..GivenArray::of_bytes(name, info.bytes)
    }
}

/// A dataset of strings of variable length.
fn texts(name: &str, lines: u64) -> GivenArray {
    let contiguous = ("layout".to_owned(), Value::from("contiguous"));
    GivenArray {
        dtype: "str".into(),
        shape: vec![lines],
        more: Map::from_iter([contiguous]),
        ..GivenArray::of_bytes(name, 0)
    }
}

fn renamed(name: &str, array: Arc<dyn Array>) -> Arc<dyn Array> {
    Arc::new(PartlyReplaced::new(array).with_name(name.to_owned()))
}

/// Why something cannot be, with the group that it is said of.
fn in_group(error: Error, path: &str) -> Error {
    match error {
        Error::Invalid(why) if !path.is_empty() => Error::Invalid(format!("{path}: {why}")),
        other => other,
    }
}
