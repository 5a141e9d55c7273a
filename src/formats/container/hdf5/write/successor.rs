//! A file after a commit, of which everything is known: nothing is asked of a worker again.
//!
//! Where nothing follows from the values that change, the arrays that the commit changes are made
//! anew, of those before and of where their chunks are then; everything else is shared with the
//! container before. That is so where there is no rule between arrays, no attribute, no dimension,
//! no further name; and where values do not lie in the header of a dataset, nor on a heap. Else the
//! container is made anew, of the structure that has been checked and of the tables of chunks that
//! have been read. Used by [`super`].

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use super::dataset::{WrittenDataset, WrittenPlace};
use super::edit_recipe::DoneEdit;
use super::{Hdf5File, WrittenGroup};
use crate::array::Array;
use crate::container::Container;
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::dataset::{ChangedStorage, DatasetArray};
use crate::container::hdf5::index::ChunkEntry;
use crate::container::hdf5::known_file::KnownFile;
use crate::container::hdf5::worker::{self, IndexAnswer};
use crate::container::inside::ContainerNumber;
use crate::container::writable::{ChangedArray, Successor};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::source::Source;
use crate::source::switched::{Handover, SwitchedSource};
use crate::sync::Mutex;

/// What the file is after the recipe that was told last.
pub(super) struct FileAfter {
    answer: Arc<IndexAnswer>,
    changes: ChangesAfter,
}

enum ChangesAfter {
    /// Of datasets, by their numbers among those of the outermost container; nothing follows.
    Values(Vec<(usize, ChangedStorage)>),
    /// Other ones: these are the tables of chunks, by the tokens of their datasets.
    Structure(HashMap<u64, ChunkTable>),
}

impl Hdf5File {
    /// What a recipe has told of these datasets; `is_else`: and of something else.
    pub(super) fn told(
        &self,
        changes: &[(&WrittenDataset, &ChangedArray)],
        is_else: bool,
        done: DoneEdit,
    ) -> FileAfter {
        let values = (!is_else).then(|| self.told_values(changes, &done));
        FileAfter {
            changes: match values.flatten() {
                Some(values) => ChangesAfter::Values(values),
                None => ChangesAfter::Structure(self.next_tables(changes, &done)),
            },
            answer: done.answer.unwrap_or_else(|| Arc::clone(&self.answer)),
        }
    }

    /// None if something follows from these changes.
    fn told_values(
        &self,
        changes: &[(&WrittenDataset, &ChangedArray)],
        done: &DoneEdit,
    ) -> Option<Vec<(usize, ChangedStorage)>> {
        let group = self.groups.get(&ContainerNumber::OUTERMOST)?;
        let has_rules = group.bpcells.is_some() || group.rules().next().is_some();
        let told = changes.iter().map(|(dataset, change)| {
            let is_alone = !self.names.has_further(change.address());
            let is_own = change.container == ContainerNumber::OUTERMOST && is_alone && !has_rules;
            let keeps_length = dataset.dims_at(change.len) == dataset.dims;
            let number = group.number(dataset.name())?;
            let storage = changed_storage(dataset, done)?;
            (is_own && keeps_length).then_some((number, storage))
        });
        told.collect()
    }

    fn next_tables(
        &self,
        changes: &[(&WrittenDataset, &ChangedArray)],
        done: &DoneEdit,
    ) -> HashMap<u64, ChunkTable> {
        // The library stores chunks at the edges itself.
        let has_other_edges = |dataset: &WrittenDataset| {
            let mut changes = changes.iter();
            let change = changes.find(|(one, _)| one.token == dataset.token);
            change.is_some_and(|(_, change)| dataset.dims_at(change.len) != dataset.dims)
        };
        let datasets = self.groups.values().flat_map(|group| &group.datasets);
        let datasets = datasets.filter(|dataset| !has_other_edges(dataset));
        let table = |dataset: &Arc<WrittenDataset>| table_after(dataset, &done.moved);
        datasets
            .filter_map(|one| Some((one.token, table(one)?)))
            .collect()
    }

    /// The container that has this file as it was told.
    pub(super) fn successor(
        &self,
        told: FileAfter,
        before: &Container,
        (future, budget): (&Arc<dyn Source>, &Arc<Budget>),
    ) -> Result<Option<Successor>> {
        match told.changes {
            ChangesAfter::Values(values) => {
                self.with_values(before, (&values, told.answer), future)
            }
            ChangesAfter::Structure(tables) => {
                let known = self.known(told.answer, tables, (future, budget));
                let index = known.answer.read(budget)?;
                Ok(Some(Successor {
                    container: known.container(index, budget)?,
                    changed: None,
                    handover: Handover::of(&known.file),
                }))
            }
        }
    }

    /// What is known of the file that the commit makes.
    fn known(
        &self,
        answer: Arc<IndexAnswer>,
        tables: HashMap<u64, ChunkTable>,
        (future, budget): (&Arc<dyn Source>, &Arc<Budget>),
    ) -> KnownFile {
        let file = Arc::new(SwitchedSource::new(Arc::clone(future)));
        let others = worker::tables(&(Arc::clone(&file) as _), budget);
        KnownFile {
            file,
            answer,
            tables: Arc::new(move |token| match tables.get(&token) {
                Some(table) => Ok(table.clone()),
                None => others(token),
            }),
            left: Arc::clone(&self.left),
        }
    }

    /// None if more has to be made anew than these arrays.
    fn with_values(
        &self,
        before: &Container,
        (values, answer): (&[(usize, ChangedStorage)], Arc<IndexAnswer>),
        future: &Arc<dyn Source>,
    ) -> Result<Option<Successor>> {
        let group = self.groups.get(&ContainerNumber::OUTERMOST);
        let Some(group) = group.filter(|_| before.checks.is_empty()) else {
            return Ok(None);
        };
        let (mut datasets, mut changed) = (group.datasets.clone(), Vec::new());
        let (mut container, mut handover) = (before.clone(), Handover::of(&self.file));
        for (number, storage) in values {
            let after = Arc::new(SwitchedSource::new(Arc::clone(future)));
            let Some(dataset) = datasets.get_mut(*number) else {
                return Ok(None);
            };
            let array = dataset.array.changed(storage, &(Arc::clone(&after) as _))?;
            let at = number_of(before, &dataset.array);
            let (Some(array), Some(at), Some(own)) = (array, at, &dataset.own) else {
                return Ok(None);
            };
            handover.add(own, &after);
            let array = Arc::new(array);
            let shown = Arc::clone(&array) as Arc<dyn Array>;
            container.arrays[at] = Arc::clone(&shown);
            changed.push((at, shown));
            *dataset = Arc::new(dataset.of_array(array).read_through(Some(after)));
        }
        let group = WrittenGroup {
            path: group.path.clone(),
            datasets,
            texts: group.texts.clone(),
            sparse: None,
            bpcells: None,
            rules: Vec::new(),
        };
        container.writable = Some(Arc::new(self.with(group, answer)));
        Ok(Some(Successor {
            container,
            changed: Some(changed),
            handover,
        }))
    }

    /// This file with another outermost container.
    fn with(&self, outermost: WrittenGroup, answer: Arc<IndexAnswer>) -> Hdf5File {
        let mut groups = self.groups.clone();
        groups.insert(ContainerNumber::OUTERMOST, Arc::new(outermost));
        Hdf5File {
            marks: self.marks.clone(),
            source: Arc::clone(&self.source),
            file: Arc::clone(&self.file),
            answer,
            headers: Arc::clone(&self.headers),
            groups,
            names: Arc::clone(&self.names),
            left: Arc::clone(&self.left),
            next_room: Mutex::default(),
            told: Mutex::default(),
        }
    }
}

/// How the changed values of a dataset are stored, if they do not lie in its header, and do not
/// get their first place.
fn changed_storage(dataset: &WrittenDataset, done: &DoneEdit) -> Option<ChangedStorage> {
    let table = match &dataset.place {
        WrittenPlace::Compact | WrittenPlace::Contiguous { address: None } => return None,
        WrittenPlace::Contiguous { address: Some(_) } => None,
        WrittenPlace::Chunked(_) => Some(table_after(dataset, &done.moved)?),
    };
    let sizes = match done.answer {
        Some(_) => Some(*done.sizes.get(&dataset.token)?),
        None => None,
    };
    Some(ChangedStorage { table, sizes })
}

/// Where the chunks of a dataset that keeps its dimensions are going to be, if that is known.
/// `moved`: those that get other places, by the tokens of their datasets.
pub(super) fn table_after(
    dataset: &WrittenDataset,
    moved: &HashMap<u64, Vec<ChunkEntry>>,
) -> Option<ChunkTable> {
    let table = dataset.array.chunked()?.known_table()?;
    match moved.get(&dataset.token) {
        Some(moved) => table.with_moved(moved),
        None => Some(table.clone()),
    }
}

/// The number of an array in its container: names are not compared, for there may be many.
fn number_of(container: &Container, array: &Arc<DatasetArray>) -> Option<usize> {
    let mut arrays = container.arrays.iter();
    arrays.position(|one| ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(array)))
}

#[cfg(test)]
mod tests;
