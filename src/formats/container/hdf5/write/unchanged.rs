//! A look at a file as it would be: whatever was not to be changed must be as it was.
//!
//! The whole structure is read anew, through the patches, and compared with that of the opening:
//! groups, links, attributes, types, and of each dataset its type, layout, filters and place;
//! dimensions and stored bytes of those that change may differ, and the attributes that follow from
//! them are what they should be. No patch may lie over stored data that stay, and texts read as
//! they should ([`super::texts_unchanged`]). Used by [`super::edit_recipe`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::dataset::WrittenDataset;
use super::rules::ChangedAttribute;
use super::texts::PlannedTexts;
use super::texts_unchanged::{self, TextFile};
use crate::container::hdf5::index::details::AttributeStorage;
use crate::container::hdf5::index::{ChunkEntry, DatasetEntry, FileIndex, StorageLayout};
use crate::container::hdf5::worker::{self, IndexAnswer};
use crate::container::stored::{Padding, StoredType};
use crate::container::writable::ChangedArray;
use crate::error::{Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::Source;

/// Dimensions of the changed datasets, by their tokens.
type Expected = HashMap<u64, Vec<u64>>;

/// Stored bytes of the changed datasets, and bits of the filters that some chunk went through, by
/// their tokens.
pub(super) type ChangedSizes = HashMap<u64, (u64, u32)>;

/// What has been found out of a file as it is going to be.
pub(super) struct FoundAfter {
    pub(super) answer: IndexAnswer,
    /// Where chunks of texts are no more.
    pub(super) freed: RangeSet,
    pub(super) sizes: ChangedSizes,
}

/// What is to be another one than before.
pub(super) struct ExpectedChanges<'a> {
    datasets: Vec<&'a WrittenDataset>,
    dims: Expected,
    texts: &'a [PlannedTexts<'a>],
    attributes: &'a [ChangedAttribute],
}

impl<'a> ExpectedChanges<'a> {
    pub(super) fn new(
        datasets: &[(&'a WrittenDataset, &ChangedArray)],
        texts: &'a [PlannedTexts<'a>],
        attributes: &'a [ChangedAttribute],
    ) -> ExpectedChanges<'a> {
        let changed = datasets.iter().map(|(dataset, _)| *dataset).collect();
        let datasets = datasets.iter();
        let dims = datasets.map(|(dataset, change)| (dataset.token, dataset.dims_at(change.len)));
        let of_texts = texts.iter().map(|plan| (plan.texts.token, plan.dims()));
        ExpectedChanges {
            datasets: changed,
            dims: dims.chain(of_texts).collect(),
            texts,
            attributes,
        }
    }

    pub(super) fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// The datasets, if nothing but their values changes.
    pub(super) fn values_alone(&self) -> Option<&[&'a WrittenDataset]> {
        let is_else = self.has_texts() || !self.attributes.is_empty();
        (!is_else).then_some(&self.datasets)
    }
}

pub(super) struct UnchangedCheck<'a> {
    /// The file, and its structure.
    pub(super) before: (&'a Arc<dyn Source>, &'a IndexAnswer),
    pub(super) expected: &'a ExpectedChanges<'a>,
    /// All that is written, patches too.
    pub(super) put: &'a RangeSet,
    /// The part of it that nothing is known of.
    pub(super) unexplained: &'a RangeSet,
    /// Whether the library has taken room for values where a list in the file says that there is
    /// some, or where it lay free itself: nothing is known of such places.
    pub(super) took_room: bool,
    /// Where chunks were that are stored elsewhere now, or not at all.
    pub(super) freed: &'a RangeSet,
    pub(super) budget: &'a Arc<Budget>,
}

impl UnchangedCheck<'_> {
    /// Gives the structure that the file is going to have.
    pub(super) fn run(&self, after: &Arc<dyn Source>) -> Result<FoundAfter> {
        let expected = &self.expected.dims;
        let (mut old, _old) = self.before.1.read(self.budget)?;
        let (answer, (new, _new)) = worker::index(&**after, self.budget)?;
        self.check_all_stored(&old)?;
        let file = |source, index| TextFile { source, index };
        let files = (file(self.before.0, &old), file(after, &new));
        texts_unchanged::check(files, self.expected.texts, self.put, self.budget)?;
        let freed = texts_unchanged::freed(files, self.expected.texts, self.budget)?;
        expect_attributes(&mut old, &new, self.expected.attributes);
        let sizes = self.sizes(&new);
        let same = compare(old, new, expected).map_err(|what| {
            let fault = Fault::new("writing would change something else of the file");
            fault.found(what).into()
        });
        same.map(|()| FoundAfter {
            answer,
            freed,
            sizes,
        })
    }

    /// What an index says of the datasets that change.
    pub(super) fn sizes(&self, index: &FileIndex) -> ChangedSizes {
        let datasets = index.datasets.iter();
        let expected = &self.expected.dims;
        let changed = datasets.filter(|dataset| expected.contains_key(&dataset.token));
        let sizes = changed.map(|dataset| {
            let applied = match dataset.layout {
                StorageLayout::Chunked { applied, .. } => applied,
                _ => 0,
            };
            (dataset.token, (dataset.stored_bytes, applied))
        });
        sizes.collect()
    }

    /// Nothing is written over data that stay, of any dataset.
    pub(super) fn check_all_stored(&self, index: &FileIndex) -> Result<()> {
        index.datasets.iter().try_for_each(|dataset| {
            let changes = self.expected.dims.contains_key(&dataset.token);
            self.check_stored(dataset, changes)
        })
    }

    /// Nothing is written over data that stay.
    fn check_stored(&self, dataset: &DatasetEntry, changes: bool) -> Result<()> {
        let mut stored = stored(dataset);
        if let StorageLayout::Chunked { table: None, .. } = dataset.layout
            && (self.took_room || !self.unexplained.is_empty())
        {
            let chunks = worker::chunks(&**self.before.0, dataset.token, self.budget)?;
            let chunks = chunks.checked(u64::MAX)?;
            stored = chunks.iter().map(|chunk| place_of(&chunk)).collect();
        }
        // A changed dataset's own data are written over where they lie.
        let written = if changes { self.unexplained } else { self.put };
        for range in stored {
            if !self.freed.contains(&range) && written.overlapping(&range).is_some() {
                let fault = Fault::new("writing would change other stored data of the file");
                return Err(fault.bytes(range).into());
            }
        }
        Ok(())
    }
}

pub(super) fn place_of(chunk: &ChunkEntry) -> Range<u64> {
    chunk.address..chunk.address.saturating_add(chunk.size)
}

/// Where the data of a dataset lie, as far as the index says so.
fn stored(dataset: &DatasetEntry) -> Vec<Range<u64>> {
    match &dataset.layout {
        StorageLayout::Contiguous {
            address: Some(address),
        } => {
            let range = *address..address.saturating_add(dataset.stored_bytes);
            std::iter::once(range).collect()
        }
        StorageLayout::Chunked {
            table: Some(table), ..
        } => table.iter().map(place_of).collect(),
        _ => Vec::new(),
    }
}

/// The attributes as they are to be. One that is not there is none afterwards.
fn expect_attributes(index: &mut FileIndex, new: &FileIndex, changed: &[ChangedAttribute]) {
    for change in changed {
        let mut groups = index.groups.iter_mut();
        let group = groups.find(|group| group.token == change.group);
        let mut attributes = group.into_iter().flat_map(|group| &mut group.attributes);
        if let Some(attribute) = attributes.find(|attribute| attribute.name == change.name) {
            attribute.value = change.indexed();
            let now = attribute_of(new, change);
            if let (Some(stored), Some(now)) = (&mut attribute.stored, now)
                && is_alike(&stored.element, &now.element)
            {
                *stored = now.clone();
            }
        }
    }
}

fn attribute_of<'a>(
    index: &'a FileIndex,
    change: &ChangedAttribute,
) -> Option<&'a AttributeStorage> {
    let mut groups = index.groups.iter();
    let group = groups.find(|group| group.token == change.group)?;
    let mut attributes = group.attributes.iter();
    let found = attributes.find(|attribute| attribute.name == change.name)?;
    found.stored.as_ref()
}

/// Whether two types are alike, as a string of fixed length may be that is made anew: as
/// long as it has to be, and padded with NULs where its own padding would hide its end.
fn is_alike(before: &StoredType, now: &StoredType) -> bool {
    let fixed = |of: &StoredType| match of {
        StoredType::Text {
            size: Some(_),
            padding,
            charset,
        } => Some((*padding, *charset)),
        _ => None,
    };
    match (fixed(before), fixed(now)) {
        (Some((_, before)), Some((Padding::Zeros, now))) => before == now,
        (Some(before), Some(now)) => before == now,
        _ => before == now,
    }
}

/// What is different, and should not be.
fn compare(
    mut old: FileIndex,
    mut new: FileIndex,
    expected: &Expected,
) -> std::result::Result<(), String> {
    let datasets = |index: &mut FileIndex| std::mem::take(&mut index.datasets);
    let (before, after) = (datasets(&mut old), datasets(&mut new));
    if old != new {
        return Err(what_differs(&old, &new));
    }
    if before.len() != after.len() {
        let (before, after) = (before.len(), after.len());
        return Err(format!("{after} datasets instead of {before}"));
    }
    for (mut before, mut after) in before.into_iter().zip(after) {
        let token = before.token;
        if let Some(dims) = expected.get(&token) {
            if after.dims.as_ref() != Some(dims) {
                return Err(format!("dimensions {:?} instead of {dims:?}", after.dims));
            }
            forget_values(&mut before);
            forget_values(&mut after);
            before.dims.clone_from(&after.dims);
        }
        if before != after {
            return Err(format!("the dataset at {token} differs"));
        }
    }
    Ok(())
}

/// A group that differs, or its attribute.
fn what_differs(old: &FileIndex, new: &FileIndex) -> String {
    let mut groups = old.groups.iter().zip(&new.groups);
    let Some((before, after)) = groups.find(|(before, after)| before != after) else {
        return "links or types differ".into();
    };
    let name = String::from_utf8_lossy(&before.name);
    let mut attributes = before.attributes.iter().zip(&after.attributes);
    match attributes.find(|(before, after)| before != after) {
        Some((before, _)) => {
            let attribute = String::from_utf8_lossy(&before.name);
            format!("attribute {attribute:?} of group {name:?} differs")
        }
        None => format!("group {name:?} differs"),
    }
}

/// Takes away what a change of its values may change.
fn forget_values(dataset: &mut DatasetEntry) {
    dataset.stored_bytes = 0;
    match &mut dataset.layout {
        StorageLayout::Chunked { table, applied, .. } => (*table, *applied) = (None, 0),
        StorageLayout::Contiguous { address } => *address = None,
        StorageLayout::Compact(bytes) => bytes.clear(),
        StorageLayout::Texts(bytes, lengths) => {
            bytes.clear();
            lengths.clear();
        }
        _ => {}
    }
}
