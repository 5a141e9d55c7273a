//! Whether the arrays of a changed container agree: what a reader relies on, as far as it has
//! changed.
//!
//! The same rules as those of `check`, so that what is committed passes a full check, and a few
//! that a reader relies on. What has not changed is taken as it is, sound or not. Everything is
//! streamed. Used by [`super`].

mod fragments;
mod lines;
mod matrix;

use std::sync::Arc;

use super::chromosomes::unsigned;
use super::forms::arrays_of;
use super::merged::{MergedArray, MergedContainer};
use super::objection::Objection;
use super::spaces::{lent, read_step, reading_space, telling_steps};
use crate::container::bpcells::version::Holds;
use crate::error::Error;
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

pub(super) type Ruling<T = ()> = std::result::Result<T, Objection>;

pub(super) fn judge(merged: &MergedContainer<'_>, budget: &Arc<Budget>) -> Ruling {
    let judge = Judge { merged, budget };
    judge.whole_elements()?;
    match merged.variant.content {
        Holds::Matrix(_) => matrix::judge(&judge),
        Holds::Fragments => fragments::judge(&judge),
    }
}

struct Judge<'a> {
    merged: &'a MergedContainer<'a>,
    budget: &'a Arc<Budget>,
}

impl Judge<'_> {
    fn whole_elements(&self) -> Ruling {
        for name in arrays_of(self.merged.variant) {
            if *name == "end_max" || !self.merged.has_changed(&[name]) {
                continue;
            }
            let array = self.merged.array(name)?;
            let Some(width) = array.form.width() else {
                continue;
            };
            if !array.len.is_multiple_of(width) {
                return Err(Objection::NotYet(format!(
                    "{name} has {} bytes, which are no whole values of {width} bytes",
                    array.len
                )));
            }
        }
        Ok(())
    }

    /// Memory to read an array with.
    fn space(&self, array: &MergedArray<'_>) -> Ruling<Workspace> {
        let lent = lent(array.shown, 0..array.len)?;
        Ok(reading_space(lent, self.budget)?)
    }

    /// The bytes of a small range of an array.
    fn element(&self, array: &MergedArray<'_>, number: u64) -> Ruling<u64> {
        let width = array.form.width().unwrap_or(1);
        let at = number.saturating_mul(width);
        let step = at..at.saturating_add(width);
        let mut space = reading_space(lent(array.shown, step.clone())?, self.budget)?;
        Ok(unsigned(read_step(array.shown, &step, &mut space)?))
    }

    /// Every one of these elements of an array of u32 is less than `limit`.
    fn all_below(
        &self,
        array: &MergedArray<'_>,
        elements: &RangeSet,
        limit: u64,
        things: &str,
    ) -> Ruling {
        let mut space = self.space(array)?;
        for run in elements.iter() {
            for step in telling_steps(array.shown, 4 * run.start..4 * run.end) {
                let Some(values) = passable(read_step(array.shown, &step, &mut space))? else {
                    continue;
                };
                let values = values
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|v| u32::from_le_bytes(*v));
                if values.clone().max().map(u64::from) < Some(limit) || values.len() == 0 {
                    continue;
                }
                let over = values.zip(step.start / 4..);
                let over = over
                    .into_iter()
                    .find(|(value, _)| u64::from(*value) >= limit);
                if let Some((value, number)) = over {
                    return Err(Objection::NotYet(format!(
                        "{}: value {number} is {value}, and there are {limit} {things}",
                        array.name
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Damage of what has not changed does not matter here; what has is read once more when it is
/// written.
fn passable<T>(read: crate::error::Result<T>) -> Ruling<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Fault(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}
