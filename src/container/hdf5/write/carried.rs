//! What the opening after a commit need not find out: the file's structure, and its tables
//! of chunks, with what the commit changes of them. Used by [`super`].

use std::sync::Arc;

use super::Hdf5File;
use super::dataset::WrittenDataset;
use super::edit_recipe::DoneEdit;
use crate::container::hdf5::CarriedStructure;
use crate::container::rewrite::ChangedArray;

impl Hdf5File {
    /// What is known of the file as it is going to be.
    pub(super) fn next_structure(
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
            let table = dataset.array.chunked()?.known_table()?;
            let table = match (new(dataset), done.moved.get(&dataset.token)) {
                // The library stores chunks at the edges itself.
                (Some(dims), _) if dims != dataset.dims => return None,
                (_, Some(moved)) => table.with_moved(moved)?,
                (_, None) => table.clone(),
            };
            Some((dataset.token, table))
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
