//! `arrays.json` of a group: what lies in it, not in the groups below, which have their own. So a
//! copy of a group takes with it how its arrays are made.
//!
//! Names are from the group; a dimension elsewhere has a path that begins with `/`, from the root
//! of the file. Types that have a name in the file are spelled out. Used by [`super`]; read by
//! `container::creation`.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};

use super::lines;
use super::{ArrayDescription, Description, TypeDescription, UnreadableDescription};
use crate::container::stored::{AttributeType, DimensionDetails, StoredType};

/// Types in types, at most.
const DEPTH: usize = 32;

#[derive(Serialize)]
struct GroupDescription {
    format: &'static str,
    arrays: Vec<ArrayDescription>,
    attributes: Map<String, Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attribute_types: BTreeMap<String, AttributeType>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    dimensions: BTreeMap<String, DimensionDetails>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<UnreadableDescription>,
}

impl GroupDescription {
    fn new(format: &'static str) -> GroupDescription {
        GroupDescription {
            format,
            arrays: Vec::new(),
            attributes: Map::new(),
            attribute_types: BTreeMap::new(),
            dimensions: BTreeMap::new(),
            unreadable: Vec::new(),
        }
    }
}

/// The text of a group in which there is nothing.
pub(super) fn empty(format: &'static str) -> Vec<u8> {
    lines::text(&GroupDescription::new(format))
}

/// The texts of all groups that have something, by their paths; those of containers have another.
pub(super) fn texts(description: Description<'_>) -> HashMap<String, Vec<u8>> {
    let mut groups: HashMap<String, GroupDescription> = HashMap::new();
    let (format, containers) = (description.format, &description.containers);
    let group = |path: &str| {
        let is_plain = !path.is_empty() && !containers.contains_key(path);
        is_plain.then(|| path.to_owned())
    };
    let new = || GroupDescription::new(format);
    for mut array in description.arrays {
        let (path, name) = split(&array.name);
        let Some(path) = group(path) else { continue };
        array.name = name.to_owned();
        let into = groups.entry(path.clone()).or_insert_with(new);
        for dim in array.details.dims.iter_mut().flatten() {
            let known = description.file.dimensions.get(dim.as_str());
            let relative = relative(dim, &path, known.is_some());
            if let Some(known) = known {
                let mut known = known.clone();
                known.id = None;
                into.dimensions.insert(relative.clone(), known);
            }
            *dim = relative;
        }
        for scale in array.details.rare.scales.iter_mut().flatten() {
            *scale = relative(scale, &path, true);
        }
        let told = array.details.stored_type.take();
        array.details.stored_type = told.map(|told| spelled(told, &description.types, 0));
        into.arrays.push(array);
    }
    for mut unreadable in description.unreadable {
        let (path, name) = split(&unreadable.name);
        if let Some(path) = group(path) {
            unreadable.name = name.to_owned();
            let into = groups.entry(path).or_insert_with(new);
            into.unreadable.push(unreadable);
        }
    }
    for (path, attributes) in description.groups {
        if let Some(path) = group(&path) {
            groups.entry(path).or_insert_with(new).attributes = attributes;
        }
    }
    for (path, details) in description.group_details {
        if let Some(path) = group(&path) {
            groups.entry(path).or_insert_with(new).attribute_types = details.attribute_types;
        }
    }
    let texts = groups.into_iter();
    texts
        .map(|(path, group)| (path, lines::text(&group)))
        .collect()
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The name of a dimension from a group. One that is no path is but a label, and stays.
fn relative(dim: &str, group: &str, is_path: bool) -> String {
    match split(dim) {
        (above, name) if above == group => name.to_owned(),
        _ if is_path => format!("/{dim}"),
        _ => dim.to_owned(),
    }
}

/// A type without names that only its file knows.
fn spelled(
    told: StoredType,
    types: &BTreeMap<String, TypeDescription>,
    depth: usize,
) -> StoredType {
    let again = |base: StoredType| spelled(base, types, depth + 1);
    let inside = |base: Box<StoredType>| Box::new(again(*base));
    match told {
        told if depth > DEPTH => told,
        StoredType::Committed { name } => {
            let known = types.get(&name);
            let known = known.and_then(|known| known.details.stored_type.clone());
            known.map_or(StoredType::Committed { name }, again)
        }
        StoredType::Complex { base } => StoredType::Complex { base: inside(base) },
        StoredType::Sequence { base } => StoredType::Sequence { base: inside(base) },
        StoredType::Array { dims, base } => StoredType::Array {
            dims,
            base: inside(base),
        },
        StoredType::Enumeration { base, members } => StoredType::Enumeration {
            base: inside(base),
            members,
        },
        StoredType::Compound { size, members } => {
            let members = members.into_iter();
            let members = members.map(|(name, at, member)| (name, at, again(member)));
            StoredType::Compound {
                size,
                members: members.collect(),
            }
        }
        other => other,
    }
}
