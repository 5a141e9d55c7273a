//! Values that are stored in one piece: contiguous datasets, changed where they lie, and compact
//! ones, which libhdf5 writes into the object header. Used by [`super::dataset`].

use std::ops::Range;
use std::sync::Arc;

use super::dataset::WrittenDataset;
use super::told::ToldEdit;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::container::chunked_write::memory::at_once;
use crate::container::hdf5::edit::{EditReply, EditStep};
use crate::container::hdf5::worker::wrong_reply;
use crate::container::numbers::Numbers;
use crate::container::plain_write::dirty_bytes;
use crate::container::rewrite::ChangedArray;
use crate::error::{Error, Fault, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::memory::fallible;

/// Shown bytes that are put at once, at least an element.
const STEP: u64 = 1 << 20;

/// Shown bytes that have changed, as whole elements.
pub(super) fn dirty(dataset: &WrittenDataset, change: &ChangedArray) -> Numbers {
    let element = dataset.element.shown;
    dirty_bytes(&change.ranges, (change.visible, change.len), element)
}

/// What is put at once, and how.
struct Stretches<'a> {
    dataset: &'a WrittenDataset,
    change: &'a ChangedArray,
    /// Shown bytes.
    step: u64,
    space: Workspace,
}

impl<'a> Stretches<'a> {
    fn new(
        dataset: &'a WrittenDataset,
        change: &'a ChangedArray,
        budget: &Arc<Budget>,
    ) -> Result<Stretches<'a>> {
        let (shown, stored) = (dataset.element.shown, dataset.element.stored);
        let step = (STEP / shown).max(1) * shown;
        let lent = lent_for(&*change.shown, 0..change.len)?;
        let out = step.saturating_add(step / shown * stored);
        let hold = at_once(out.saturating_add(lent), budget);
        Ok(Stretches {
            dataset,
            change,
            step,
            space: Workspace::new(out, lent, hold, out)?,
        })
    }

    /// Elements as they are to be stored. `before` reads what is stored, from a place in the
    /// dataset's stored bytes.
    fn stored(
        &mut self,
        range: Range<u64>,
        before: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<(u64, &[u8])> {
        let element = &self.dataset.element;
        let len = range.end - range.start;
        let (room, scratch) = self.space.parts();
        let (shown, stored) = room.split_at_mut(self.step as usize);
        let shown = &mut shown[..len as usize];
        read_into(
            &*self.change.shown,
            range.start,
            shown,
            DecodeMemory::Lent(scratch),
        )?;
        let at = range.start / element.shown * element.stored;
        if element.cast.is_same() && !element.refuses() {
            return Ok((at, shown));
        }
        let stored = &mut stored[..(len / element.shown * element.stored) as usize];
        match self.dataset.is_lossless() {
            true => stored.fill(0),
            false => before(at, stored)?,
        }
        self.dataset.store(range.start, shown, stored)?;
        Ok((at, stored))
    }

    fn steps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let step = self.step;
        let starts = range.clone().step_by(step as usize);
        starts.map(move |start| start..range.end.min(start + step))
    }
}

pub(super) fn put_contiguous(
    dataset: &WrittenDataset,
    address: Option<u64>,
    change: &ChangedArray,
    (budget, told): (&Arc<Budget>, &mut ToldEdit<'_, '_>),
) -> Result<()> {
    let mut dirty = dirty(dataset, change);
    if dirty.is_empty() {
        return Ok(());
    }
    let start = match address {
        Some(address) => address,
        None => {
            dirty = Numbers::of(std::iter::once(0..dataset.bytes).collect());
            allocate(dataset, told)?
        }
    };
    let mut stretches = Stretches::new(dataset, change, budget)?;
    let source = Arc::clone(told.source());
    let before = |at: u64, out: &mut [u8]| match address {
        Some(address) => source.fetch_one(address.saturating_add(at), out),
        None => {
            dataset.put_fill(out);
            Ok(())
        }
    };
    for run in dirty.runs() {
        for step in stretches.steps(run) {
            let (at, bytes) = stretches.stored(step, &before)?;
            told.put(start.saturating_add(at), bytes)?;
        }
    }
    Ok(())
}

fn allocate(dataset: &WrittenDataset, told: &mut ToldEdit<'_, '_>) -> Result<u64> {
    let token = dataset.token;
    match told.step(&EditStep::Allocate { token })? {
        EditReply::Places(places) if places.len() == 1 => Ok(places[0]),
        _ => Err(wrong_reply()),
    }
}

pub(super) fn put_compact(
    dataset: &WrittenDataset,
    change: &ChangedArray,
    (budget, told): (&Arc<Budget>, &mut ToldEdit<'_, '_>),
) -> Result<()> {
    // A dataset without elements has none.
    let before = dataset.array.compact().unwrap_or_default();
    let mut bytes = fallible::copy(before, "cannot write a compact dataset")?;
    let mut stretches = Stretches::new(dataset, change, budget)?;
    let short = || Error::from(Fault::new("compact data are too short"));
    let copy = |at: u64, out: &mut [u8]| {
        let part = before.get(at as usize..at as usize + out.len());
        out.copy_from_slice(part.ok_or_else(short)?);
        Ok(())
    };
    for run in dirty(dataset, change).runs() {
        for step in stretches.steps(run) {
            let (at, stored) = stretches.stored(step, &copy)?;
            let place = bytes.get_mut(at as usize..at as usize + stored.len());
            place.ok_or_else(short)?.copy_from_slice(stored);
        }
    }
    let token = dataset.token;
    told.step(&EditStep::Compact { token, bytes }).map(|_| ())
}
