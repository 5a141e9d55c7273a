//! What a group is beside a group: a container of another format, recognised by its attributes.
//! Used by `assemble`.

use super::attributes;
use crate::container::hdf5::index::{AttributeValue, FileIndex, GroupEntry, LinkEntry};
use crate::container::{binsparse, bpcells};

/// What a group is beside a group.
pub(super) enum GroupRole {
    Plain,
    /// With the text of its descriptor; none if the attribute is no text.
    Binsparse(Option<Vec<u8>>),
    BpCells(bpcells::version::Variant, String),
}

/// Tells by attributes: what members are called says nothing.
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
    GroupRole::Plain
}

/// An early writer kept the descriptor in a dataset.
fn descriptor_dataset<'a>(index: &'a FileIndex, group: &GroupEntry) -> Option<&'a Vec<u8>> {
    let named = |link: &&LinkEntry| link.name == binsparse::DESCRIPTOR.as_bytes();
    let link = group.links.iter().find(named)?;
    index.dataset(&link.target)?.text.as_ref()
}
