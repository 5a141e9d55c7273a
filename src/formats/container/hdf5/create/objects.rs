//! What a new file consists of, in the order in which it is made: groups and types, datasets with
//! their texts, attributes, scales, links. Used by [`super`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::attributes::{GivenAttributes, container_text, shown};
use super::dataset::{self, ByPath, Committed};
use super::dimensions::GivenDimensions;
use super::maker::{IfRefused, Maker, Skeleton};
use super::packed_groups::PackedGroups;
use super::{NewFileKind, names, sparse, texts, types};
use crate::array::Array;
use crate::container::binsparse;
use crate::container::creation::{GivenContent, GivenDescription, VERSION};
use crate::container::hdf5::made::{MadeFill, MakeStep, NewFileForm};
use crate::container::hdf5::text_lines;
use crate::container::hdf5::worker::EditSession;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::BytesSource;

/// A file without values.
pub(super) struct MadeFile {
    pub(super) skeleton: Skeleton,
    /// Arrays whose values are to be told, with the tokens of their datasets.
    pub(super) arrays: Vec<(u64, Arc<dyn Array>)>,
    /// What could not be kept.
    pub(super) lost: Vec<String>,
}

pub(super) fn is_nothing(content: &GivenContent) -> bool {
    let is_empty = content.arrays.is_empty() && content.groups.is_empty();
    is_empty
        && content.links.is_empty()
        && content.descriptors.is_empty()
        && content.description.is_none()
}

pub(super) fn make(
    kind: NewFileKind,
    content: &GivenContent,
    budget: &Arc<Budget>,
) -> Result<MadeFile> {
    let usual = GivenDescription::default();
    let description = content.description.as_ref().unwrap_or(&usual);
    let packed = PackedGroups::of(content, budget)?;
    let content = packed.as_ref().map_or(content, |packed| &packed.content);
    let kind = match description.more.contains_key("netcdf4") {
        true => NewFileKind::NetCdf4,
        false => kind,
    };
    let description = &*kind.completed(description);
    let by_path = by_path(description, packed.as_ref());
    let broken = sparse::check(content, description, &by_path, budget)?;
    let nothing = BytesSource::new(Vec::new());
    let session = EditSession::create(form(kind, description), &nothing, budget)?;
    let mut objects = Objects {
        kind,
        content,
        description,
        by_path,
        versions: packed.as_ref().map(|packed| &packed.versions),
        maker: Maker::new(session, budget),
        arrays: Vec::new(),
        apart: BTreeSet::new(),
    };
    broken.into_iter().for_each(|what| objects.maker.lose(what));
    objects.make_groups()?;
    let dimensions = GivenDimensions::of(kind, content, description, &objects.by_path);
    objects.apart = dimensions.apart();
    dimensions.make_alone(&mut objects.maker)?;
    let links = objects.links();
    objects.make_datasets(&links)?;
    objects.make_attributes(&links)?;
    dimensions.attach(&mut objects.maker)?;
    objects.make_links(&links)?;
    objects.name_lost();
    let (skeleton, lost) = objects.maker.finish()?;
    Ok(MadeFile {
        skeleton,
        arrays: objects.arrays,
        lost,
    })
}

/// What is said of each array; of the datasets of BPCells containers, how these are.
fn by_path<'a>(description: &'a GivenDescription, packed: Option<&'a PackedGroups>) -> ByPath<'a> {
    let packed = packed.into_iter().flat_map(|packed| &packed.described);
    let all = description.arrays.iter().chain(packed);
    all.map(|array| (&*array.name, array)).collect()
}

fn form(kind: NewFileKind, description: &GivenDescription) -> NewFileForm {
    let version = description.version.as_deref().unwrap_or_default();
    let stated = version.strip_prefix("superblock ");
    let stated: u8 = stated.and_then(|stated| stated.parse().ok()).unwrap_or(0);
    let mut arrays = description.arrays.iter();
    let has_order = arrays.any(|array| array.more.contains_key("creation_order"));
    match kind {
        NewFileKind::Hdf5 => NewFileForm {
            superblock: stated.min(3),
            is_ordered: has_order,
        },
        NewFileKind::NetCdf4 => NewFileForm {
            superblock: stated.clamp(2, 3),
            is_ordered: true,
        },
    }
}

/// A further name of an object: where it leads.
enum NewLink {
    Hard(String),
    /// As it is stored.
    Soft(String),
}

type NewLinks<'a> = BTreeMap<&'a str, NewLink>;

struct Objects<'a> {
    kind: NewFileKind,
    content: &'a GivenContent,
    description: &'a GivenDescription,
    by_path: ByPath<'a>,
    /// Of BPCells containers, by their paths.
    versions: Option<&'a BTreeMap<String, String>>,
    maker: Maker<'a>,
    arrays: Vec<(u64, Arc<dyn Array>)>,
    /// Variables that are stored under another name.
    apart: BTreeSet<String>,
}

impl<'a> Objects<'a> {
    fn member(&self, key: &str) -> Option<&'a Map<String, Value>> {
        self.description.more.get(key).and_then(Value::as_object)
    }

    fn stored(&self, name: &str) -> Result<Vec<u8>> {
        let path = names::stored(name).map_err(Error::Invalid)?;
        Ok(match self.apart.contains(name) {
            true => names::apart(path),
            false => path,
        })
    }

    fn make_groups(&mut self) -> Result<()> {
        let order = self.member("group_details");
        let order = |path: &String| {
            let details = order.and_then(|details| details.get(path));
            let order = details.and_then(|details| details["creation_order"].as_u64());
            (path.matches('/').count(), order.unwrap_or(u64::MAX))
        };
        let mut groups: Vec<&String> = self.content.groups.iter().collect();
        groups.sort_by_key(|path| order(path));
        for group in groups {
            let path = self.stored(group)?;
            let about = (group.clone(), IfRefused::Ends);
            self.maker
                .add(MakeStep::Group { path }, about, group.len())?;
        }
        for (name, stated) in self.committed().into_iter().flatten() {
            let about = format!("{name}: a committed type");
            match (types::read(stated.get("type")), names::stored(name)) {
                (Ok(element), Ok(path)) => {
                    let bytes = element.weight();
                    let step = MakeStep::Type { path, element };
                    self.maker.add(step, (about, IfRefused::Lost), bytes)?;
                }
                (Err(why), _) | (_, Err(why)) => self.maker.lose(format!("{about}: {why}")),
            }
        }
        Ok(())
    }

    fn committed(&self) -> Committed<'a> {
        self.member("types")
    }

    /// Names of what has another one. Two arrays that have become different are two.
    fn links(&mut self) -> NewLinks<'a> {
        let mut links = NewLinks::new();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for (name, to) in self.member("soft_links").into_iter().flatten() {
            links.extend(text(to).map(|to| (&**name, NewLink::Soft(to))));
        }
        for (name, to) in self.member("hard_links").into_iter().flatten() {
            links.extend(text(to).map(|to| (&**name, NewLink::Hard(to))));
        }
        for (name, to) in &self.content.links {
            let soft = || NewLink::Soft(format!("/{to}"));
            links.entry(name).or_insert_with(soft);
        }
        let arrays: BTreeMap<&str, &Arc<dyn Array>> = self
            .content
            .arrays
            .iter()
            .map(|array| (array.name(), array))
            .collect();
        let budget = self.maker.budget();
        links.retain(|name, link| {
            let to = match link {
                NewLink::Hard(to) => to.clone(),
                NewLink::Soft(to) => absolute(name, to),
            };
            match (arrays.get(name), arrays.get(&*to)) {
                (Some(one), Some(other)) => is_same(&***one, &***other, budget),
                (Some(_), None) => false,
                (None, _) => true,
            }
        });
        links
    }

    fn make_datasets(&mut self, links: &NewLinks<'_>) -> Result<()> {
        let by_path = &self.by_path;
        let order = |array: &Arc<dyn Array>| {
            let described = by_path.get(array.name());
            let order = described.and_then(|array| array.more.get("creation_order")?.as_u64());
            order.unwrap_or(u64::MAX)
        };
        let mut arrays: Vec<&Arc<dyn Array>> = self.content.arrays.iter().collect();
        arrays.retain(|array| !links.contains_key(array.name()));
        arrays.sort_by_key(|array| order(array));
        arrays
            .into_iter()
            .try_for_each(|array| self.make_dataset(array))
    }

    fn make_dataset(&mut self, array: &Arc<dyn Array>) -> Result<()> {
        let name = array.name();
        let described = self.by_path.get(name).copied();
        let (committed, mut lost) = (self.committed(), Vec::new());
        let of = (name, array.info()?.bytes);
        let mut new = dataset::of(of, described, (self.kind, committed), &mut lost)?;
        lost.into_iter()
            .for_each(|what| self.maker.lose(format!("{name}: {what}")));
        if new.is_text && described.is_none_or(|array| array.more.get("type").is_none()) {
            new.made.fill = MadeFill::Usual;
        }
        new.made.path = self.stored(name)?;
        let step = |new: &dataset::NewDataset| MakeStep::Dataset(Box::new(new.made.clone()));
        let mut made = self.maker.now(step(&new))?;
        if let (Err(why), true) = (&made, new.made.fill != MadeFill::Usual) {
            self.maker.lose(format!("{name}: its fill value: {why}"));
            new.made.fill = MadeFill::Usual;
            made = self.maker.now(step(&new))?;
        }
        let token = made.map_err(|why| Error::Invalid(format!("{name}: {why}")))?;
        match (new.is_text, &new.made.dims) {
            (_, None) => {}
            (true, Some(_)) => texts::put(array, described, &new.made, &mut self.maker)?,
            (false, Some(_)) => self.arrays.push((token, Arc::clone(array))),
        }
        Ok(())
    }

    fn make_attributes(&mut self, links: &NewLinks<'_>) -> Result<()> {
        // What is said of a container of another format follows from it; its own is beside that.
        let (of_file, none) = (&self.description.attributes, Map::new());
        let of_file = match self.container_attribute("").is_some() {
            true => self.own_attributes("").unwrap_or(&none),
            false => of_file,
        };
        self.attributes_of("", of_file, self.types_of(""))?;
        for (group, values) in self.member("groups").into_iter().flatten() {
            let types = self.types_of(group);
            match values.as_object() {
                Some(values) if self.content.groups.contains(group) => {
                    self.attributes_of(group, values, types)?;
                }
                _ => {}
            }
        }
        let there: HashSet<&str> = self
            .content
            .arrays
            .iter()
            .map(|array| array.name())
            .collect();
        let is_own = |name: &str| there.contains(name) && !links.contains_key(name);
        for array in &self.description.arrays {
            if is_own(&array.name) {
                let types = array.more.get("attribute_types");
                self.attributes_of(&array.name, &array.attributes, types)?;
            }
        }
        for (name, stated) in self.committed().into_iter().flatten() {
            if let Some(values) = stated.get("attributes").and_then(Value::as_object) {
                self.attributes_of(name, values, stated.get("attribute_types"))?;
            }
        }
        self.make_descriptors()?;
        self.make_versions()
    }

    /// The attribute that makes a group a container.
    fn container_attribute(&self, group: &str) -> Option<&'static str> {
        let is_packed = |versions: &BTreeMap<String, String>| versions.contains_key(group);
        match self.content.descriptors.contains_key(group) {
            true => Some(binsparse::NAME),
            false => self.versions.is_some_and(is_packed).then_some(VERSION),
        }
    }

    fn own_attributes(&self, group: &str) -> Option<&'a Map<String, Value>> {
        self.member("groups")?.get(group)?.as_object()
    }

    /// What is said of the types of a group's attributes.
    fn types_of(&self, group: &str) -> Option<&'a Value> {
        let details = match group {
            "" => return self.description.more.get("attribute_types"),
            group => self.member("group_details")?.get(group)?,
        };
        details.get("attribute_types")
    }

    fn attributes_of(
        &mut self,
        name: &str,
        values: &Map<String, Value>,
        types: Option<&Value>,
    ) -> Result<()> {
        let path = self.stored(name)?;
        let attributes = GivenAttributes {
            name,
            path: &path,
            values,
            types,
            except: self.container_attribute(name),
        };
        attributes.make(&mut self.maker)
    }

    /// What makes a group a Binsparse container.
    fn make_descriptors(&mut self) -> Result<()> {
        let arrays = self.content.arrays.iter().map(|array| array.name());
        let arrays: HashSet<&str> = arrays.collect();
        for (group, text) in &self.content.descriptors {
            // It may lie in a dataset of that name.
            let in_dataset = [&**group, binsparse::NAME].join("/");
            if arrays.contains(in_dataset.trim_start_matches('/')) {
                continue;
            }
            let text = std::str::from_utf8(text);
            let invalid = |_| Error::Invalid(format!("{group}: binsparse.json is no text"));
            let text = text.map_err(invalid)?;
            let about = format!("{}: the Binsparse descriptor", shown(group));
            self.make_container_text((group, binsparse::NAME), text, about)?;
        }
        Ok(())
    }

    /// What makes a group a BPCells container.
    fn make_versions(&mut self) -> Result<()> {
        for (group, version) in self.versions.into_iter().flatten() {
            let about = format!("{}: the version of BPCells", shown(group));
            self.make_container_text((group, VERSION), version, about)?;
        }
        Ok(())
    }

    fn make_container_text(
        &mut self,
        (group, name): (&str, &str),
        text: &str,
        about: String,
    ) -> Result<()> {
        let types = self.types_of(group);
        let stated = types.and_then(|types| types.get(name));
        let made = container_text((self.stored(group)?, name), text, stated);
        let step = MakeStep::Attribute(made);
        self.maker
            .add(step, (about, IfRefused::Ends), 2 * text.len())
    }

    fn make_links(&mut self, links: &NewLinks<'_>) -> Result<()> {
        for (name, link) in links {
            let Ok(path) = names::stored(name) else {
                self.maker
                    .lose(format!("{name}: a link of a name that is none"));
                continue;
            };
            let step = match link {
                NewLink::Hard(to) => match names::stored(to) {
                    Ok(to) => MakeStep::HardLink { path, to },
                    Err(why) => {
                        self.maker.lose(format!("{name}: {why}"));
                        continue;
                    }
                },
                NewLink::Soft(to) => MakeStep::SoftLink {
                    path,
                    to: names::target(to),
                },
            };
            self.maker
                .add(step, ((*name).to_owned(), IfRefused::Lost), name.len())?;
        }
        Ok(())
    }

    /// What the description itself says that it cannot give.
    fn name_lost(&mut self) {
        let more = &self.description.more;
        for what in more
            .get("unreadable")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = |key: &str| what[key].as_str().unwrap_or("?");
            let (name, reason) = (text("name"), text("reason"));
            // One that leads nowhere is there all the same.
            let is_link = self
                .member("soft_links")
                .is_some_and(|links| links.contains_key(name));
            if !is_link {
                self.maker.lose(format!("{name}: {reason}"));
            }
        }
        for (name, _) in self.member("external_links").into_iter().flatten() {
            self.maker.lose(format!("{name}: a link to another file"));
        }
        if let Some(bytes) = more.get("user_block") {
            self.maker.lose(format!("the user block of {bytes} bytes"));
        }
        if more.contains_key("omitted") {
            self.maker
                .lose("how arrays are stored: arrays.json does not say it".into());
        }
    }
}

/// Where a soft link leads, from the root.
fn absolute(name: &str, to: &str) -> String {
    match to.strip_prefix('/') {
        Some(to) => to.to_owned(),
        None => match name.rsplit_once('/') {
            Some((group, _)) => format!("{group}/{to}"),
            None => to.to_owned(),
        },
    }
}

/// Whether two arrays hold the same; what cannot be read differs.
fn is_same(one: &dyn Array, other: &dyn Array, budget: &Arc<Budget>) -> bool {
    let len = |array: &dyn Array| array.info().map_or(u64::MAX, |info| info.bytes);
    text_lines::is_same((one, len(one)), (other, len(other)), budget).unwrap_or(false)
}
