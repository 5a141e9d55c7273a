//! `arrays.json`: what a container holds, for programs; and the same for `info --json` and `ls
//! --json`. Also how much memory an opened container and that text take ([`weight`]).

mod groups;
mod lines;
mod own_feeds;
mod same;
mod weight;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::inside::{Located, join};
use super::stored::{ArrayDetails, AttributeType, FileDetails};
use super::writable::Restated;
use super::{Attributes, Container};
use crate::array::dtype::Dtype;
use crate::array::own_feeds::OwnFeeds;
use crate::array::{Info, Unfiltered};
use crate::error::{Error, Result};
use crate::memory::set_aside;

use own_feeds::{TextsLookedInto, ToldArray};
pub use own_feeds::{TextsToRead, ToldText};
pub use same::say_the_same;
pub(super) use weight::value_room;
pub use weight::weight;

/// Longest `arrays.json` with all details.
const LONGEST: usize = 64 << 20;

#[derive(Serialize)]
pub struct Description<'a> {
    pub format: &'static str,
    pub version: &'a str,
    pub arrays: Vec<ArrayDescription>,
    pub attributes: &'a Map<String, Value>,
    /// How they are stored, where the values do not tell it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attribute_types: BTreeMap<String, AttributeType>,
    /// Attributes of groups, by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Map<String, Value>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub group_details: BTreeMap<String, ArrayDetails>,
    #[serde(flatten)]
    pub file: FileDetails,
    /// Why no details are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<String>,
    /// What is in the container and cannot be shown: name and reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableDescription>,
    /// Types that have names of their own, and no data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, TypeDescription>,
    /// Symbolic links to groups: name and target.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// Containers in groups of this one: path and format.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, &'static str>,
    /// Why nothing of it can be written, or some of its arrays; told by `info` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub read_only_arrays: BTreeMap<String, &'static str>,
    /// Files that were put into the container's directory and are no part of it; told by `info`
    /// alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

#[derive(Serialize)]
pub struct UnreadableDescription {
    pub name: String,
    pub reason: String,
    /// Not damaged; what is stands among the faults.
    #[serde(skip)]
    pub is_whole: bool,
    #[serde(flatten)]
    pub details: ArrayDetails,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

/// A type, as an array of it would be shown.
#[derive(Serialize)]
pub struct TypeDescription {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Dimensions that each element has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Why an array of it could not be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    #[serde(flatten)]
    pub details: ArrayDetails,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

#[derive(Serialize)]
pub struct ArrayDescription {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub order: &'static str,
    pub bytes: u64,
    /// `null` if nobody has counted.
    pub stored_bytes: Option<u64>,
    pub blocks: u64,
    pub codec: Cow<'static, str>,
    /// `null` if it has a type but no space for elements; the shape of such an array is that of an
    /// empty one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<&'static str>,
    /// Chunks that skip the filters; how many is told by `info` alone.
    #[serde(skip_serializing_if = "Unfiltered::is_none")]
    pub unfiltered: Unfiltered,
    /// Values of a text that have line feeds of their own, and how many; told if the lines are more
    /// than the values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub line_feeds: Vec<OwnFeeds>,
    #[serde(flatten)]
    pub details: ArrayDetails,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
}

impl TypeDescription {
    fn new(
        dtype: std::result::Result<(Dtype, Vec<u64>), String>,
        (attributes, details): (Attributes, ArrayDetails),
    ) -> Self {
        let (dtype, shape, unreadable) = match dtype {
            Ok((dtype, shape)) => (Some(dtype.name().into_owned()), shape, None),
            Err(why) => (None, Vec::new(), Some(why)),
        };
        TypeDescription {
            dtype,
            shape,
            unreadable,
            details,
            attributes,
        }
    }
}

impl Description<'_> {
    /// Leaves out the arrays, and what cannot be shown, by other names.
    pub fn keep(&mut self, is_kept: &dyn Fn(&str) -> bool) {
        self.arrays.retain(|array| is_kept(&array.name));
        self.unreadable.retain(|member| is_kept(&member.name));
    }

    /// Its text as that of `arrays.json`.
    pub fn into_text(self) -> Vec<u8> {
        self.text(LONGEST)
    }

    /// Its text: without details, if that were longer than `most`.
    fn text(mut self, most: usize) -> Vec<u8> {
        let text = lines::text(&self);
        if text.len() <= most {
            return text;
        }
        self.omitted = Some(format!(
            "types, layouts, filters and links: with them this text has {} bytes, more than {most}",
            text.len()
        ));
        drop(text);
        self.leave_out_details();
        lines::text(&self)
    }

    fn leave_out_details(&mut self) {
        let arrays = self.arrays.iter_mut().map(|array| &mut array.details);
        let unreadable = self.unreadable.iter_mut().map(|member| &mut member.details);
        let types = self.types.values_mut().map(|of| &mut of.details);
        for details in arrays.chain(unreadable).chain(types) {
            *details = ArrayDetails::default();
        }
        self.file = FileDetails::default();
        self.attribute_types.clear();
        self.group_details.clear();
    }
}

impl ArrayDescription {
    fn new(name: String, info: Info, (attributes, details): (Attributes, ArrayDetails)) -> Self {
        let stored_bytes = info.stored();
        ArrayDescription {
            name,
            dtype: info.dtype.name().into_owned(),
            shape: info.shape,
            order: info.order.name(),
            bytes: info.bytes,
            stored_bytes,
            blocks: info.blocks,
            codec: info.codec,
            space: None,
            unfiltered: Unfiltered::default(),
            line_feeds: Vec::new(),
            details,
            attributes,
        }
    }
}

/// What is told of arrays, types and groups, by their paths, until it has been told.
struct DescribedParts {
    attributes: BTreeMap<String, Attributes>,
    details: BTreeMap<String, ArrayDetails>,
}

impl DescribedParts {
    fn take(&mut self, path: &str) -> (Attributes, ArrayDetails) {
        let attributes = self.attributes.remove(path);
        let details = self.details.remove(path);
        (attributes.unwrap_or_default(), details.unwrap_or_default())
    }
}

/// Describes a container and those inside of it. An array whose description fails is left out; its
/// fault is among the faults, or the reason among what is unreadable.
pub fn describe(container: &Arc<Container>, read: TextsToRead) -> Result<Description<'_>> {
    let texts = TextsLookedInto::new(read);
    describe_arrays(container, &|located| texts.told_of(located))
}

fn describe_arrays<'a>(
    container: &'a Arc<Container>,
    told: &dyn Fn(&Located) -> Result<ToldArray>,
) -> Result<Description<'a>> {
    let mut untold = DescribedParts {
        attributes: container.all_described(),
        details: container.all_details(),
    };
    let own = untold.details.remove("").unwrap_or_default();
    let listed = list_arrays(container, told, &mut untold)?;
    let unreadable = container.all_unreadable().into_iter();
    let unreadable = unreadable.map(|(group, member)| {
        let name = join(&group, &member.name);
        let (attributes, details) = untold.take(&name);
        UnreadableDescription {
            name,
            reason: member.reason,
            is_whole: member.is_whole,
            details,
            attributes,
        }
    });
    let unreadable: Vec<_> = unreadable.chain(listed.late).collect();
    let types = container.all_types().into_iter();
    let types = types.map(|(group, committed)| {
        let name = join(&group, &committed.name);
        let told = untold.take(&name);
        (name, TypeDescription::new(committed.dtype, told))
    });
    let types = types.collect();
    let inner = container.all().into_iter().skip(1);
    let links = container.links.iter();
    Ok(Description {
        format: container.format,
        version: &container.version,
        file: file_details(&container.file, &listed.arrays),
        arrays: listed.arrays,
        attributes: &container.attributes,
        attribute_types: own.attribute_types,
        groups: untold.attributes,
        group_details: untold.details,
        omitted: None,
        unreadable,
        types,
        links: links
            .map(|link| (link.name.clone(), link.target.clone()))
            .collect(),
        containers: inner
            .map(|(path, inner)| (path.to_string(), inner.format))
            .collect(),
        read_only: None,
        read_only_arrays: BTreeMap::new(),
        beside: Vec::new(),
        faults: listed.faults,
    })
}

/// As they are with these arrays: an unlimited dimension is as long as its longest array.
fn file_details(stored: &FileDetails, arrays: &[ArrayDescription]) -> FileDetails {
    let mut details = stored.clone();
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    for array in arrays {
        for (name, &len) in array.details.dims.iter().zip(&array.shape) {
            if let Some(name) = name {
                let so_far = longest.entry(name).or_default();
                *so_far = len.max(*so_far);
            }
        }
    }
    for (name, dimension) in &mut details.dimensions {
        if let (true, Some(&len)) = (dimension.unlimited, longest.get(name.as_str())) {
            dimension.length = len;
        }
    }
    details
}

/// The arrays that can be described, and why the others cannot.
struct ListedArrays {
    arrays: Vec<ArrayDescription>,
    /// Not shown, which came out only when they were described.
    late: Vec<UnreadableDescription>,
    faults: Vec<String>,
}

fn list_arrays(
    container: &Arc<Container>,
    told: &dyn Fn(&Located) -> Result<ToldArray>,
    untold: &mut DescribedParts,
) -> Result<ListedArrays> {
    let without_space = container.all_without_space();
    let (mut arrays, mut late) = (Vec::new(), Vec::new());
    let mut faults = texts(container.all_faults());
    for located in container.all_arrays() {
        let path = located.path();
        let (attributes, details) = untold.take(&path);
        match told(&located) {
            Ok((info, line_feeds)) => {
                let space = without_space.contains(&path).then_some("null");
                let described = ArrayDescription::new(path, info, (attributes, details));
                arrays.push(ArrayDescription {
                    space,
                    unfiltered: located.array.unfiltered(false).unwrap_or_default(),
                    line_feeds: line_feeds.to_vec(),
                    ..described
                });
            }
            Err(fault @ Error::Fault(_)) => faults.push(located.locate(fault).to_string()),
            Err(Error::NotShown(not)) => late.push(UnreadableDescription {
                name: path,
                reason: not.why,
                is_whole: true,
                details,
                attributes,
            }),
            Err(other) => return Err(other),
        }
    }
    Ok(ListedArrays {
        arrays,
        late,
        faults,
    })
}

fn texts(faults: Vec<crate::error::Fault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// How many times smaller the array is stored than shown.
pub fn ratio(info: &Info) -> Option<f64> {
    let stored = info.stored().filter(|stored| *stored > 0);
    stored.map(|stored| info.bytes as f64 / stored as f64)
}

/// The text of `arrays.json`.
pub fn arrays_json(container: &Arc<Container>) -> Result<Vec<u8>> {
    let told = arrays_json_restated(container, &[], TextsToRead::All);
    told.map(|told| told.text)
}

/// The text of `arrays.json` of a container with changes that are not stored. `restated`: of it and
/// of those inside, in the order of [`Container::all`], as far as there is any.
pub fn arrays_json_restated(
    container: &Arc<Container>,
    restated: &[Arc<Restated>],
    read: TextsToRead,
) -> Result<ToldText<Vec<u8>>> {
    let tell = |description: Description<'_>| description.text(LONGEST);
    with_restated(container, restated, read, tell)
}

/// The text of `arrays.json` of each group that has something in it and is no container, by its
/// path.
pub fn groups_json(
    container: &Arc<Container>,
    restated: &[Arc<Restated>],
    read: TextsToRead,
) -> Result<ToldText<HashMap<String, Vec<u8>>>> {
    with_restated(container, restated, read, groups::texts)
}

/// Of a group that has nothing in it.
pub fn empty_group_json(container: &Container) -> Vec<u8> {
    groups::empty(container.format)
}

fn with_restated<T>(
    container: &Arc<Container>,
    restated: &[Arc<Restated>],
    read: TextsToRead,
    tell: impl FnOnce(Description<'_>) -> T,
) -> Result<ToldText<T>> {
    let own = restated.first();
    let own_attributes = own.map(|own| &own.attributes).into_iter().flatten();
    // The description, and a text that grows: while it does, there are two.
    let room = 4 * weight(container) as u64;
    set_aside(room, "cannot describe a container", || {
        let mut attributes = container.attributes.clone();
        attributes.extend(own_attributes.map(|(name, value)| (name.clone(), value.clone())));
        let texts = TextsLookedInto::new(read);
        let told = |located: &Located| {
            let part = restated.get(located.container.0);
            match part.and_then(|part| part.arrays.get(located.array.name())) {
                // Staged text is its lines.
                Some(info) => Ok((info.clone(), Arc::default())),
                None => texts.told_of(located),
            }
        };
        let mut described = describe_arrays(container, &told)?;
        let parts = container.all().into_iter().zip(restated);
        for ((group, _), restated) in parts {
            for (path, attributes) in &restated.groups {
                let described = described.groups.entry(join(&group, path)).or_default();
                let attributes = attributes.iter();
                described.extend(attributes.map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        let description = Description {
            version: own
                .and_then(|own| own.version.as_deref())
                .unwrap_or(&container.version),
            attributes: &attributes,
            ..described
        };
        Ok(ToldText {
            text: tell(description),
            is_whole: texts.is_whole(),
        })
    })?
}

#[cfg(test)]
mod tests;
