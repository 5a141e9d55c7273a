//! A file after a commit of values: the arrays that the commit changes are made anew, of those
//! before and of where their chunks are then; everything else is shared with the file before.
//!
//! Only where nothing follows from the values: no rule between arrays, no attribute, no dimension,
//! no further name; and where they do not lie in the header of a dataset, nor on a heap. Used by
//! [`super`].

use std::ptr;
use std::sync::Arc;

use super::carried::next_table;
use super::dataset::{WrittenDataset, WrittenPlace};
use super::edit_recipe::DoneEdit;
use super::{Hdf5File, WrittenGroup};
use crate::array::Array;
use crate::container::Container;
use crate::container::hdf5::dataset::{ChangedStorage, DatasetArray};
use crate::container::hdf5::worker::IndexAnswer;
use crate::container::inside::ContainerNumber;
use crate::container::rewrite::ChangedArray;
use crate::container::successor::{Handover, Successor};
use crate::error::Result;
use crate::source::Source;
use crate::sync::Mutex;

/// What a recipe changes that changes nothing but values.
pub(super) struct ToldValues {
    /// By their numbers among the datasets of the outermost container.
    datasets: Vec<(usize, ChangedStorage)>,
    /// The structure of the file, if it may be another one.
    answer: Option<Arc<IndexAnswer>>,
}

impl Hdf5File {
    /// None if something follows from these changes.
    pub(super) fn told_values(
        &self,
        changes: &[(&WrittenDataset, &ChangedArray)],
        done: &DoneEdit,
    ) -> Option<ToldValues> {
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
        Some(ToldValues {
            datasets: told.collect::<Option<_>>()?,
            answer: done.answer.clone(),
        })
    }

    /// The container that has this file after the recipe that was told last.
    pub(super) fn successor(
        &self,
        before: &Container,
        future: &Arc<dyn Source>,
    ) -> Result<Option<Successor>> {
        let told = self.told.lock().take();
        let group = self.groups.get(&ContainerNumber::OUTERMOST);
        let (Some(told), Some(group)) = (told, group.filter(|_| before.checks.is_empty())) else {
            return Ok(None);
        };
        let (mut datasets, mut changed) = (group.datasets.clone(), Vec::new());
        let mut handover = Handover::of(&self.file);
        for (number, storage) in &told.datasets {
            let Some(dataset) = datasets.get_mut(*number) else {
                return Ok(None);
            };
            let Some(array) = dataset.array.succeeded(storage, future)? else {
                return Ok(None);
            };
            let array = Arc::new(array);
            let (Some(old), Some(new)) = (dataset.array.own(), array.own()) else {
                return Ok(None);
            };
            handover.add(old, new);
            let Some(at) = number_of(before, &dataset.array) else {
                return Ok(None);
            };
            changed.push((at, Arc::clone(&array) as Arc<dyn Array>));
            *dataset = Arc::new(dataset.of_array(array));
        }
        let group = WrittenGroup {
            path: group.path.clone(),
            datasets,
            texts: group.texts.clone(),
            sparse: None,
            bpcells: None,
            rules: Vec::new(),
        };
        let rewrite = Arc::new(self.with(group, told.answer));
        Ok(Some(Successor {
            container: before.succeeded(&changed, rewrite),
            changed,
            handover,
        }))
    }

    /// The same file with another outermost container.
    fn with(&self, outermost: WrittenGroup, answer: Option<Arc<IndexAnswer>>) -> Hdf5File {
        let mut groups = self.groups.clone();
        groups.insert(ContainerNumber::OUTERMOST, Arc::new(outermost));
        Hdf5File {
            marks: self.marks.clone(),
            source: Arc::clone(&self.source),
            file: Arc::clone(&self.file),
            answer: answer.unwrap_or_else(|| Arc::clone(&self.answer)),
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
        WrittenPlace::Chunked(_) => Some(next_table(dataset, done)?),
    };
    let sizes = match done.answer {
        Some(_) => Some(*done.sizes.get(&dataset.token)?),
        None => None,
    };
    Some(ChangedStorage { table, sizes })
}

/// The number of an array in its container: names are not compared, for there may be many.
fn number_of(container: &Container, array: &Arc<DatasetArray>) -> Option<usize> {
    let mut arrays = container.arrays.iter();
    arrays.position(|one| ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(array)))
}

#[cfg(test)]
mod tests;
