//! What a container that is there already could be made of: its arrays as they are shown, its
//! groups, links and descriptors, and its own `arrays.json`.
//!
//! A recipe that reads the arrays holds its memory already, so they are decoded below the cache.
//! Used by `live::creation`, when files have been put into a container after it was packed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::content::{GivenContent, RawArray};
use super::description::GivenDescription;
use crate::array::Array;
use crate::array::direct::DirectArray;
use crate::array::nested::NestedBlocks;
use crate::container::describe::arrays_json;
use crate::container::inside::{Located, join};
use crate::container::{Container, binsparse, bpcells};
use crate::error::Result;
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;
use crate::source::BytesSource;

impl GivenContent {
    /// Of a container as it is shown; with what that takes from the budget.
    pub fn of_container(
        container: &Arc<Container>,
        budget: &Arc<Budget>,
    ) -> Result<(GivenContent, Hold)> {
        let text = arrays_json(container)?;
        let charge = budget.keep(GivenDescription::room(&text))?;
        let description = GivenDescription::parse(&text)?;
        let nested = NestedBlocks::new(budget);
        let mut arrays = container.all_written();
        // That is a descriptor, and no array.
        arrays.retain(|one| one.array.name() != binsparse::TEXT);
        let arrays: Result<Vec<_>> = arrays.iter().map(|one| as_given(one, &nested)).collect();
        let mut arrays = arrays?;
        arrays.extend(words_of(container));
        arrays.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        let content = GivenContent {
            groups: groups_of(container, &description),
            links: links_of(container),
            descriptors: descriptors_of(container)?,
            arrays,
            inner: BTreeMap::new(),
            description: Some(description),
        };
        Ok((content, charge))
    }
}

/// An array by its path from the outermost container, with nothing to decode for its reader.
fn as_given(located: &Located, nested: &Arc<NestedBlocks>) -> Result<Arc<dyn Array>> {
    let info = located.array.info()?;
    let decoded = nested.array(Arc::clone(&located.array));
    let read = move |at: u64, out: &mut [u8]| decoded.read(at, out);
    Ok(Arc::new(DirectArray::new(located.path(), info, read)))
}

/// The texts of BPCells containers that say how these are stored: they are no arrays.
fn words_of(container: &Arc<Container>) -> Vec<Arc<dyn Array>> {
    let packed = container.all().into_iter();
    let packed = packed.filter(|(_, part)| part.format == bpcells::NAME);
    let of = |(at, part): (Arc<str>, Arc<Container>)| {
        let words = part.texts.iter().map(|text| {
            let content = Arc::new(BytesSource::new(text.content.to_vec()));
            Arc::new(RawArray::new(&join(&at, &text.name), content)) as Arc<dyn Array>
        });
        words.collect::<Vec<_>>()
    };
    packed.flat_map(of).collect()
}

/// Every directory below the container's own, each before those that lie in it.
fn groups_of(container: &Arc<Container>, description: &GivenDescription) -> Vec<String> {
    let mut groups = BTreeSet::new();
    for (at, part) in container.all() {
        groups.extend(part.groups.iter().map(|group| join(&at, group)));
        groups.insert(at.to_string());
    }
    let told = |key: &str| description.more.get(key).and_then(Value::as_object);
    let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    groups.extend(
        ["groups", "group_details"]
            .iter()
            .filter_map(|key| told(key))
            .flat_map(keys),
    );
    let located = container.all_arrays();
    let mut members: Vec<String> = located.iter().map(Located::path).collect();
    members.extend(told("types").map(keys).unwrap_or_default());
    members.extend(groups.iter().cloned());
    for path in &members {
        groups.extend(
            path.match_indices('/')
                .map(|(end, _)| path[..end].to_owned()),
        );
    }
    groups.remove("");
    groups.into_iter().collect()
}

fn links_of(container: &Arc<Container>) -> BTreeMap<String, String> {
    let all = container.all();
    let of = |(at, part): &(Arc<str>, Arc<Container>)| {
        let links = part.links.iter();
        let links = links.map(|link| (join(at, &link.name), link.target.clone()));
        links.collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}

/// The texts that make groups Binsparse containers, by the paths of these.
fn descriptors_of(container: &Arc<Container>) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut descriptors = BTreeMap::new();
    for (at, part) in container.all() {
        let is_descriptor = |name: &str| name == binsparse::TEXT;
        if let Some(text) = part.texts.iter().find(|text| is_descriptor(&text.name)) {
            descriptors.insert(at.to_string(), text.content.to_vec());
        } else if let Some(line) = part.lines.iter().find(|line| is_descriptor(line.name())) {
            let mut text = fallible::zeros(line.info()?.bytes, "cannot read a descriptor")?;
            line.read_direct(0, &mut text)?;
            descriptors.insert(at.to_string(), text);
        }
    }
    Ok(descriptors)
}
