//! What a group is beside a group: a container of another format, told by its attributes. Used by
//! `assemble`.

use super::attributes;
use super::index::{Group, Index, Link, Value};
use crate::container::{binsparse, bpcells};

/// What a group is beside a group.
pub(super) enum Role {
    Plain,
    /// With the text of its descriptor; none if it is lost.
    Binsparse(Option<Vec<u8>>),
    BpCells(bpcells::version::Version, String),
}

/// Tells by attributes; by the names of the members where a descriptor is lost.
pub(super) fn role(index: &Index, group: &Group) -> Role {
    if let Some(value) = attributes::find(&group.attributes, b"binsparse") {
        return Role::Binsparse(match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        });
    }
    if let Some(text) = descriptor_dataset(index, group) {
        return Role::Binsparse(Some(text.clone()));
    }
    let version = attributes::text(&group.attributes, b"version");
    let version = version.and_then(|text| std::str::from_utf8(text).ok());
    if let Some(line) = version
        && let Some(version) = bpcells::version::Version::parse(line)
    {
        return Role::BpCells(version, line.to_owned());
    }
    let names: Vec<&str> = group
        .links
        .iter()
        .filter_map(|link| std::str::from_utf8(&link.name).ok())
        .collect();
    if names.len() == group.links.len() && binsparse::looks_like(&names) {
        return Role::Binsparse(None);
    }
    Role::Plain
}

/// An early writer kept the descriptor in a dataset.
fn descriptor_dataset<'a>(index: &'a Index, group: &Group) -> Option<&'a Vec<u8>> {
    let named = |link: &&Link| link.name == binsparse::DESCRIPTOR.as_bytes();
    let link = group.links.iter().find(named)?;
    index.dataset(&link.target)?.text.as_ref()
}
