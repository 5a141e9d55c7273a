//! Changing HDF5 files: values of datasets, and their lengths where the format lets them change.
//!
//! The way of a commit: [`dataset`] says what may become of a dataset, [`chunks`] and [`values`]
//! encode what has changed, and [`told`] puts it into the file. libhdf5 decides, in a worker, where
//! chunks go and what its structures say then (`worker::session`); it writes nothing itself. What
//! comes of it is checked before it is told: [`told`] knows where new bytes may lie ([`room`]), and
//! [`unchanged`] has the file be looked at again with the patches over it. Assumes a file without faults and
//! without bytes behind its end; others are not offered for writing. Used by `assemble`.

mod chunks;
mod dataset;
mod patched;
mod room;
mod sparse;
mod told;
mod unchanged;
mod values;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::CarriedStructure;
use super::index::{FileIndex, LinkTarget, StorageLayout};
use super::worker::{self, IndexAnswer};
use crate::array::Info;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::left_by_commits::LeftByCommits;
use crate::container::rewrite::{
    Amount, Change, ChangedArray, CommitWay, Consistency, Recipe, Restated, Rewrite,
};
use crate::container::{Container, OpenRequest};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::Source;
pub(super) use dataset::WrittenDataset;
pub(super) use sparse::SparseRules;
use told::{DoneEdit, ToldEdit};

struct Hdf5File {
    source: Arc<dyn Source>,
    /// The structure of the file as it was opened.
    answer: Arc<IndexAnswer>,
    groups: HashMap<ContainerNumber, WrittenGroup>,
    /// What the next opening is to know.
    left: Arc<LeftByCommits>,
    /// What the room is once the recipe that was told last has been carried out.
    next_room: Mutex<Option<Vec<(u64, u64)>>>,
}

/// What can be written of a container: of the file, or of a group that is one by itself.
pub(super) struct WrittenGroup {
    /// From the root.
    pub(super) path: String,
    pub(super) datasets: Vec<WrittenDataset>,
    pub(super) rules: Option<SparseRules>,
}

impl WrittenGroup {
    fn dataset(&self, name: &str) -> Option<&WrittenDataset> {
        let found = self.datasets.binary_search_by(|one| one.name().cmp(name));
        found.ok().map(|at| &self.datasets[at])
    }
}

/// Datasets to which more than one name leads: a change by one of them would not be seen by the
/// others.
pub(super) fn of_many_names(index: &FileIndex) -> Vec<bool> {
    let mut names = vec![0u32; index.datasets.len()];
    for link in index.groups.iter().flat_map(|group| &group.links) {
        if let LinkTarget::Dataset(number) = link.target
            && let Some(names) = names.get_mut(number as usize)
        {
            *names += 1;
        }
    }
    names.into_iter().map(|names| names > 1).collect()
}

/// Lets the datasets of a file be written, if the file is sound and ends where it says.
pub(super) fn offer(
    container: &mut Container,
    (index, answer): (&FileIndex, &Arc<IndexAnswer>),
    source: &Arc<dyn Source>,
    (groups, request): (Vec<WrittenGroup>, &OpenRequest<'_>),
) -> Result<()> {
    // A dataset that is put together of others would show what they were.
    let is_followed = index.datasets.iter().any(|dataset| match &dataset.layout {
        StorageLayout::Virtual(parts) => parts.files.iter().any(|file| file == b"."),
        _ => false,
    });
    let nothing = groups.iter().all(|group| group.datasets.is_empty());
    if is_followed || nothing || !container.faults.is_empty() {
        return Ok(());
    }
    // Somebody's bytes that would be cut off.
    if worker::end(&**source)? != Some(source.len()) {
        return Ok(());
    }
    container.rewrite = Some(Arc::new(Hdf5File {
        source: Arc::clone(source),
        answer: Arc::clone(answer),
        groups: numbered(container, groups)?,
        left: Arc::clone(request.left),
        next_room: Mutex::default(),
    }));
    Ok(())
}

/// The groups of sound containers, by their numbers.
fn numbered(
    container: &mut Container,
    groups: Vec<WrittenGroup>,
) -> Result<HashMap<ContainerNumber, WrittenGroup>> {
    let by_path = groups.into_iter().map(|mut group| {
        group
            .datasets
            .sort_unstable_by(|a, b| a.name().cmp(b.name()));
        (group.path.clone(), group)
    });
    let mut by_path: HashMap<String, WrittenGroup> = by_path.collect();
    let mut numbered = HashMap::new();
    container.visit_mut(&mut |number, path, container| {
        let group = by_path.remove(path);
        let sound = group.filter(|_| container.faults.is_empty());
        numbered.extend(sound.map(|group| (number, group)));
        Ok(())
    })?;
    Ok(numbered)
}

impl Hdf5File {
    fn dataset(&self, array: ArrayAddress<'_>) -> Result<&WrittenDataset> {
        let group = self.groups.get(&array.container);
        let found = group.and_then(|group| group.dataset(array.name));
        found.ok_or(Error::ReadOnly)
    }

    fn changes<'a>(
        &'a self,
        changed: &'a [ChangedArray],
    ) -> Result<Vec<(&'a WrittenDataset, &'a ChangedArray)>> {
        let pair = |change: &'a ChangedArray| Ok((self.dataset(change.address())?, change));
        changed.iter().map(pair).collect()
    }
}

impl Hdf5File {
    /// What is known of the file as it is going to be.
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

impl Rewrite for Hdf5File {
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
        let dataset = self.dataset(array)?;
        match change {
            Change::Write { offset, len } => dataset.reaches(offset.saturating_add(len)),
            Change::SetLen(len) | Change::Truncate(len) => dataset.takes_length(len),
        }
    }

    fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info> {
        self.dataset(array)?.info(len)
    }

    fn fill(&self, array: ArrayAddress<'_>) -> Option<Vec<u8>> {
        self.dataset(array).ok()?.shown_fill()
    }

    fn restate(
        &self,
        container: ContainerNumber,
        changed: &[ChangedArray],
        _budget: &Arc<Budget>,
    ) -> Result<Restated> {
        let mut restated = Restated::default();
        for array in changed.iter().filter(|array| array.container == container) {
            let info = self.info(array.address(), array.len)?;
            restated.arrays.insert(array.shown.name().to_owned(), info);
        }
        Ok(restated)
    }

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        for (dataset, change) in self.changes(changed)? {
            if let Some(why) = dataset.objection(change.len) {
                return Ok(Consistency::NotYet(why));
            }
        }
        for (number, group) in &self.groups {
            let of_group = |change: &&ChangedArray| change.container == *number;
            let changes: Vec<_> = changed.iter().filter(of_group).collect();
            if let Some(rules) = &group.rules
                && let Some(why) = rules.objection(&changes, budget)?
            {
                return Ok(Consistency::NotYet(why));
            }
        }
        Ok(Consistency::Now)
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let mut amount = Amount {
            stored: self.source.len(),
            changed: 0,
            moves: false,
            encoded: 0,
            guessed: false,
        };
        for (dataset, change) in self.changes(changed)? {
            dataset.add_amount(change, &mut amount)?;
        }
        Ok(amount)
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let changes = self.changes(changed)?;
        self.left.carried.set(None);
        let offered = self.left.free_room.offered(self.source.len());
        let of = (&self.source, &*self.answer, budget);
        let mut told = ToldEdit::new(of, (way, write), offered)?;
        for (dataset, change) in &changes {
            dataset.set_extent(change.len, &mut told)?;
        }
        for (dataset, change) in &changes {
            let put = dataset.put(change, budget, &mut told);
            put.map_err(|e| e.of_array("", dataset.name()))?;
        }
        let done = told.finish(&changes)?;
        // A new file is looked at when it is there.
        if way == CommitWay::InPlace {
            let next = self.next_structure(&changes, &done);
            self.left.carried.set(Some(Arc::new(next)));
        }
        let next = self.next_room.lock();
        *next.unwrap_or_else(PoisonError::into_inner) = done.room;
        Ok(())
    }

    fn heeds_locks(&self) -> bool {
        true
    }

    fn published(&self) {
        self.left.carried.set(None);
        let next = self.next_room.lock();
        if let Some(next) = next.unwrap_or_else(PoisonError::into_inner).take() {
            self.left.free_room.set(next);
        }
    }
}
