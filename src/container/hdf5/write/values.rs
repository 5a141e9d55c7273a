//! Values that are stored in one piece: contiguous datasets, changed where they lie, and compact
//! ones, which libhdf5 writes into the object header. Used by [`super::dataset`].

use std::ops::Range;
use std::sync::Arc;

use super::dataset::WrittenDataset;
use super::edit_recipe::EditRecipe;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::container::chunked_write::memory::spaces_in_turn;
use crate::container::hdf5::edit::{EditReply, EditStep};
use crate::container::hdf5::worker::wrong_reply;
use crate::container::numbers::Numbers;
use crate::container::plain_write::dirty_bytes;
use crate::container::rewrite::ChangedArray;
use crate::error::{Error, Fault, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::memory::fallible;
use crate::pipeline::in_order;

/// Shown bytes that are put at once, at least an element.
const STEP: u64 = 1 << 20;

/// Stretches that are listed at a time.
const AT_A_TIME: usize = 4096;

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
}

impl<'a> Stretches<'a> {
    fn new(dataset: &'a WrittenDataset, change: &'a ChangedArray) -> Stretches<'a> {
        let shown = dataset.element.shown;
        Stretches {
            dataset,
            change,
            step: (STEP / shown).max(1) * shown,
        }
    }

    /// For the shown bytes of a stretch, and its stored ones.
    fn spaces(&self, stretches: usize, budget: &Arc<Budget>) -> Result<Vec<Workspace>> {
        let element = &self.dataset.element;
        let lent = lent_for(&*self.change.shown, 0..self.change.len)?;
        let stored = self.step / element.shown * element.stored;
        spaces_in_turn((self.step.saturating_add(stored), lent), stretches, budget)
    }

    /// Elements as they are to be stored: at which place of the dataset's stored bytes, and where
    /// in the space they lie. `before` reads what is stored, from such a place.
    fn stored(
        &self,
        range: Range<u64>,
        space: &mut Workspace,
        before: &(dyn Fn(u64, &mut [u8]) -> Result<()> + Sync),
    ) -> Result<(u64, Range<usize>)> {
        let element = &self.dataset.element;
        let len = range.end - range.start;
        let (room, scratch) = space.parts();
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
            return Ok((at, 0..shown.len()));
        }
        let stored = &mut stored[..(len / element.shown * element.stored) as usize];
        match self.dataset.is_lossless() {
            true => stored.fill(0),
            false => before(at, stored)?,
        }
        self.dataset.store(range.start, shown, stored)?;
        let step = self.step as usize;
        Ok((at, step..step + stored.len()))
    }

    /// Has all changed elements put, in order.
    fn each(
        &self,
        dirty: &Numbers,
        budget: &Arc<Budget>,
        before: &(dyn Fn(u64, &mut [u8]) -> Result<()> + Sync),
        put: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut all = dirty.runs().flat_map(|run| self.steps(run));
        let mut some: Vec<_> = all.by_ref().take(AT_A_TIME).collect();
        let mut spaces = self.spaces(some.len(), budget)?;
        while !some.is_empty() {
            in_order(
                spaces.iter_mut().collect(),
                some.len(),
                |space, n| self.stored(some[n].clone(), space, before),
                |_, space, (at, stored)| put(at, &space.parts().0[stored]),
            )?;
            some = all.by_ref().take(AT_A_TIME).collect();
        }
        Ok(())
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
    (budget, recipe): (&Arc<Budget>, &mut EditRecipe<'_, '_>),
) -> Result<()> {
    let mut dirty = dirty(dataset, change);
    if dirty.is_empty() {
        return Ok(());
    }
    let start = match address {
        Some(address) => address,
        None => {
            dirty = Numbers::of(std::iter::once(0..dataset.bytes).collect());
            allocate(dataset, recipe)?
        }
    };
    let source = Arc::clone(recipe.source());
    let before = |at: u64, out: &mut [u8]| match address {
        Some(address) => source.fetch_one(address.saturating_add(at), out),
        None => {
            dataset.put_fill(out);
            Ok(())
        }
    };
    Stretches::new(dataset, change).each(&dirty, budget, &before, &mut |at, bytes| {
        recipe.put_values(start.saturating_add(at), bytes)
    })
}

fn allocate(dataset: &WrittenDataset, recipe: &mut EditRecipe<'_, '_>) -> Result<u64> {
    let token = dataset.token;
    match recipe.step(&EditStep::Allocate { token })? {
        EditReply::Places(places) if places.len() == 1 => Ok(places[0]),
        _ => Err(wrong_reply()),
    }
}

pub(super) fn put_compact(
    dataset: &WrittenDataset,
    change: &ChangedArray,
    (budget, recipe): (&Arc<Budget>, &mut EditRecipe<'_, '_>),
) -> Result<()> {
    // A dataset without elements has none.
    let before = dataset.array.compact().unwrap_or_default();
    let mut bytes = fallible::copy(before, "cannot write a compact dataset")?;
    let short = || Error::from(Fault::new("compact data are too short"));
    let copy = |at: u64, out: &mut [u8]| {
        let part = before.get(at as usize..at as usize + out.len());
        out.copy_from_slice(part.ok_or_else(short)?);
        Ok(())
    };
    let dirty = dirty(dataset, change);
    Stretches::new(dataset, change).each(&dirty, budget, &copy, &mut |at, stored| {
        let place = bytes.get_mut(at as usize..at as usize + stored.len());
        place.ok_or_else(short)?.copy_from_slice(stored);
        Ok(())
    })?;
    let token = dataset.token;
    recipe.step(&EditStep::Compact { token, bytes }).map(|_| ())
}
