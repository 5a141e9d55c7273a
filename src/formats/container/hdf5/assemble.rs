//! From the index of a file to a container: shown names, groups, links, arrays, and the containers
//! of other formats that lie in groups. Used by `mod` when a file is opened.
//!
//! Every group belongs to a draft: the file itself, or the innermost Binsparse or BPCells container
//! around it. Names within a draft are paths from its own group. [`role`] finds out what a group
//! is, [`attributes`] and [`details`] say what `arrays.json` tells beside arrays, [`missing`] what
//! is none; [`anndata`] and [`binsparse_group`] find the rules that arrays of a group have to keep.

mod anndata;
mod attributes;
mod binsparse_group;
mod details;
mod dimensions;
mod further_names;
mod missing;
mod names;
mod role;

use std::collections::HashSet;
use std::sync::Arc;

use super::dataset::{self, DatasetArray, OpenedDataset};
use super::fields::GroupFields;
use super::index::{self, AttributeEntry, FileIndex, GroupEntry, LinkEntry, LinkTarget};
use super::known_file::KnownFile;
use super::write::{
    self, BpcellsRules, GroupRules, SparseRules, WrittenDataset, WrittenGroup, WrittenTexts,
};
use crate::array::Array;
use crate::array::nested::NestedBlocks;
use crate::container::inside::join;
use crate::container::names::shown_as;
use crate::container::stored::FileDetails;
use crate::container::{Attributes, Container, Inner, Link, Unreadable, binsparse, bpcells};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::budget::Budget;
use crate::source::Source;
use binsparse_group::BinsparseGroup;
pub(super) use details::of_packed;
use details::{StoredNames, committed_type};
use further_names::{DatasetNames, NamedDataset};
pub(super) use missing::no_dataset;
use missing::{left_out, needed, not_a_dataset, problems};
use names::LinkPlace;
use role::{GroupRole, role};

/// A container while it is put together.
struct Draft {
    container: Container,
    /// The draft that it lies in; the first lies in itself.
    parent: usize,
    /// Path of its group within that draft, and from the root.
    path: String,
    full: String,
    /// Its datasets that can be written.
    written: Vec<WrittenDataset>,
    texts: Vec<WrittenTexts>,
    /// Those that have further names.
    named: Vec<NamedDataset>,
    /// Rules that its arrays have to keep: those of a Binsparse container, and of groups in it.
    sparse: Option<SparseRules>,
    bpcells: Option<BpcellsRules>,
    rules: Vec<Box<dyn GroupRules>>,
    binsparse: Option<BinsparseGroup>,
}

/// Where a group is shown.
struct ShownGroup {
    draft: usize,
    /// Path within the draft; empty for the draft's own group.
    path: String,
    full: String,
}

pub(super) struct Assembly<'a> {
    index: &'a FileIndex,
    known: &'a KnownFile,
    source: Arc<dyn Source>,
    names: DatasetNames,
    /// For arrays that are decoded from others.
    pub(super) nested: Arc<NestedBlocks>,
    stored: StoredNames<'a>,
}

/// Makes the container of a file of this structure. What is wrong with parts of it is among its
/// faults.
pub(super) fn container(
    known: &KnownFile,
    index: &FileIndex,
    budget: &Arc<Budget>,
) -> Result<Container> {
    let assembly = Assembly {
        index,
        known,
        source: Arc::clone(&known.file) as _,
        names: DatasetNames::of(index),
        nested: NestedBlocks::new(budget),
        stored: StoredNames::of(index),
    };
    let (mut drafts, mut places) = (Vec::new(), Vec::new());
    for (number, group) in index.groups.iter().enumerate() {
        assembly.place(number, group, &mut drafts, &mut places)?;
    }
    let mut details = assembly.stored.file(&places);
    for (number, group) in index.groups.iter().enumerate() {
        assembly.add_group((number, group), &mut drafts, &places, &mut details)?;
    }
    anndata::add_rules(index, &places, &mut drafts);
    let further_names = assembly.names.assign(&mut drafts);
    if let Some(draft) = drafts.first_mut() {
        draft.container.file = Arc::new(details);
        draft.container.further_names = Arc::new(further_names);
        draft.container.faults.extend(problems(index));
        draft.container.add_unreadable(left_out(index));
    }
    let (mut container, written) = finish(drafts)?;
    write::offer(&mut container, (known, index), written)?;
    Ok(container)
}

/// An array that a container needs, and the same as it can be written.
pub(super) type NeededArray = (Arc<dyn Array>, Option<Arc<DatasetArray>>);

impl<'a> Assembly<'a> {
    pub(super) fn dataset(&self, target: &LinkTarget) -> Option<&'a index::DatasetEntry> {
        self.index.dataset(target)
    }

    /// Opens a dataset that a container needs as an array of this name: what cannot be shown is a
    /// fault. Also as it can be written.
    pub(super) fn open(&self, name: &str, dataset: &index::DatasetEntry) -> Result<NeededArray> {
        match self.open_from(&self.source, name, dataset)? {
            OpenedDataset::Array {
                array,
                dataset,
                trouble: None,
            } => Ok((array, dataset)),
            OpenedDataset::Array {
                trouble: Some(error),
                ..
            } => Err(error.needed()),
            OpenedDataset::NotShown(why) => Err(Error::from(NotShown::new(why)).needed()),
        }
    }

    fn open_from(
        &self,
        source: &Arc<dyn Source>,
        name: &str,
        dataset: &index::DatasetEntry,
    ) -> Result<OpenedDataset> {
        let tables = Arc::clone(&self.known.tables);
        dataset::open(name, source, self.index, dataset, &self.nested, tables)
    }

    /// Finds out where a group is shown; its parent has been placed before.
    fn place(
        &self,
        number: usize,
        group: &GroupEntry,
        drafts: &mut Vec<Draft>,
        places: &mut Vec<ShownGroup>,
    ) -> Result<()> {
        let (parent, path, full) = match places.get(group.parent as usize) {
            _ if number == 0 => (0, String::new(), String::new()),
            Some(place) => {
                let reserved = place.path.is_empty();
                let name = self.shown_name(group, reserved);
                (
                    place.draft,
                    join(&place.path, &name),
                    join(&place.full, &name),
                )
            }
            None => return Err(Fault::new("a group lies in none").found(number).into()),
        };
        let role = role(self.index, group);
        if number > 0 && matches!(role, GroupRole::Plain) {
            places.push(ShownGroup {
                draft: parent,
                path,
                full,
            });
            return Ok(());
        }
        let draft = drafts.len();
        drafts.push(self.draft(group, role, parent, (path, full.clone()))?);
        places.push(ShownGroup {
            draft,
            path: String::new(),
            full,
        });
        Ok(())
    }

    /// The name of a group in its parent.
    fn shown_name(&self, group: &GroupEntry, reserved: bool) -> String {
        let at = self.link_to(group).map_or(0, |(at, _)| at);
        // Names in a group differ, so each is shown by itself but for its number.
        shown_as(&group.name, at, reserved)
    }

    /// The link to a group at its place, and its number.
    fn link_to(&self, group: &GroupEntry) -> Option<(usize, &'a LinkEntry)> {
        let links = &self.index.groups.get(group.parent as usize)?.links;
        let at = links.binary_search_by(|link| link.name.cmp(&group.name));
        let at = at.ok()?;
        Some((at, &links[at]))
    }

    fn json(&self, attributes: &[AttributeEntry], except: &[u8]) -> Result<Attributes> {
        attributes::json(attributes, except, self.stored.netcdf4.is_some())
    }

    fn draft(
        &self,
        group: &GroupEntry,
        role: GroupRole,
        parent: usize,
        (path, full): (String, String),
    ) -> Result<Draft> {
        let (mut binsparse, mut rules) = (None, None);
        let version = format!("superblock {}", self.index.superblock);
        let mut container = match role {
            GroupRole::Plain => Container::new(super::NAME, version),
            GroupRole::Binsparse(descriptor) => {
                binsparse = Some(BinsparseGroup::new(group, descriptor));
                Container::new(binsparse::DESCRIPTOR, "")
            }
            GroupRole::BpCells(version, text) => {
                let fields = GroupFields::new(self, group);
                match needed(bpcells::open(&fields, version, &text))? {
                    Ok(mut container) => {
                        fields.detail(&mut container, version)?;
                        rules = fields.into_rules(&container, version);
                        container
                    }
                    Err(fault) => Container::refused(bpcells::NAME, fault),
                }
            }
        };
        let except: &[u8] = match container.format {
            bpcells::NAME => b"version",
            _ => binsparse::DESCRIPTOR.as_bytes(),
        };
        if binsparse.is_some() || container.format == bpcells::NAME {
            // The others follow from the arrays.
            container.describe("", self.json(&group.attributes, except)?);
        }
        let attributes = self.json(&group.attributes, except)?;
        container.attributes.extend(attributes);
        let (bpcells, texts) = rules.unzip();
        Ok(Draft {
            container,
            parent,
            path,
            full,
            written: Vec::new(),
            texts: texts.unwrap_or_default(),
            named: Vec::new(),
            sparse: None,
            bpcells,
            rules: Vec::new(),
            binsparse,
        })
    }

    /// Adds the members of a group to its draft.
    fn add_group(
        &self,
        (number, group): (usize, &GroupEntry),
        drafts: &mut [Draft],
        places: &[ShownGroup],
        file: &mut FileDetails,
    ) -> Result<()> {
        let Some(place) = places.get(number) else {
            return Ok(());
        };
        let own = place.path.is_empty();
        let Some(draft) = drafts.get_mut(place.draft) else {
            return Ok(());
        };
        self.describe_group(place, (number, group), draft, places)?;
        let taken = if own {
            draft.shown_already()
        } else {
            HashSet::new()
        };
        for (at, link) in group.links.iter().enumerate() {
            let name = names::of_link(self.index, (number, at), own);
            if own && (taken.contains(&name) || draft.is_member(&link.name)) {
                continue;
            }
            let path = join(&place.path, &name);
            let full = join(&place.full, &name);
            let own_place = LinkPlace {
                group: number,
                link: at,
            };
            match &link.target {
                LinkTarget::Group(to) => {
                    let here = self.index.groups.get(*to as usize);
                    let is_place = here.is_some_and(|group| {
                        let is_here = group.parent as usize == number && group.name == link.name;
                        *to > 0 && is_here && link.soft.is_none()
                    });
                    if let (false, Some(target)) = (is_place, places.get(*to as usize)) {
                        let target = target.full.clone();
                        let links = Arc::make_mut(&mut draft.container.links);
                        links.push(Link { name: path, target });
                        let named = (&full[..], own_place, link);
                        self.stored.add_link(file, named, places);
                    }
                }
                _ => {
                    let named = (&full[..], own_place, link);
                    self.stored.add_link(file, named, places);
                    self.add_member(draft, own, (path, link), places)?;
                }
            }
        }
        Ok(())
    }

    /// Adds what a group has beside members.
    fn describe_group(
        &self,
        place: &ShownGroup,
        (number, group): (usize, &GroupEntry),
        draft: &mut Draft,
        places: &[ShownGroup],
    ) -> Result<()> {
        let path = &place.path;
        if !path.is_empty() {
            Arc::make_mut(&mut draft.container.groups).push(path.clone());
            let attributes = self.json(&group.attributes, b"")?;
            draft.container.describe(path, attributes);
        }
        let link = self.link_to(group).filter(|_| number > 0);
        let link = link.map(|(_, link)| link);
        let details = self.stored.group(link, &group.attributes, places)?;
        draft.container.detail(path, details);
        Ok(())
    }

    /// Adds a dataset, or what cannot be one.
    fn add_member(
        &self,
        draft: &mut Draft,
        own: bool,
        (path, link): (String, &LinkEntry),
        places: &[ShownGroup],
    ) -> Result<()> {
        let target = &link.target;
        if let LinkTarget::Type(number) = target
            && let Some(committed) = self.index.types.get(*number as usize)
        {
            let details = self.stored.committed(link, committed, places)?;
            draft.container.detail(&path, details);
            let attributes = self.json(&committed.attributes, b"")?;
            draft.container.describe(&path, attributes);
            draft.container.types.push(committed_type(path, committed));
            return Ok(());
        }
        let array = match (target, self.dataset(target)) {
            (_, Some(dataset)) if attributes::is_dimension_alone(&dataset.attributes) => {
                return Ok(());
            }
            (_, Some(dataset)) => {
                let details = self.stored.dataset(link, dataset, places)?;
                draft.container.detail(&path, details);
                self.add_dataset(draft, &path, (target, dataset))?
            }
            (other, None) => Err(not_a_dataset(&path, other)),
        };
        if let (true, Some(group)) = (own, &mut draft.binsparse) {
            group.members.push(binsparse::Member {
                name: path,
                array: array.clone().map_err(|unreadable| unreadable.reason),
            });
        }
        draft.container.add_unreadable(array.err());
        Ok(())
    }

    /// Whether no other name leads to a dataset, too.
    pub(super) fn has_one_name(&self, target: &LinkTarget) -> bool {
        match target {
            LinkTarget::Dataset(number) => self.names.is_only(*number),
            _ => false,
        }
    }

    /// The array, or why it cannot be read.
    fn add_dataset(
        &self,
        draft: &mut Draft,
        path: &str,
        (target, dataset): (&LinkTarget, &index::DatasetEntry),
    ) -> Result<std::result::Result<Arc<dyn Array>, Unreadable>> {
        let container = &mut draft.container;
        container.describe(path, self.json(&dataset.attributes, b"")?);
        // An array has an entry of its own, whose bytes are an error.
        let unreadable = |reason, is_whole, entry| Unreadable {
            name: path.to_owned(),
            reason,
            is_whole,
            entry,
        };
        let own = self.known.own_source(dataset);
        let source = own.clone().map(|own| own as Arc<dyn Source>);
        let source = source.as_ref().unwrap_or(&self.source);
        let (error, shown) = match self.open_from(source, path, dataset) {
            Ok(OpenedDataset::NotShown(why)) => return Ok(Err(unreadable(why, true, true))),
            Ok(OpenedDataset::Array {
                array,
                dataset: opened,
                trouble,
            }) => {
                container.arrays.push(Arc::clone(&array));
                if dataset.dims.is_none() {
                    Arc::make_mut(&mut container.without_space).insert(path.to_owned());
                }
                match trouble {
                    Some(error) => (error, true),
                    None => {
                        let is_plain = draft.container.format != bpcells::NAME;
                        let (written, is_free) = (opened.filter(|_| is_plain), draft.has_lengths());
                        let has_one_name = self.has_one_name(target);
                        let text = WrittenTexts::of(&array, dataset, is_free);
                        let text = text.filter(|_| is_plain && has_one_name);
                        let written =
                            written.and_then(|one| WrittenDataset::of(&one, dataset, is_free));
                        let written = written.map(|one| one.read_through(own));
                        let is_read = is_plain && text.is_none() && written.is_none();
                        let container = &mut draft.container;
                        write::note_why_not(container, path, (dataset, has_one_name), is_read);
                        draft.texts.extend(text);
                        draft.add_written((path, target), written, has_one_name);
                        return Ok(Ok(array));
                    }
                }
            }
            Err(error) => (error, false),
        };
        Ok(Err(match error {
            Error::NotShown(not) => unreadable(not.why, true, !shown),
            Error::Fault(fault) => {
                let reason = fault.to_string();
                container.faults.push(fault.array(path));
                unreadable(reason, false, false)
            }
            other => return Err(other),
        }))
    }
}

impl Draft {
    /// Names that the draft has before its group's own members are added.
    fn shown_already(&self) -> HashSet<String> {
        let arrays = self.container.arrays.iter();
        let texts = self.container.texts.iter();
        let names = arrays.map(|array| array.name().to_owned());
        names.chain(texts.map(|text| text.name.clone())).collect()
    }

    /// Whether a dataset has been used up by the draft.
    fn is_member(&self, name: &[u8]) -> bool {
        let is = |member: &&str| member.as_bytes() == name;
        self.container.format == bpcells::NAME && bpcells::MEMBERS.iter().any(is)
    }
}

/// Puts the drafts into each other, the innermost first: each comes after the one it lies in.
fn finish(mut drafts: Vec<Draft>) -> Result<(Container, Vec<WrittenGroup>)> {
    let mut written = Vec::new();
    while let Some(mut draft) = drafts.pop() {
        draft.examine()?;
        written.push(WrittenGroup {
            path: draft.full,
            datasets: draft.written.into_iter().map(Arc::new).collect(),
            texts: draft.texts.into_iter().map(Arc::new).collect(),
            sparse: draft.sparse,
            bpcells: draft.bpcells,
            rules: draft.rules,
        });
        draft.container.inner.reverse();
        let Some(outer) = drafts.get_mut(draft.parent) else {
            return Ok((draft.container, written));
        };
        outer.container.inner.push(Inner {
            path: draft.path,
            container: Arc::new(draft.container),
        });
    }
    Err(Fault::new("the file has no root group").into())
}
