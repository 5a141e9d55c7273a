//! A [`Layer`] and the next file: which arrays have a place in it, which of their bytes lie there,
//! and to which of these the log refers.
//!
//! Bytes to which the log refers are never put over: what is written there goes to memory, and the
//! file cannot be what the next commit makes any more, but is copied from. All other bytes are put
//! over as they are written. A writer holds the file's gate, shared, from its look here until the
//! layer has the bytes, and who refers to bytes holds it alone: so none change under a checksum.

use std::ops::Range;
use std::sync::Arc;

use super::super::extents::{ExtentPlace, Extents};
use super::super::log::Record;
use super::super::next_file::{NextFile, REFERRED_AT_ONCE};
use super::super::written_array::WrittenArray;
use super::{ArrayChanges, Layer, LayerState, lost, no_array, release};
use crate::array::stored_run::StoredRun;
use crate::error::Result;
use crate::range_set::RangeSet;

/// The place of an array in the next file.
pub(super) struct NextArea {
    run: StoredRun,
    /// What the log refers to, of the array.
    referred: RangeSet,
}

impl NextArea {
    /// None of it is to be put over, and all of it would have to be shown.
    pub(super) fn spoil(&mut self) {
        self.referred.insert(0..self.run.len);
    }
}

impl Layer {
    /// The file that the commit of these changes is to make, if it has been begun.
    pub fn next_file(&self) -> Option<Arc<NextFile>> {
        self.state.read().next.clone()
    }

    /// That file, if its bytes under the log's references are those that are shown, so that the
    /// rest can be written around them; and how many arrays have a place in it.
    pub fn whole_next(&self) -> Option<(Arc<NextFile>, usize)> {
        let state = self.state.read();
        let areas = || state.arrays.iter().filter(|array| array.next.is_some());
        let next = state.next.clone()?;
        areas()
            .all(ArrayChanges::shows_what_is_referred)
            .then(|| (next, areas().count()))
    }

    /// How many bytes lie in it.
    pub fn bytes_in_next(&self) -> u64 {
        let state = self.state.read();
        let extents = state.arrays.iter().flat_map(|array| array.extents.iter());
        let there = extents.filter(|(_, place)| place.is_in_next());
        there.map(|(range, _)| range.end - range.start).sum()
    }

    /// How long the arrays are together that have a place in it.
    pub fn bytes_of_runs(&self) -> u64 {
        let state = self.state.read();
        let areas = state.arrays.iter().filter_map(|array| array.next.as_ref());
        areas.map(|area| area.run.len).fold(0, u64::saturating_add)
    }

    /// Where an array lies in it.
    pub fn run(&self, array: WrittenArray) -> Option<StoredRun> {
        Some(self.state.read().array(array)?.next.as_ref()?.run)
    }

    /// The first bytes of a range of an array that lie in the file which the commit is making, as
    /// they are shown: whole elements.
    pub fn lying(
        &self,
        array: WrittenArray,
        run: &StoredRun,
        range: &Range<u64>,
    ) -> Option<Range<u64>> {
        let state = self.state.read();
        state.next.as_ref().filter(|next| next.is_taken())?;
        let array = state.array(array)?;
        array.next.as_ref().filter(|area| area.run == *run)?;
        let mut at = range.start;
        loop {
            let (part, place) = array.extents.next_staged(at..range.end)?;
            at = part.end;
            let lying = run.elements_within(&part);
            if place.is_in_next() && !lying.is_empty() {
                return Some(lying);
            }
        }
    }

    pub(crate) fn set_next(&self, next: Arc<NextFile>) {
        self.state.write().next = Some(next);
    }

    /// Gives an array its place, unless another has a part of it.
    pub(crate) fn add_area(&self, array: WrittenArray, run: StoredRun) {
        let mut state = self.state.write();
        let whole = run.place(&(0..run.len));
        let overlaps = |other: &ArrayChanges| {
            let other = other.next.as_ref().map(|area| area.run);
            let place = other.map(|run| run.place(&(0..run.len)));
            place.is_some_and(|place| place.start < whole.end && whole.start < place.end)
        };
        if state.arrays.iter().any(overlaps) {
            return;
        }
        if let Some(array) = state.arrays.get_mut(array.index()) {
            let referred = RangeSet::default();
            array.next = Some(NextArea { run, referred });
        }
    }

    /// Notes that the log refers to bytes of an array.
    pub(crate) fn add_referred(&self, array: WrittenArray, range: Range<u64>) {
        let mut state = self.state.write();
        let array = state.arrays.get_mut(array.index());
        if let Some(area) = array.and_then(|array| array.next.as_mut()) {
            area.referred.insert(area.run.elements(&range));
        }
    }

    /// Where bytes go that are about to be written; none if they go to memory.
    pub(crate) fn takes_next(&self, array: WrittenArray, range: &Range<u64>) -> Option<StoredRun> {
        let state = self.state.read();
        let area = state.array(array)?.next.as_ref()?;
        let fits = range.end <= area.run.len && area.run.elements(range) == *range;
        let is_free = area.referred.overlapping(range).is_none();
        (fits && is_free && state.absorbed_by.is_none()).then_some(area.run)
    }

    /// Bytes have been put there.
    pub(crate) fn put_next(&self, array: WrittenArray, range: Range<u64>) -> Result<()> {
        let mut state = self.state.write();
        state.note_write(array, &range);
        let LayerState { arrays, slabs, .. } = &mut *state;
        let array = arrays.get_mut(array.index()).ok_or_else(no_array)?;
        array.unlogged.insert(range.clone());
        let mut dropped = |place: ExtentPlace, len| release(slabs, place, len);
        let place = ExtentPlace::in_next(range.start);
        array.extents.put(range, place, &mut dropped);
        Ok(())
    }

    /// Whether a range that the log does not have begins with bytes that lie there.
    pub(crate) fn begins_in_next(&self, array: WrittenArray, range: &Range<u64>) -> bool {
        let state = self.state.read();
        let extents = state.array(array).map(|array| &array.extents);
        let first = extents.and_then(|extents| extents.next_staged(range.clone()));
        first.is_some_and(|(part, place)| part.start == range.start && place.is_in_next())
    }

    /// A record that refers to the first bytes of a range, which the log did not have, and where
    /// they end. The log has them once it has that. None if they do not lie there: they may have
    /// been written over since that was looked at.
    pub(crate) fn refer(
        &self,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Result<Option<(u64, Record)>> {
        self.reference(array, range, |unlogged, part| unlogged.remove(part))
    }

    /// The same for a log that is written anew, and may come to nothing: what the log there is does
    /// not have stays so.
    pub(crate) fn refer_anew(
        &self,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Result<Option<(u64, Record)>> {
        self.reference(array, range, |_, _| {})
    }

    fn reference(
        &self,
        array: WrittenArray,
        range: Range<u64>,
        take: impl FnOnce(&mut RangeSet, Range<u64>),
    ) -> Result<Option<(u64, Record)>> {
        let found = self.state.read().next_of(array);
        let (next, run) = found.ok_or_else(lost)?;
        let alone = next.alone();
        let Some(range) = self.take_referred(array, range, take)? else {
            return Ok(None);
        };
        drop(alone);
        let crc = next.checksum(&run, &range);
        let crc = crc.inspect_err(|_| self.not_logged(array, range.clone()))?;
        let record = Record::InNext {
            layer: self.number(),
            array: array.0,
            offset: range.start,
            len: range.end - range.start,
            run,
            crc,
        };
        next.is_referred_to();
        Ok(Some((range.end, record)))
    }

    fn take_referred(
        &self,
        array: WrittenArray,
        range: Range<u64>,
        take: impl FnOnce(&mut RangeSet, Range<u64>),
    ) -> Result<Option<Range<u64>>> {
        let mut state = self.state.write();
        let array = state.arrays.get_mut(array.index()).ok_or_else(no_array)?;
        let end = range.end.min(range.start.saturating_add(REFERRED_AT_ONCE));
        let found = array.extents.next_staged(range.start..end);
        let found = found.filter(|(part, place)| part.start == range.start && place.is_in_next());
        let Some((part, _)) = found else {
            return Ok(None);
        };
        take(&mut array.unlogged, part.clone());
        let area = array.next.as_mut().ok_or_else(lost)?;
        area.referred.insert(area.run.elements(&part));
        Ok(Some(part))
    }

    /// The log refers to it.
    pub(crate) fn logged_next(&self, array: WrittenArray, end: u64) {
        let mut state = self.state.write();
        state.has_logged = true;
        if let Some(array) = state.arrays.get_mut(array.index()) {
            array.logged_len = array.logged_len.max(end);
        }
    }
}

impl ArrayChanges {
    fn shows_what_is_referred(&self) -> bool {
        let mut referred = self.next.iter().flat_map(|area| area.referred.iter());
        referred.all(|range| lies_in_next(&self.extents, &range))
    }
}

impl LayerState {
    /// The next file, and where an array lies in it.
    pub(super) fn next_of(&self, array: WrittenArray) -> Option<(Arc<NextFile>, StoredRun)> {
        let run = self.array(array)?.next.as_ref()?.run;
        Some((self.next.clone()?, run))
    }
}

fn lies_in_next(extents: &Extents, range: &Range<u64>) -> bool {
    let mut at = range.start;
    while at < range.end {
        match extents.next_staged(at..range.end) {
            Some((part, place)) if part.start == at && place.is_in_next() => at = part.end,
            _ => return false,
        }
    }
    true
}
