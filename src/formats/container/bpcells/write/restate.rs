//! What a container says of itself with changes that are not stored: types, lengths, numbers of
//! names, and `end_max`.
//!
//! Arrays need not agree with each other, and a `version` or `storage_order` that is not one leaves
//! things as they were: it is said what would be read, as far as that can be. Used by [`super`].

use std::sync::Arc;

use super::forms::{ArrayForm, arrays_of};
use super::merged::{MergedArray, MergedContainer};
use super::recipe::maxima;
use super::spaces::{lent, read_step, reading_space};
use super::told::ToldMembers;
use super::{END_MAX, MemberFiles, VERSION};
use crate::array::Info;
use crate::array::dtype::Dtype;
use crate::array::uncached::PartReader;
use crate::container::bpcells::packed::BLOCK_BYTES;
use crate::container::bpcells::version::Holds;
use crate::container::chunked_write::memory::at_once;
use crate::container::writable::{ChangedArray, ComputedBytes, Restated};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::memory::fallible;

const DOING: &str = "cannot compute end_max";

pub(super) fn restate(
    files: &MemberFiles,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<Restated> {
    let merged = MergedContainer::readable(files, changed);
    let mut restated = Restated {
        version: merged.change(VERSION).map(|_| merged.version.clone()),
        ..Restated::default()
    };
    for name in arrays_of(merged.variant) {
        // One that the new variant has is not there before it is written.
        let Ok(array) = merged.array(name) else {
            continue;
        };
        if let Some(info) = info(&merged, &array, budget)? {
            restated.arrays.insert((*name).to_owned(), info);
        }
    }
    attributes(&merged, budget, &mut restated)?;
    Ok(restated)
}

/// None of an array that is what it was.
fn info(
    merged: &MergedContainer<'_>,
    array: &MergedArray<'_>,
    budget: &Arc<Budget>,
) -> Result<Option<Info>> {
    let Some(stored) = merged.files.array(array.name) else {
        return Ok(None);
    };
    let stored = stored.info()?;
    let len = match array.form {
        ArrayForm::Maxima => match maxima(merged)? {
            Some(plan) => plan.len(),
            None => return Ok(None),
        },
        _ if !merged.has_changed(&[array.name]) => return Ok(None),
        _ => array.len,
    };
    let (dtype, shape) = match array.form.number() {
        Some(number) if len.is_multiple_of(number.width()) => {
            (number.dtype(), vec![len / number.width()])
        }
        // Shown as bytes, until it has whole elements again.
        Some(_) => (Dtype::U8, vec![len]),
        None => (stored.dtype.clone(), vec![lines(array, budget)?]),
    };
    Ok(Some(Info {
        dtype,
        shape,
        bytes: len,
        ..stored
    }))
}

/// Lines of a text; the last one counts without its end, too.
fn lines(array: &MergedArray<'_>, budget: &Arc<Budget>) -> Result<u64> {
    if array.change.is_none() {
        return Ok(array.shown.info()?.shape.first().copied().unwrap_or(0));
    }
    let hold = |bytes| Ok(at_once(bytes, budget));
    PartReader::new(array.shown, array.len, BLOCK_BYTES, hold)?.count_lines()
}

/// The attributes that `matrix` and `fragments` give a stored container, where they are others now.
fn attributes(
    merged: &MergedContainer<'_>,
    budget: &Arc<Budget>,
    restated: &mut Restated,
) -> Result<()> {
    let mut tell = |name: &str, value: serde_json::Value| {
        restated.attributes.insert(name.to_owned(), value);
    };
    let count = |name| merged.array(name).map(|array| array.count());
    match merged.variant.content {
        Holds::Matrix(_) => {
            tell("storage_order", merged.order.name().into());
            if merged.has_changed(&["val"]) {
                tell("nnz", count("val")?.into());
            }
            if let Some(change) = merged.change("shape").filter(|change| change.len >= 8) {
                let mut space = reading_space(lent(&*change.shown, 0..8)?, budget)?;
                let numbers = read_step(&*change.shown, &(0..8), &mut space)?;
                let numbers = numbers.as_chunks::<4>().0.iter();
                let numbers = numbers.map(|number| u32::from_le_bytes(*number));
                for (name, number) in ["rows", "cols"].into_iter().zip(numbers) {
                    tell(name, number.into());
                }
            }
        }
        Holds::Fragments => {
            if merged.has_changed(&["cell"]) {
                tell("fragments", count("cell")?.into());
            }
            if merged.has_changed(&["chr_ptr"]) {
                tell("chromosomes", (count("chr_ptr")? / 2).into());
            }
        }
    }
    Ok(())
}

/// `end_max`, if it is another one than is stored.
pub(super) fn computed(
    files: &MemberFiles,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<Option<ComputedBytes>> {
    let merged = MergedContainer::readable(files, changed);
    let Some(mut plan) = maxima(&merged)? else {
        return Ok(None);
    };
    // Nothing is left out as what is stored already.
    plan.source = None;
    let mut told = ToldMembers::new(&files.members, &|_| true, budget);
    let mut space = reading_space(plan.lent()?, budget)?;
    plan.tell(&mut space, budget, &mut told)?;
    let (hold, mut bytes) = (
        budget.keep(plan.len())?,
        fallible::zeros(plan.len(), DOING)?,
    );
    let (files, _) = told.into_files();
    files.numbers(END_MAX)?.read_direct(0, &mut bytes)?;
    Ok(Some(ComputedBytes { bytes, hold }))
}
