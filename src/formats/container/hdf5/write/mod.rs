//! Changing HDF5 files: values of datasets, and their lengths where the format lets them change.
//!
//! The way of a commit: [`offered`] says what can be written of a file, [`dataset`] what may become
//! of a dataset, [`chunks`] and [`values`] encode what has changed, and [`edit_recipe`] puts it
//! into the file; a chunk of each way of encoding that is new is read back ([`tried`]). Texts of
//! variable length the library stores itself ([`texts`]). libhdf5 decides, in a worker, where
//! chunks go and what its structures say then (`worker::session`); it writes nothing itself. What
//! comes of it is checked before it is told: [`edit_recipe`] knows where new bytes may lie
//! ([`room`]), and [`unchanged`] has the file be looked at again with the patches over it. Arrays
//! of a group that have to agree with each other wait until they do, and attributes follow from
//! them ([`rules`]: of Binsparse [`sparse`], and of [`anndata`]). What is known of the file then is
//! not found out again: the container lives on ([`successor`]). Assumes a file without faults and
//! without bytes behind its end; others are not offered for writing. Used by `assemble`.

mod ahead;
mod anndata;
mod bpcells;
mod chunk_teller;
mod chunks;
mod dataset;
mod edit_recipe;
mod further_names;
mod gathered;
mod headers;
mod heap_cost;
mod moved_chunks;
mod new_values;
mod offered;
mod padding;
mod patched;
mod rules;
mod sparse;
mod successor;
mod texts;
mod texts_unchanged;
mod tried;
mod unchanged;
mod values;
mod why_not;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::left::LeftInFile;
use super::text_lines;
use super::worker::IndexAnswer;
use crate::array::Info;
use crate::array::chunking::{ChunkId, Chunking};
use crate::array::stored_run::StoredRun;
use crate::container::Container;
use crate::container::binsparse;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::writable::{
    Amount, Change, ChangedArray, CommitWay, ComputedBytes, Consistency, Recipe, Restated,
    Successor, WritableContainer,
};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::Source;
use crate::source::switched::SwitchedSource;
use crate::sync::Mutex;
use ahead::WholeChunks;
pub(super) use anndata::{CategoricalColumn, CompressedMatrix, Dataframe};
pub(super) use bpcells::BpcellsRules;
pub(super) use dataset::WrittenDataset;
use edit_recipe::{EditRecipe, EditedFile};
use further_names::FurtherNames;
use headers::ObjectHeaders;
pub(super) use new_values::tell_new;
pub(super) use offered::{WrittenGroup, offer};
use rules::ChangedAttribute;
pub(super) use rules::GroupRules;
pub(super) use sparse::SparseRules;
use successor::FileAfter;
pub(super) use texts::WrittenTexts;
use unchanged::ExpectedChanges;
pub(super) use why_not::note_why_not;

struct Hdf5File {
    source: Arc<dyn Source>,
    /// The source, to be switched when it has become another file.
    file: Arc<SwitchedSource>,
    /// The structure of the file as it was opened.
    answer: Arc<IndexAnswer>,
    headers: Arc<ObjectHeaders>,
    marks: Range<u64>,
    groups: HashMap<ContainerNumber, Arc<WrittenGroup>>,
    names: Arc<FurtherNames>,
    /// What the next opening is to know.
    left: Arc<LeftInFile>,
    /// What the room is once the recipe that was told last has been carried out.
    next_room: Mutex<Option<Vec<(u64, u64)>>>,
    /// What the file is then.
    told: Mutex<Option<FileAfter>>,
}

impl Hdf5File {
    fn dataset(&self, array: ArrayAddress<'_>) -> Result<&WrittenDataset> {
        let array = self.names.first(array);
        let group = self.groups.get(&array.container);
        let found = group.and_then(|group| group.dataset(array.name));
        found.ok_or(Error::ReadOnly)
    }

    fn changes<'a>(
        &'a self,
        changed: &'a [ChangedArray],
    ) -> Result<Vec<(&'a WrittenDataset, &'a ChangedArray)>> {
        let pair = |change: &'a ChangedArray| Ok((self.dataset(change.address())?, change));
        let is_dataset = |change: &&ChangedArray| {
            let is_packed = self.bpcells(change.container).is_some();
            let (array, text) = (change.address(), self.text(change.address()));
            !is_packed && text.is_none() && self.descriptor(array).is_none()
        };
        changed.iter().filter(is_dataset).map(pair).collect()
    }

    fn text(&self, array: ArrayAddress<'_>) -> Option<&WrittenTexts> {
        self.groups.get(&array.container)?.text(array.name)
    }

    fn changed_texts<'a>(
        &'a self,
        changed: &'a [ChangedArray],
    ) -> impl Iterator<Item = (&'a WrittenTexts, &'a ChangedArray)> {
        let changed = changed.iter();
        changed.filter_map(|change| Some((self.text(change.address())?, change)))
    }

    /// How the arrays of a BPCells container are changed.
    fn bpcells(&self, container: ContainerNumber) -> Option<&BpcellsRules> {
        self.groups.get(&container)?.bpcells.as_ref()
    }

    /// The BPCells containers of which something changes, each with its changes.
    fn changed_bpcells(
        &self,
        changed: &[ChangedArray],
    ) -> Vec<(ContainerNumber, &BpcellsRules, Vec<ChangedArray>)> {
        let groups = self.groups.iter();
        let groups = groups.filter_map(|(number, group)| {
            let own = BpcellsRules::own(*number, changed);
            let rules = group.bpcells.as_ref().filter(|_| !own.is_empty())?;
            Some((*number, rules, own))
        });
        groups.collect()
    }

    /// The container whose descriptor an array is.
    fn descriptor(&self, array: ArrayAddress<'_>) -> Option<&SparseRules> {
        self.groups.get(&array.container)?.descriptor(array.name)
    }

    /// What changes of the arrays of each group.
    fn by_group<'a>(
        &'a self,
        changed: &'a [ChangedArray],
    ) -> impl Iterator<Item = (&'a WrittenGroup, Vec<&'a ChangedArray>)> {
        self.groups.iter().filter_map(|(number, group)| {
            let of_group = changed.iter().filter(|change| change.container == *number);
            let changes: Vec<_> = of_group.collect();
            (!changes.is_empty()).then_some((&**group, changes))
        })
    }

    /// The attributes that say something else then.
    fn attributes(&self, changed: &[ChangedArray]) -> Result<Vec<ChangedAttribute>> {
        let mut attributes = Vec::new();
        for (group, changes) in self.by_group(&self.names.by_each(changed)) {
            for rules in group.rules() {
                attributes.extend(rules.attribute(&changes)?);
            }
        }
        Ok(attributes)
    }

    /// The descriptor of a container, if it follows from changes of the arrays and is another one.
    fn followed(
        &self,
        container: ContainerNumber,
        changed: &[ChangedArray],
    ) -> Result<Option<Vec<u8>>> {
        let changed = self.names.by_each(changed);
        let Some((group, changes)) = self.group_changes(container, &changed) else {
            return Ok(None);
        };
        match &group.sparse {
            Some(sparse) => sparse.arrays.followed(&changes),
            None => Ok(None),
        }
    }

    fn group_changes<'a>(
        &'a self,
        container: ContainerNumber,
        changed: &'a [ChangedArray],
    ) -> Option<(&'a WrittenGroup, Vec<&'a ChangedArray>)> {
        let group = self.groups.get(&container)?;
        let changes = changed.iter();
        let changes = changes.filter(|change| change.container == container);
        Some((group, changes.collect()))
    }
}

impl WritableContainer for Hdf5File {
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
        let is_descriptor = self.descriptor(array).is_some();
        if let Some(rules) = self.bpcells(array.container) {
            rules.directory.permits(array, change)?;
            return match self.text(array) {
                Some(text) => text.permits(change),
                None if BpcellsRules::is_written(array.name) => Ok(()),
                None => Err(Error::ReadOnly),
            };
        }
        if let Some(text) = self.text(array) {
            return text.permits(change);
        }
        match change {
            change if is_descriptor => binsparse::DescriptorText::permits(change),
            Change::Write { offset, len } => {
                self.dataset(array)?.reaches(offset.saturating_add(len))
            }
            Change::SetLen(len) | Change::Truncate(len) => self.dataset(array)?.takes_length(len),
        }
    }

    fn marks(&self) -> Range<u64> {
        self.marks.clone()
    }

    fn follows(&self, array: ArrayAddress<'_>) -> bool {
        self.descriptor(array).is_some()
    }

    fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info> {
        if let Some(rules) = self.bpcells(array.container) {
            return rules.directory.info(array, len);
        }
        match (self.descriptor(array), self.text(array)) {
            (Some(_), _) => Ok(Info::text(len)),
            (None, Some(text)) => text.info(len, None),
            (None, None) => self.dataset(array)?.info(len),
        }
    }

    fn fill(&self, array: ArrayAddress<'_>) -> Option<Vec<u8>> {
        self.dataset(array).ok()?.shown_fill()
    }

    fn restate(
        &self,
        container: ContainerNumber,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Restated> {
        if let Some(rules) = self.bpcells(container) {
            let own = BpcellsRules::own(container, changed);
            return rules.directory.restate(container, &own, budget);
        }
        let mut restated = Restated::default();
        if let Some(text) = self.followed(container, changed)? {
            let info = Info::text(text.len() as u64);
            restated.arrays.insert(binsparse::TEXT.into(), info);
        }
        let changed = &*self.names.by_each(changed);
        for array in changed.iter().filter(|array| array.container == container) {
            let info = match self.text(array.address()) {
                Some(text) => {
                    let values = text.count_values(array, budget)?;
                    text.info(array.len, Some(values))?
                }
                None => self.info(array.address(), array.len)?,
            };
            restated.arrays.insert(array.shown.name().to_owned(), info);
        }
        let Some((group, changes)) = self.group_changes(container, changed) else {
            return Ok(restated);
        };
        for rules in group.rules() {
            match rules.restated(&changes)? {
                Some((path, attributes)) if path.is_empty() => {
                    restated.attributes.extend(attributes);
                }
                other => restated.groups.extend(other),
            }
        }
        if let Some(sparse) = group.sparse.as_ref().filter(|_| !changes.is_empty()) {
            let (version, attributes) = sparse.arrays.examined(&changes)?;
            restated.version = Some(version);
            restated.attributes.extend(attributes);
        }
        Ok(restated)
    }

    /// The descriptor of a Binsparse container, as long as nobody has written another one.
    fn computed(
        &self,
        array: ArrayAddress<'_>,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Option<ComputedBytes>> {
        if let Some(rules) = self.bpcells(array.container) {
            let own = BpcellsRules::own(array.container, changed);
            return rules.directory.computed(array, &own, budget);
        }
        if self.descriptor(array).is_none() {
            return Ok(None);
        }
        let Some(bytes) = self.followed(array.container, changed)? else {
            return Ok(None);
        };
        let hold = budget.keep(bytes.len() as u64)?;
        Ok(Some(ComputedBytes { bytes, hold }))
    }

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        for (dataset, change) in self.changes(changed)? {
            if let Some(why) = dataset.objection(change.len) {
                return Ok(Consistency::NotYet(why));
            }
        }
        for (_, rules, own) in &self.changed_bpcells(changed) {
            match rules.directory.consistency(own, budget)? {
                Consistency::Now => {}
                objection => return Ok(objection),
            }
        }
        // All of them are written by one edit, which has one limit.
        match texts::judge(self.changed_texts(changed), budget)? {
            Consistency::Now => {}
            objection => return Ok(objection),
        }
        for (group, changes) in self.by_group(&self.names.by_each(changed)) {
            let counted = |change: &ChangedArray| match group.text(change.shown.name()) {
                Some(text) => text.count_values(change, budget),
                None => text_lines::count(&*change.shown, change.len, budget),
            };
            for rules in group.rules() {
                match rules.judge(&changes, &counted, budget)? {
                    Consistency::Now => {}
                    objection => return Ok(objection),
                }
            }
        }
        Ok(Consistency::Now)
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let mut amount = Amount {
            stored: self.source.len(),
            ..Amount::default()
        };
        for (dataset, change) in self.changes(changed)? {
            dataset.add_amount(change, &mut amount)?;
        }
        let texts = self.changed_texts(changed);
        let is_packed = |change: &ChangedArray| self.bpcells(change.container).is_some();
        let texts = texts.filter(|(_, change)| !is_packed(change));
        for (_, change) in texts {
            amount.changed = amount.changed.saturating_add(change.len);
        }
        for (_, rules, own) in self.changed_bpcells(changed) {
            let packed = rules.directory.amount(&own)?;
            amount.changed = amount.changed.saturating_add(packed.changed);
            amount.encoded = amount.encoded.saturating_add(packed.encoded);
            amount.guessed |= packed.guessed;
        }
        let attributes = self.attributes(changed)?.into_iter();
        let attributes: u64 = attributes.map(|attribute| attribute.len()).sum();
        amount.changed = amount.changed.saturating_add(attributes);
        Ok(amount)
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        *self.told.lock() = None;
        let (mut changes, attributes) = (self.changes(changed)?, self.attributes(changed)?);
        let of_bpcells = self.changed_bpcells(changed);
        let (mut packed, mut planned) = (Vec::new(), Vec::new());
        for (number, rules, own) in &of_bpcells {
            let container = *number;
            let is_text = |name: &str| self.text(ArrayAddress { container, name }).is_some();
            packed.extend(rules.datasets((*number, own), &is_text, budget)?);
        }
        changes.extend(packed.iter().map(|(dataset, change)| (*dataset, change)));
        for (texts, change) in self.changed_texts(changed) {
            planned.push(texts.planned(change, budget)?);
        }
        let offered = self.left.room(self.source.len());
        let file = EditedFile {
            source: &self.source,
            answer: &self.answer,
            headers: &self.headers,
            left: &self.left,
            budget,
        };
        for (dataset, _) in &changes {
            if let Some(why) = dataset.unfiltered()
                && self.left.is_first_told(dataset.token)
            {
                let name = dataset.name();
                write.note(&format!("{name}: chunks are stored unfiltered: {why}"));
            }
        }
        let mut recipe = EditRecipe::new(file, (way, write), offered)?;
        for (dataset, change) in &changes {
            dataset.set_extent(change.len, &mut recipe)?;
        }
        for (dataset, change) in &changes {
            let put = dataset.put(change, budget, &mut recipe);
            put.map_err(|e| e.of_array("", dataset.name()))?;
        }
        for plan in &planned {
            let put = plan.put(budget, &mut recipe);
            put.map_err(|e| e.of_array("", plan.texts.name()))?;
        }
        for attribute in &attributes {
            recipe.step(&attribute.step())?;
        }
        let expected = ExpectedChanges::new(&changes, &planned, &attributes);
        let mut done = recipe.finish(&expected)?;
        let is_else = !planned.is_empty() || !attributes.is_empty() || !of_bpcells.is_empty();
        *self.next_room.lock() = done.room.take();
        *self.told.lock() = Some(self.told(&changes, is_else, done));
        Ok(())
    }

    fn succeed(
        &self,
        before: &Container,
        future: &Arc<dyn Source>,
        budget: &Arc<Budget>,
    ) -> Result<Option<Successor>> {
        let told = self.told.lock().take();
        match told {
            Some(told) => self.successor(told, before, (future, budget)),
            None => Ok(None),
        }
    }

    fn stored_run(
        &self,
        array: ArrayAddress<'_>,
        _changed: &[ChangedArray],
    ) -> Result<Option<StoredRun>> {
        Ok(self.dataset(array).ok().and_then(WrittenDataset::run))
    }

    fn blocks_ahead(&self, array: ArrayAddress<'_>, len: u64) -> Option<Arc<dyn Chunking>> {
        let whole = WholeChunks::of(self.dataset(array).ok()?, len);
        whole.map(|whole| Arc::new(whole) as _)
    }

    fn encode_block(
        &self,
        changed: &ChangedArray,
        block: ChunkId,
        budget: &Arc<Budget>,
    ) -> Result<Option<Vec<u8>>> {
        let dataset = self.dataset(changed.address())?;
        ahead::encode(dataset, changed, (block, budget))
    }

    fn heeds_locks(&self) -> bool {
        true
    }

    /// What commits of this mount have freed, and none has taken since.
    fn dead_bytes(&self) -> u64 {
        let room = self.left.room(self.source.len());
        let lens = room.iter().map(|(_, len)| *len);
        lens.fold(0, u64::saturating_add)
    }

    fn published(&self) {
        *self.told.lock() = None;
        let next = self.next_room.lock().take();
        if let Some(next) = next {
            self.left.set_room(next);
        }
    }
}
