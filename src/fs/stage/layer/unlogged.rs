//! A [`Layer`] as the log sees it: the ranges that the log does not have yet, those that it has,
//! and the bytes that memory can do without.
//!
//! Callers hold the lock of the log, so no other thread logs the same, truncates, or puts another
//! layer in the place of this one. Writers may write to memory meanwhile: a range that they change
//! stays unlogged.

use std::ops::Range;
use std::sync::Arc;

use super::super::extents::ExtentPlace;
use super::super::log::LogBytes;
use super::super::written_array::WrittenArray;
use super::{ArrayChanges, Layer, LayerState, release};

/// Bytes that a log which was written anew has in another place.
pub(crate) struct MovedExtent {
    pub(crate) array: WrittenArray,
    pub(crate) range: Range<u64>,
    pub(crate) to: u64,
}

/// A part of what is staged of an array.
pub(crate) enum StagedPart {
    /// In memory, or in the log.
    Bytes(Range<u64>),
    InNext(Range<u64>),
    Zeros(Range<u64>),
}

/// Bytes that a record takes in a log beside its payload.
const RECORD: u64 = 64;

impl Layer {
    /// Whether the log has anything of it.
    pub(crate) fn has_logged(&self) -> bool {
        self.state.read().has_logged
    }

    /// Whether the log has all of it.
    pub(crate) fn is_logged(&self) -> bool {
        self.state.read().arrays.iter().all(ArrayChanges::is_logged)
    }

    /// The arrays of which the log lacks something.
    pub(crate) fn unlogged_arrays(&self) -> Vec<WrittenArray> {
        let state = self.state.read();
        let arrays = (0..).zip(&state.arrays);
        let unlogged = arrays.filter(|(_, array)| !array.is_logged());
        unlogged.map(|(number, _)| WrittenArray(number)).collect()
    }

    /// How many bytes of an array the log does not have; none if it has all of them, and the
    /// length.
    pub(crate) fn lacks(&self, array: WrittenArray) -> Option<u64> {
        let state = self.state.read();
        let array = state.array(array)?;
        (!array.is_logged()).then(|| array.unlogged.len())
    }

    /// How many bytes of an array do not show what is below.
    pub(crate) fn changed_bytes(&self, array: WrittenArray) -> u64 {
        let changed = self.changed(array).into_iter();
        changed.map(|range| range.end - range.start).sum()
    }

    /// How short an array has been, if the log does not know that it was cut.
    pub(crate) fn cut(&self, array: WrittenArray) -> Option<u64> {
        self.state.read().array(array).and_then(|array| array.cut)
    }

    pub(crate) fn logged_cut(&self, array: WrittenArray, len: u64) {
        self.change(array, |array| {
            array.cut = None;
            array.logged_len = len;
        });
    }

    /// How long an array is, and how long it is by the log.
    pub(crate) fn lengths(&self, array: WrittenArray) -> (u64, u64) {
        let state = self.state.read();
        let array = state.array(array);
        array.map_or((0, 0), |array| (array.extents.len(), array.logged_len))
    }

    pub(crate) fn logged_len(&self, array: WrittenArray, len: u64) {
        self.change(array, |array| array.logged_len = len);
    }

    /// The first part of a range that the log does not have.
    pub(crate) fn next_unlogged(
        &self,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Option<Range<u64>> {
        let state = self.state.read();
        state.array(array)?.unlogged.within(range).next()
    }

    /// Copies the beginning of a range that [`Layer::next_unlogged`] found, and takes it for
    /// logged; says how much.
    pub(crate) fn take_unlogged(
        &self,
        array: WrittenArray,
        range: Range<u64>,
        room: &mut [u8],
    ) -> Range<u64> {
        let mut state = self.state.write();
        let LayerState { arrays, slabs, .. } = &mut *state;
        let mut at = range.start;
        let Some(array) = arrays.get_mut(array.index()) else {
            return at..at;
        };
        let end = range.end.min(at.saturating_add(room.len() as u64));
        while let Some((part, place)) = array.extents.next_staged(at..end)
            && part.start == at
        {
            let (from, n) = ((at - range.start) as usize, (part.end - at) as usize);
            let bytes = place.memory().and_then(|place| slabs.get(place, n));
            let Some(bytes) = bytes else { break };
            room[from..][..n].copy_from_slice(bytes);
            at = part.end;
        }
        array.unlogged.remove(range.start..at);
        range.start..at
    }

    /// Takes the beginning of such a range for logged if that is zeros, and says how much.
    pub(crate) fn take_unlogged_zeros(
        &self,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Option<Range<u64>> {
        let mut state = self.state.write();
        let array = state.arrays.get_mut(array.index())?;
        match array.extents.next_staged(range.clone()) {
            Some((part, ExtentPlace::ZEROS)) if part.start == range.start => {
                array.unlogged.remove(part.clone());
                Some(part)
            }
            _ => None,
        }
    }

    /// Zeros that were taken are in the log.
    pub(crate) fn logged_zeros(&self, array: WrittenArray, range: Range<u64>) {
        self.change(array, |array| {
            array.logged_len = array.logged_len.max(range.end);
        });
    }

    /// A range that was taken is in the log at `at`, but for the bytes written meanwhile.
    pub(crate) fn logged(&self, array: WrittenArray, range: Range<u64>, at: u64) {
        self.change(array, |array| {
            array.logged_len = array.logged_len.max(range.end);
            let mut from = range.start;
            while from < range.end {
                let rewritten = array.unlogged.within(from..range.end).next();
                let rewritten = rewritten.unwrap_or(range.end..range.end);
                array
                    .extents
                    .relocate(from..rewritten.start, |start, place| {
                        place.with_log(Some(at + (start - range.start)))
                    });
                from = rewritten.end;
            }
        });
    }

    /// A range that was taken is not in the log after all.
    pub(crate) fn not_logged(&self, array: WrittenArray, range: Range<u64>) {
        self.change(array, |array| array.unlogged.insert(range));
        // That it has logged something may be true all the same: a part of it.
    }

    fn change(&self, array: WrittenArray, change: impl FnOnce(&mut ArrayChanges)) {
        let mut state = self.state.write();
        state.has_logged = true;
        if let Some(array) = state.arrays.get_mut(array.index()) {
            change(array);
        }
    }

    /// A range of about `most` bytes, from the first on that is in memory.
    pub(crate) fn next_in_memory(
        &self,
        array: WrittenArray,
        from: u64,
        most: u64,
    ) -> Option<Range<u64>> {
        let state = self.state.read();
        let (array, mut at) = (state.array(array)?, from);
        while let Some((part, place)) = array.extents.next_staged(at..u64::MAX) {
            if place.memory().is_some() {
                return Some(part.start..part.start.saturating_add(most));
            }
            at = part.end;
        }
        None
    }

    /// Drops from memory the bytes of a range that the log has.
    pub(crate) fn forget_memory(&self, array: WrittenArray, range: Range<u64>) {
        let mut state = self.state.write();
        let LayerState { arrays, slabs, .. } = &mut *state;
        let Some(array) = arrays.get_mut(array.index()) else {
            return;
        };
        let mut at = range.start;
        while let Some((part, place)) = array.extents.next_staged(at..range.end) {
            at = part.end;
            if let (Some(log), Some(_)) = (place.log(), place.memory()) {
                let only_log = |_, _| ExtentPlace::in_log(log);
                array.extents.relocate(part.clone(), only_log);
                release(slabs, place, part.end - part.start);
            }
        }
    }

    /// About how many bytes the changes take in a log: each extent is a record.
    pub(crate) fn bytes_staged(&self) -> u64 {
        let state = self.state.read();
        let extents = state.arrays.iter().flat_map(|array| array.extents.iter());
        let bytes =
            extents.filter(|(_, place)| *place != ExtentPlace::ZEROS && !place.is_in_next());
        bytes
            .map(|(range, _)| range.end - range.start + RECORD)
            .sum()
    }

    /// The first part of a range that is changed, all of it bytes that lie together, or zeros.
    pub(crate) fn next_staged(&self, array: WrittenArray, range: Range<u64>) -> Option<StagedPart> {
        let state = self.state.read();
        Some(match state.array(array)?.extents.next_staged(range)? {
            (part, ExtentPlace::ZEROS) => StagedPart::Zeros(part),
            (part, place) if place.is_in_next() => StagedPart::InNext(part),
            (part, _) => StagedPart::Bytes(part),
        })
    }

    /// The log is another one, in which all that the old one had is there, and arrays have these
    /// lengths. Bytes written to memory meanwhile do not count as logged.
    pub(crate) fn log_moved(&self, moved: &[MovedExtent], lens: &[u64], log: LogBytes) {
        let mut state = self.state.write();
        state.has_logged = true;
        state.log = Some(log);
        for MovedExtent { array, range, to } in moved {
            if let Some(array) = state.arrays.get_mut(array.index()) {
                array.extents.relocate(range.clone(), |start, place| {
                    place.with_log(place.log().map(|_| to + (start - range.start)))
                });
            }
        }
        for (array, &len) in state.arrays.iter_mut().zip(lens) {
            (array.cut, array.logged_len) = (None, len);
        }
    }

    /// Lays the changes of the layer above over these, and stands for both from now on.
    pub(crate) fn absorb(self: &Arc<Self>, above: &Layer) {
        let mut state = self.state.write();
        let mut other = above.state.write();
        let LayerState { arrays, slabs, .. } = &mut *state;
        slabs.take_over(&mut other.slabs);
        let mut dropped = |place: ExtentPlace, len| release(slabs, place, len);
        for (own, over) in arrays.iter_mut().zip(&mut other.arrays) {
            let said = own.is_length_logged();
            own.encoded.clear();
            over.encoded.clear();
            own.next = own.next.take().or(over.next.take());
            if over.extents.visible() < own.extents.len() {
                own.unlogged.remove(over.extents.visible()..u64::MAX);
            }
            own.extents.merge(&over.extents, &mut dropped);
            for (range, _) in over.extents.iter() {
                own.unlogged.remove(range);
            }
            own.unlogged.extend(over.unlogged.iter());
            if said {
                own.logged_len = over.logged_len;
            }
            // Nothing of the array was logged of the layer above before the length was of this one.
            own.cut = own.cut.into_iter().chain(over.cut).min();
        }
        if let Some(more) = other.charge.take() {
            state.add_charge(more);
        }
        state.number = other.number;
        state.has_logged |= other.has_logged;
        state.next = state.next.take().or(other.next.take());
        if state.log.is_none() {
            state.log = other.log.take();
        }
        other.absorbed_by = Some(Arc::clone(self));
    }
}
