//! A look at the texts of a file as it would be: those that were written read as they are to be,
//! and all others as they were.
//!
//! Values of many datasets lie in one collection of the heap, of which libhdf5 takes those that are
//! written anew. A file of another program's could have one value for several elements, and lose it
//! then. So texts are read of which some lie in a collection that changes. Used by
//! [`super::unchanged`].

use std::ops::Range;
use std::sync::Arc;

use super::texts::PlannedTexts;
use super::unchanged::place_of;
use crate::array::Array;
use crate::array::nested::NestedBlocks;
use crate::container::hdf5::dataset;
use crate::container::hdf5::index::{DatasetEntry, FileIndex, StorageLayout};
use crate::container::hdf5::strings::Strings;
use crate::container::hdf5::text_lines;
use crate::container::hdf5::worker;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::Source;

/// A file, and its structure.
#[derive(Clone, Copy)]
pub(super) struct TextFile<'a> {
    pub(super) source: &'a Arc<dyn Source>,
    pub(super) index: &'a FileIndex,
}

impl TextFile<'_> {
    fn dataset(&self, token: u64) -> Option<&DatasetEntry> {
        let mut datasets = self.index.datasets.iter();
        datasets.find(|dataset| dataset.token == token)
    }

    /// Visits the places of the stored chunks of a dataset, if it has any.
    fn each_chunk(
        &self,
        token: u64,
        budget: &Arc<Budget>,
        visit: &mut dyn FnMut(Range<u64>),
    ) -> Result<()> {
        match self.dataset(token).map(|dataset| &dataset.layout) {
            Some(StorageLayout::Chunked {
                table: Some(table), ..
            }) => table.iter().map(place_of).for_each(visit),
            Some(StorageLayout::Chunked { table: None, .. }) => {
                let chunks = worker::chunks(&**self.source, token, budget)?;
                let chunks = chunks.checked(u64::MAX)?;
                chunks.iter().for_each(|chunk| visit(place_of(&chunk)));
            }
            _ => {}
        }
        Ok(())
    }

    /// The strings of a dataset, if they can be read.
    fn strings(&self, dataset: &DatasetEntry, budget: &Arc<Budget>) -> Result<Option<Strings>> {
        let (nested, tables) = (
            NestedBlocks::new(budget),
            worker::tables(self.source, budget),
        );
        let of = (self.source, self.index, dataset);
        let opened = dataset::strings("text", of, &nested, tables)?;
        Ok(opened.ok().map(|(strings, _)| strings))
    }
}

/// Where chunks of texts that were written have been, and are no more.
pub(super) fn freed(
    (before, after): (TextFile<'_>, TextFile<'_>),
    planned: &[PlannedTexts<'_>],
    budget: &Arc<Budget>,
) -> Result<RangeSet> {
    let mut freed = RangeSet::default();
    for plan in planned {
        let token = plan.texts.token;
        before.each_chunk(token, budget, &mut |place| freed.insert(place))?;
        after.each_chunk(token, budget, &mut |place| freed.remove(place))?;
    }
    Ok(freed)
}

/// `changed`: bytes of the file that are others.
pub(super) fn check(
    (before, after): (TextFile<'_>, TextFile<'_>),
    planned: &[PlannedTexts<'_>],
    changed: &RangeSet,
    budget: &Arc<Budget>,
) -> Result<()> {
    if planned.is_empty() {
        return Ok(());
    }
    for plan in planned {
        check_written(after, plan, budget).map_err(|e| e.of_array("", plan.texts.name()))?;
    }
    let is_planned = |token: u64| planned.iter().any(|plan| plan.texts.token == token);
    for dataset in &before.index.datasets {
        // Those in an object header are a part of the structure.
        let is_text = dataset.element.is_text()
            && matches!(
                dataset.layout,
                StorageLayout::Contiguous { .. } | StorageLayout::Chunked { .. }
            );
        if is_text && !is_planned(dataset.token) {
            check_other((before, after), dataset, changed, budget)?;
        }
    }
    Ok(())
}

fn check_written(after: TextFile<'_>, plan: &PlannedTexts<'_>, budget: &Arc<Budget>) -> Result<()> {
    let change = &plan.change;
    let dataset = after.dataset(plan.texts.token);
    let dataset = dataset.ok_or_else(|| Fault::new("the dataset has gone"))?;
    let wanted = (&*change.shown, change.len);
    let same = match &dataset.layout {
        StorageLayout::Texts(lines, _) => {
            let mut reader = text_lines::reader(wanted.0, wanted.1, budget)?;
            let mut rest = &lines[..];
            let mut same = true;
            while let Some(part) = reader.next()? {
                let found = rest.strip_prefix(part);
                same &= found.is_some();
                rest = found.unwrap_or_default();
            }
            same && rest.is_empty()
        }
        _ => match after.strings(dataset, budget)? {
            Some(strings) => {
                text_lines::is_same((&strings, strings.info()?.bytes), wanted, budget)?
            }
            None => false,
        },
    };
    match same {
        true => Ok(()),
        false => Err(Fault::new("the texts would not be read as they were written").into()),
    }
}

/// Only those of which some lie where something changes are read.
fn check_other(
    (before, after): (TextFile<'_>, TextFile<'_>),
    dataset: &DatasetEntry,
    changed: &RangeSet,
    budget: &Arc<Budget>,
) -> Result<()> {
    let Some(old) = before.strings(dataset, budget)? else {
        return Ok(());
    };
    let is_changed = |at: u64| changed.contains(&(at..at.saturating_add(1)));
    let lies_there = match old.lies_in(&is_changed) {
        // What cannot be read now has nothing to lose.
        Err(Error::Fault(_)) => false,
        other => other?,
    };
    let readable = |strings: &Strings| strings.info().map(|info| info.bytes);
    let (true, Ok(bytes)) = (lies_there, readable(&old)) else {
        return Ok(());
    };
    let new = after.dataset(dataset.token);
    let new = match new {
        Some(new) => after.strings(new, budget)?,
        None => None,
    };
    let same = match &new {
        Some(new) => text_lines::is_same((&old, bytes), (new, new.info()?.bytes), budget)?,
        None => false,
    };
    match same {
        true => Ok(()),
        false => Err(Fault::new("writing would change texts of another dataset").into()),
    }
}
