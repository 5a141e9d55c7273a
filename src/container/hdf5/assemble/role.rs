//! What a group is beside a group: a container of another format, recognised by its attributes.
//! Used by `assemble`.

use super::attributes;
use crate::container::hdf5::index::{AttributeValue, FileIndex, GroupEntry, LinkEntry};
use crate::container::{binsparse, bpcells};

/// What a group is beside a group.
pub(super) enum GroupRole {
    Plain,
    /// With the text of its descriptor; none if it is lost.
    Binsparse(Option<Vec<u8>>),
    BpCells(bpcells::version::Variant, String),
}

/// Tells by attributes; by the names of the members where a descriptor is lost.
pub(super) fn role(index: &FileIndex, group: &GroupEntry) -> GroupRole {
    if let Some(value) = attributes::find(&group.attributes, b"binsparse") {
        return GroupRole::Binsparse(match value {
            AttributeValue::Text(text) => Some(text.clone()),
            _ => None,
        });
    }
    if let Some(text) = descriptor_dataset(index, group) {
        return GroupRole::Binsparse(Some(text.clone()));
    }
    let version = attributes::text(&group.attributes, b"version");
    let version = version.and_then(|text| std::str::from_utf8(text).ok());
    if let Some(line) = version
        && let Some(version) = bpcells::version::Variant::parse(line)
    {
        return GroupRole::BpCells(version, line.to_owned());
    }
    let names: Vec<&str> = group
        .links
        .iter()
        .filter_map(|link| std::str::from_utf8(&link.name).ok())
        .collect();
    if names.len() == group.links.len() && binsparse::looks_like(&names) {
        return GroupRole::Binsparse(None);
    }
    GroupRole::Plain
}

/// An early writer kept the descriptor in a dataset.
fn descriptor_dataset<'a>(index: &'a FileIndex, group: &GroupEntry) -> Option<&'a Vec<u8>> {
    let named = |link: &&LinkEntry| link.name == binsparse::DESCRIPTOR.as_bytes();
    let link = group.links.iter().find(named)?;
    index.dataset(&link.target)?.text.as_ref()
}
