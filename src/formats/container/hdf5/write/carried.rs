//! What the container after a commit need not find out: which values have changed, if nothing else
//! has ([`super::successor`]); else the file's structure, and its tables of chunks, with what the
//! commit changes of them. Used by [`super`].

use std::collections::HashMap;
use std::sync::Arc;

use super::Hdf5File;
use super::dataset::WrittenDataset;
use super::edit_recipe::DoneEdit;
use crate::container::hdf5::CarriedStructure;
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::index::ChunkEntry;
use crate::container::rewrite::ChangedArray;

impl Hdf5File {
    /// Leaves what is known of the file as it is going to be. `is_else`: something else than values
    /// of datasets changes.
    pub(super) fn leave(
        &self,
        changes: &[(&WrittenDataset, &ChangedArray)],
        is_else: bool,
        done: DoneEdit,
    ) {
        let told = (!is_else).then(|| self.told_values(changes, &done));
        match told.flatten() {
            Some(told) => *self.told.lock() = Some(told),
            None => {
                let next = self.next_structure(changes, &done);
                self.left.carry(Some(next));
            }
        }
        *self.next_room.lock() = done.room;
    }

    pub(super) fn forget_told(&self) {
        self.left.carry(None);
        *self.told.lock() = None;
    }

    fn next_structure(
        &self,
        changes: &[(&WrittenDataset, &ChangedArray)],
        done: &DoneEdit,
    ) -> CarriedStructure {
        let new = |dataset: &WrittenDataset| {
            let mut changes = changes.iter();
            let (_, change) = changes.find(|(one, _)| one.token == dataset.token)?;
            Some(dataset.dims_at(change.len))
        };
        let datasets = self.groups.values().flat_map(|group| &group.datasets);
        let tables = datasets.filter_map(|dataset| {
            // The library stores chunks at the edges itself.
            if new(dataset).is_some_and(|dims| dims != dataset.dims) {
                return None;
            }
            Some((dataset.token, next_table(dataset, done)?))
        });
        CarriedStructure {
            tables: Arc::new(tables.collect()),
            answer: match &done.answer {
                Some(answer) => Arc::clone(answer),
                None => Arc::clone(&self.answer),
            },
        }
    }
}

/// Where the chunks of a dataset that keeps its dimensions are going to be, if that is known.
pub(super) fn next_table(dataset: &WrittenDataset, done: &DoneEdit) -> Option<ChunkTable> {
    table_after(dataset, &done.moved)
}

/// The same, of chunks that get other places, by the tokens of their datasets.
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
