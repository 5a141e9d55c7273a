//! Values that are stored in one piece: contiguous datasets, changed where they lie, and compact
//! ones, which libhdf5 writes into the object header.
//!
//! A contiguous dataset that nobody has written has no place yet, and may have more bytes than any
//! disk. It gets a place in full; of that only what somebody has written is put, unless a fill
//! value has to be: behind the end of the file zeros need no room. Used by [`super::dataset`].

use std::ops::Range;
use std::sync::Arc;

use super::dataset::WrittenDataset;
use super::edit_recipe::EditRecipe;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::container::chunked_write::memory::spaces_in_turn;
use crate::container::hdf5::edit::{EditReply, EditStep};
use crate::container::hdf5::worker::wrong_reply;
use crate::container::plain_write::dirty_bytes;
use crate::container::writable::{Amount, ChangedArray};
use crate::error::{Error, Fault, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::memory::fallible;
use crate::pipeline::in_order;
use crate::range_set::RangeSet;

/// Shown bytes that are put at once, at least an element.
const STEP: u64 = 1 << 20;

/// Stretches that are listed at a time.
const AT_A_TIME: usize = 4096;

/// Shown bytes that have changed, as whole elements.
pub(super) fn dirty(dataset: &WrittenDataset, change: &ChangedArray) -> RangeSet {
    let element = dataset.element.shown;
    dirty_bytes(&change.ranges, (change.visible, change.len), element)
}

/// Puts stored bytes, given their place; those that are none lie there already.
type PutStored<'a> = dyn FnMut(Range<u64>, Option<&[u8]>) -> Result<()> + 'a;

/// What is put at once, and how.
struct Stretches<'a> {
    dataset: &'a WrittenDataset,
    change: &'a ChangedArray,
    /// Shown bytes.
    step: u64,
    /// From this stored byte on, zeros need not be put.
    zeros_from: u64,
}

impl<'a> Stretches<'a> {
    fn new(dataset: &'a WrittenDataset, change: &'a ChangedArray) -> Stretches<'a> {
        let shown = dataset.element.shown;
        Stretches {
            dataset,
            change,
            step: (STEP / shown).max(1) * shown,
            zeros_from: u64::MAX,
        }
    }

    /// For the shown bytes of a stretch, and its stored ones.
    fn spaces(
        &self,
        (dirty, stretches): (&RangeSet, usize),
        budget: &Arc<Budget>,
    ) -> Result<Vec<Workspace>> {
        let element = &self.dataset.element;
        let mut lent = 0;
        for range in dirty.iter().flat_map(|run| self.not_zeros(run)) {
            lent = lent.max(lent_for(&*self.change.shown, range)?);
        }
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

    /// Whether what has been made of a stretch need not be put.
    fn may_be_left_out(&self, at: u64, stored: &[u8]) -> bool {
        at >= self.zeros_from && stored.iter().all(|&byte| byte == 0)
    }

    /// Whether it lies in the new file already: stored bytes are shown bytes then.
    fn lies(&self, range: &Range<u64>) -> bool {
        let run = self.dataset.run();
        run.is_some_and(|run| self.change.lies(&run, range))
    }

    /// Has all changed elements put, in order.
    fn each(
        &self,
        dirty: &RangeSet,
        budget: &Arc<Budget>,
        before: &(dyn Fn(u64, &mut [u8]) -> Result<()> + Sync),
        put: &mut PutStored<'_>,
    ) -> Result<()> {
        let mut all = dirty.iter().flat_map(|run| self.steps(run));
        let mut some: Vec<_> = all.by_ref().take(AT_A_TIME).collect();
        let mut spaces = self.spaces((dirty, some.len()), budget)?;
        while !some.is_empty() {
            in_order(
                spaces.iter_mut().collect(),
                some.len(),
                |space, n| match self.lies(&some[n]) {
                    true => Ok(None),
                    false => self.stored(some[n].clone(), space, before).map(Some),
                },
                |n, space, made| {
                    let Some((at, stored)) = made else {
                        return put(some[n].clone(), None);
                    };
                    let stored = &space.parts().0[stored];
                    match self.may_be_left_out(at, stored) {
                        true => Ok(()),
                        false => put(at..at.saturating_add(stored.len() as u64), Some(stored)),
                    }
                },
            )?;
            some = all.by_ref().take(AT_A_TIME).collect();
        }
        Ok(())
    }

    /// Cut into what is put at once. What is known to be zeros before it is read, and need not be
    /// put, is passed over, however much it is.
    fn steps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let element = &self.dataset.element;
        let zeros_from = match element.cast.is_same() && !element.refuses() {
            true => self.zeros_from,
            false => u64::MAX,
        };
        self.cut(range, zeros_from)
    }

    /// Cuts what is not known to be zeros into what is put at once.
    fn not_zeros(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        self.cut(range, 0)
    }

    /// Zeros are passed over from this shown byte on.
    fn cut(&self, range: Range<u64>, zeros_from: u64) -> impl Iterator<Item = Range<u64>> {
        let element = self.dataset.element.shown;
        let mut at = range.start;
        let next = move || {
            if at >= zeros_from {
                let zeros = self.change.shown.zeros_ahead(at..range.end);
                at += zeros - zeros % element;
            }
            let mut next = at..range.end.min(at.saturating_add(self.step));
            if let Some(run) = self.dataset.run().filter(|_| !next.is_empty()) {
                let end = self.change.until_lying_changes(&run, &next);
                next.end = (end - end % element).max(at.saturating_add(element));
            }
            at = next.end;
            (!next.is_empty()).then_some(next)
        };
        std::iter::from_fn(next)
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
    let mut stretches = Stretches::new(dataset, change);
    let start = match address {
        Some(address) => address,
        None => {
            let start = allocate(dataset, recipe)?;
            let there = recipe.source().len().saturating_sub(start);
            dirty = first_values(dataset, change, there);
            if dataset.fill.is_none() {
                stretches.zeros_from = there;
            }
            start
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
    stretches.each(&dirty, budget, &before, &mut |at, bytes| {
        let place = start.saturating_add(at.start)..start.saturating_add(at.end);
        match bytes {
            Some(bytes) => recipe.put_values(place.start, bytes),
            None => recipe.values_lie(place),
        }
    })
}

/// Adds what would be put of a dataset, which has a place or not.
pub(super) fn add_amount(
    dataset: &WrittenDataset,
    has_place: bool,
    change: &ChangedArray,
    amount: &mut Amount,
) {
    let dirty = dirty(dataset, change);
    if dirty.is_empty() {
        return;
    }
    let changed = match has_place {
        true => dirty.len(),
        false => first_values(dataset, change, 0).len(),
    };
    amount.changed = amount.changed.saturating_add(changed);
    if !has_place && dataset.fill.is_some() {
        let element = &dataset.element;
        let stored = (changed / element.shown.max(1)).saturating_mul(element.stored);
        amount.grown = amount.grown.saturating_add(stored);
    }
}

/// What is put of a dataset that gets a place: all of it where there is a fill value, else what has
/// been written, and the part that lies over so many bytes which the file has already.
fn first_values(dataset: &WrittenDataset, change: &ChangedArray, there: u64) -> RangeSet {
    if dataset.fill.is_some() {
        return RangeSet::from(0..dataset.bytes);
    }
    let element = &dataset.element;
    let there = there.div_ceil(element.stored.max(1));
    let there = there.saturating_mul(element.shown).min(dataset.bytes);
    let mut written = dirty_bytes(&change.ranges, (change.len, change.len), element.shown);
    written.insert(0..there);
    written
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
        let place = bytes.get_mut(at.start as usize..at.end as usize);
        let (place, stored) = place.zip(stored).ok_or_else(short)?;
        place.copy_from_slice(stored);
        Ok(())
    })?;
    let token = dataset.token;
    recipe.step(&EditStep::Compact { token, bytes }).map(|_| ())
}
