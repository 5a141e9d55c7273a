//! The values of a file that is made: all of them are put over a file that has everything else.
//!
//! Assumes that the file was just made by the library, in a worker. Used by `create`.

use std::sync::Arc;

use super::WrittenDataset;
use super::edit_recipe::{EditRecipe, EditedFile};
use super::headers::ObjectHeaders;
use super::unchanged::ExpectedChanges;
use crate::container::hdf5::left::LeftInFile;
use crate::container::hdf5::worker::IndexAnswer;
use crate::container::writable::{ChangedArray, Recipe};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::Source;

/// Tells a new file over one that has everything but its values.
pub(crate) fn tell_new(
    written: &[(WrittenDataset, ChangedArray)],
    (source, answer): (&Arc<dyn Source>, &IndexAnswer),
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<()> {
    let changes = written.iter().map(|(dataset, change)| (dataset, change));
    let changes: Vec<_> = changes.collect();
    for (dataset, change) in &changes {
        if let Some(why) = dataset.objection(change.len) {
            return Err(Error::Invalid(why));
        }
    }
    // It has been made here, and its chunks are where they were put.
    let headers = ObjectHeaders::default();
    let file = EditedFile {
        source,
        answer,
        headers: &headers,
        left: &LeftInFile::default(),
        budget,
    };
    let mut recipe = EditRecipe::of_new(file, write)?;
    for (dataset, change) in &changes {
        let put = dataset.put(change, budget, &mut recipe);
        put.map_err(|e| e.of_array("", dataset.name()))?;
    }
    let expected = ExpectedChanges::new(&changes, &[], &[]);
    recipe.finish(&expected).map(drop)
}
