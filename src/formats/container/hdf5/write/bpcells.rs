//! A BPCells container in a group: its arrays are changed as those of a directory, and what is told
//! of files there, becomes datasets here.
//!
//! Only where every dataset holds just the numbers that BPCells writes. Texts are written where
//! they are strings of variable length; the `version` is an attribute, and stays, for with another
//! one the container would have other datasets. What is packed anew lies in memory until it is in
//! its dataset. A new group is told in the same way ([`told_fields`]). Used by [`super`], and by
//! `create`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::dataset::WrittenDataset;
use super::field_changes::FieldChanges;
use super::texts::{PlannedTexts, WrittenTexts};
use crate::array::Array;
use crate::container::bpcells::fields::Field;
use crate::container::bpcells::write::{NewFieldContent, NewFields, ORDER, file_number};
use crate::container::creation::VERSION;
use crate::container::inside::{ContainerNumber, join};
use crate::container::rewrite::{ChangedArray, CommitWay, MemberNumber, Recipe, Rewrite};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

pub(crate) struct BpcellsRules {
    /// As a directory.
    pub(crate) directory: Arc<dyn Rewrite>,
    pub(crate) members: Vec<WrittenMember>,
    /// The texts that can be written.
    pub(crate) texts: Vec<WrittenTexts>,
}

/// A dataset that stands for a file.
pub(crate) struct WrittenMember {
    pub(crate) name: String,
    pub(crate) field: Arc<dyn Field>,
    pub(crate) dataset: WrittenDataset,
}

/// Of the arrays that are shown.
const NUMBERS: [&str; 8] = [
    "val", "index", "idxptr", "shape", "cell", "start", "end", "chr_ptr",
];

impl BpcellsRules {
    /// Whether an array can be written.
    pub(super) fn is_written(&self, name: &str) -> bool {
        NUMBERS.contains(&name) || self.text(name).is_some()
    }

    pub(super) fn text(&self, name: &str) -> Option<&WrittenTexts> {
        self.texts.iter().find(|text| text.name() == name)
    }

    /// Whether the array that says how a matrix is stored can be written.
    pub(super) fn has_order(&self) -> bool {
        self.text(ORDER).is_some()
    }

    pub(super) fn changed_texts<'a>(
        &'a self,
        own: &'a [ChangedArray],
    ) -> impl Iterator<Item = (&'a WrittenTexts, &'a ChangedArray)> {
        let own = own.iter();
        own.filter_map(|change| Some((self.text(change.shown.name())?, change)))
    }

    /// What becomes of the texts.
    pub(super) fn planned_texts<'a>(
        &'a self,
        own: &'a [ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Vec<PlannedTexts<'a>>> {
        let changed = self.changed_texts(own);
        changed
            .map(|(text, change)| text.planned(change, budget))
            .collect()
    }

    /// The changes of the container, by themselves.
    pub(super) fn own(container: ContainerNumber, changed: &[ChangedArray]) -> Vec<ChangedArray> {
        let own = changed
            .iter()
            .filter(|change| change.container == container);
        own.cloned().collect()
    }

    /// What becomes of the datasets.
    pub(super) fn datasets(
        &self,
        container: ContainerNumber,
        own: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Vec<(&WrittenDataset, ChangedArray)>> {
        let texts = self.texts.iter().map(|text| file_number(text.name()));
        let mut told = FieldsRecipe {
            budget,
            files: BTreeMap::new(),
            not_kept: texts.collect::<Result<_>>()?,
        };
        let way = CommitWay::Replaced;
        self.directory.recipe(own, way, budget, &mut told)?;
        let mut datasets = Vec::new();
        for member in &self.members {
            let Some(field) = told.files.remove(&file_number(&member.name)?) else {
                continue;
            };
            let change = field.into_change(container, (&member.name, &member.field))?;
            if let Some(why) = member.dataset.objection(change.len) {
                return Err(Error::Invalid(why));
            }
            datasets.push((&member.dataset, change));
        }
        match told.files.is_empty() {
            true => Ok(datasets),
            false => Err(Error::Invalid("it would need other datasets".into())),
        }
    }
}

/// What is told of the fields of a new container in a group, as arrays, by the names of the fields.
pub(crate) fn told_fields(
    new: &NewFields,
    group: &str,
    budget: &Arc<Budget>,
) -> Result<BTreeMap<String, Arc<dyn Array>>> {
    let mut told = FieldsRecipe {
        budget,
        files: BTreeMap::new(),
        not_kept: [file_number(VERSION)?].into(),
    };
    let (mut numbers, mut packed) = (Vec::new(), Vec::new());
    for field in new.all() {
        let file = file_number(&field.name)?;
        match field.content {
            NewFieldContent::Told(number) => {
                numbers.push((field.name, number));
                continue;
            }
            NewFieldContent::Words => packed.push((field.of, field.name)),
            _ => {}
        }
        told.not_kept.insert(file);
    }
    new.tell(budget, &mut told)?;
    let mut arrays = BTreeMap::new();
    for (name, number) in numbers {
        if let Some(field) = told.files.remove(&file_number(&name)?) {
            let array = field.into_array(&join(group, &name), number)?;
            arrays.insert(name, array);
        }
    }
    for (of, name) in packed {
        let part = |part: &str| arrays.get(&format!("{of}_{part}")).map(Arc::clone);
        let idx = part("idx").ok_or_else(|| Error::Bug(format!("{of} has no index")))?;
        let index = (idx, part("idx_offsets"));
        let words = new.words(of, &join(group, &name), index)?;
        arrays.insert(name, words);
    }
    Ok(arrays)
}

/// The files that are told.
struct FieldsRecipe<'a> {
    budget: &'a Arc<Budget>,
    files: BTreeMap<MemberNumber, FieldChanges>,
    /// What is told of these is known anyway.
    not_kept: BTreeSet<MemberNumber>,
}

impl FieldsRecipe<'_> {
    fn file(&mut self, file: MemberNumber) -> Result<&mut FieldChanges> {
        if !self.files.contains_key(&file) {
            self.files.insert(file, FieldChanges::new(self.budget)?);
        }
        let told = self.files.get_mut(&file);
        told.ok_or_else(|| Error::Bug("a file that is told has gone".into()))
    }
}

impl Recipe for FieldsRecipe<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        if !self.not_kept.contains(&file) {
            self.file(file)?.copy(from, to);
        }
        Ok(())
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        match self.not_kept.contains(&file) {
            true => Ok(()),
            false => self.file(file)?.put(at, bytes),
        }
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        if !self.not_kept.contains(&file) {
            self.file(file)?.set_len(len);
        }
        Ok(())
    }
}
