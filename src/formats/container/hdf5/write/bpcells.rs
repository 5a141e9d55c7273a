//! A BPCells container in a group: its arrays are changed as those of a directory, and what becomes
//! of files there, becomes of datasets here.
//!
//! Only where every dataset holds just the numbers that BPCells writes. Texts are written where
//! they are strings of variable length; the `version` is an attribute, and stays, for with another
//! one the container would have other datasets. What is packed anew lies in memory until it is in
//! its dataset. Used by [`super`].

use std::sync::Arc;

use super::dataset::WrittenDataset;
use crate::container::bpcells::write::MemberFiles;
use crate::container::inside::ContainerNumber;
use crate::container::writable::ChangedArray;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

pub(crate) struct BpcellsRules {
    /// As a directory.
    pub(crate) directory: MemberFiles,
    /// That stand for its files, with their names.
    pub(crate) datasets: Vec<WrittenDataset>,
}

/// Of the arrays that are shown.
const NUMBERS: [&str; 8] = [
    "val", "index", "idxptr", "shape", "cell", "start", "end", "chr_ptr",
];

impl BpcellsRules {
    /// Whether an array that is no text can be written.
    pub(super) fn is_written(name: &str) -> bool {
        NUMBERS.contains(&name)
    }

    /// The changes of the container, by themselves.
    pub(super) fn own(container: ContainerNumber, changed: &[ChangedArray]) -> Vec<ChangedArray> {
        let own = changed
            .iter()
            .filter(|change| change.container == container);
        own.cloned().collect()
    }

    /// What becomes of the datasets; `is_text`: of an array that is written by itself.
    pub(super) fn datasets(
        &self,
        own: (ContainerNumber, &[ChangedArray]),
        is_text: &dyn Fn(&str) -> bool,
        budget: &Arc<Budget>,
    ) -> Result<Vec<(&WrittenDataset, ChangedArray)>> {
        let kept = |name: &str| !is_text(name);
        let mut changes = self.directory.changed_fields(own, &kept, budget)?;
        let mut datasets = Vec::new();
        for dataset in &self.datasets {
            let Some(change) = changes.remove(dataset.name()) else {
                continue;
            };
            if let Some(why) = dataset.objection(change.len) {
                return Err(Error::Invalid(why));
            }
            datasets.push((dataset, change));
        }
        match changes.is_empty() {
            true => Ok(datasets),
            false => Err(Error::Invalid("it would need other datasets".into())),
        }
    }
}
