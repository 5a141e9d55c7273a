//! Files whose arrays lie in them as they are shown, or with their elements turned around: how such
//! a file comes about when arrays have changed.
//!
//! A file is told from its start to its end, in stretches: where nothing has changed it stays as it
//! is stored; a stretch with a change is read, the changed bytes of all arrays are put into it, and
//! it is told as a whole. So values that lie between those of other arrays (records) cost no call
//! each. Arrays that get another place are taken for changed in full. Assumes places that were held
//! against what a file can be. Used by `netcdf` and `daphne`.

pub(super) mod runs;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use super::chunked_write::memory::spaces_in_turn;
use super::writable::{ChangedArray, CommitWay, MemberNumber, Recipe};
use crate::array::Array;
use crate::array::stored_run::StoredRun;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::error::{Error, Result};
use crate::memory::Arena;
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::pipeline::in_order;
use crate::range_set::RangeSet;
use crate::source::Source;
use runs::{NEAR, Runs};

/// Longest stretch.
const STEP: u64 = 1 << 20;

/// Stretches that are listed at a time.
const AT_A_TIME: usize = 4096;

/// Bytes of the largest element.
const ELEMENT: u64 = 16;

/// An array of the file, as it is going to be.
pub(super) struct PlainPart<'a> {
    pub(super) shown: &'a dyn Array,
    /// By which it has changed, if it has.
    pub(super) change: Option<&'a ChangedArray>,
    /// Bytes that are shown.
    pub(super) len: u64,
    /// Bytes that are stored now: what is shown behind them needs no decoding.
    pub(super) stored: u64,
    pub(super) runs: Runs,
    /// Bytes that are not stored so at their places: whole elements. What lies behind `len` is
    /// filled.
    pub(super) dirty: RangeSet,
    /// Bytes of an element.
    pub(super) element: u64,
    /// Makes stored elements of shown ones.
    pub(super) to_stored: Option<fn(&mut [u8], usize)>,
    /// An element as it is shown, where there is none.
    pub(super) fill: &'a [u8],
}

/// Other bytes at the start of a file. What is stored behind them moves as far as they are longer.
pub(super) struct NewStart {
    /// So many bytes as stored, and no array in them.
    pub(super) replaced: u64,
    /// At least as many.
    pub(super) bytes: Vec<u8>,
}

/// The file as it is going to be; places in it are those before anything moves.
pub(super) struct PlainFile<'a> {
    pub(super) start: Option<NewStart>,
    pub(super) parts: Vec<PlainPart<'a>>,
    /// Bytes that are none of an array's, in the order of their places.
    pub(super) literals: Vec<(u64, Vec<u8>)>,
    /// As it is.
    pub(super) stored: &'a Arc<dyn Source>,
    pub(super) len: u64,
}

impl PlainPart<'_> {
    /// Where its stored bytes lie, if they lie in one piece.
    fn run(&self) -> Option<StoredRun> {
        (self.runs.run == self.runs.stride).then(|| StoredRun {
            begin: self.runs.begin,
            len: self.stored,
            turned: self.to_stored.map_or(1, |_| self.element as u8),
        })
    }

    /// Where a stretch of the file that begins with bytes of it is to end: all of it lies there
    /// already, or nothing does.
    fn until_lying_changes(&self, stretch: &Range<u64>) -> Option<u64> {
        let (change, run, bytes) = self.first_of(stretch)?;
        let end = change.until_lying_changes(&run, &bytes);
        let changes = end < bytes.end || change.lies(&run, &bytes);
        changes.then(|| run.begin + end)
    }

    /// Its bytes with which a stretch of the file begins, and their place.
    fn first_of(&self, stretch: &Range<u64>) -> Option<(&ChangedArray, StoredRun, Range<u64>)> {
        let (change, run) = self.change.zip(self.run())?;
        let mut bytes = self.runs.within(stretch);
        bytes.end = bytes.end.min(run.len);
        let is_first = !bytes.is_empty() && run.place(&bytes).start == stretch.start;
        is_first.then_some((change, run, bytes))
    }

    /// Whether a stretch of the file is bytes of it that lie there already.
    fn lies(&self, stretch: &Range<u64>) -> bool {
        let own = self.first_of(stretch);
        own.is_some_and(|(change, run, bytes)| {
            run.place(&bytes) == *stretch && change.lies(&run, &bytes)
        })
    }

    /// Reads bytes of the array as they are stored; `out` has room for the whole elements around.
    fn read<'b>(
        &self,
        range: Range<u64>,
        out: &'b mut [u8],
        scratch: Arena<'_>,
    ) -> Result<&'b [u8]> {
        let (start, end) = (
            range.start - range.start % self.element,
            range.end.next_multiple_of(self.element),
        );
        let out = &mut out[..(end - start) as usize];
        self.read_elements(start, out, scratch)?;
        let skip = (range.start - start) as usize;
        Ok(&out[skip..skip + (range.end - range.start) as usize])
    }

    /// Reads whole elements as they are stored.
    fn read_elements(&self, start: u64, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let end = start.saturating_add(out.len() as u64);
        let shown = self.len.clamp(start, end) - start;
        let (read, filled) = out.split_at_mut(shown as usize);
        if !read.is_empty() {
            let read = read_into(self.shown, start, read, DecodeMemory::Lent(scratch));
            read.map_err(|e| e.of_array("", self.shown.name()))?;
        }
        for (byte, fill) in filled.iter_mut().zip(self.fill.iter().cycle()) {
            *byte = *fill;
        }
        if let Some(to_stored) = self.to_stored {
            to_stored(out, self.element as usize);
        }
        Ok(())
    }

    /// Where in a stretch of the file whole elements lie one behind the other.
    fn in_one_piece(&self, run: &Range<u64>, stretch: &Range<u64>) -> Option<Range<usize>> {
        let is_whole = |place: u64| place.is_multiple_of(self.element);
        let lies_together = self.runs.run == self.runs.stride;
        let at = self.runs.offset(run.start).checked_sub(stretch.start)? as usize;
        (lies_together && is_whole(run.start) && is_whole(run.end))
            .then(|| at..at + (run.end - run.start) as usize)
    }
}

impl PlainFile<'_> {
    /// Tells the file. What stays is told as a copy, or not at all.
    pub(super) fn tell(
        &self,
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        const FILE: MemberNumber = MemberNumber::ONLY;
        if way == CommitWay::InPlace {
            write.keep_rest(FILE)?;
        }
        let (first, shift) = self.after_start();
        if let Some(start) = &self.start {
            write.put(FILE, 0, &start.bytes)?;
        }
        let is_kept = way == CommitWay::InPlace && shift == 0;
        let stays = |from: Range<u64>, write: &mut dyn Recipe| {
            let end = self.stored.len().clamp(from.start, from.end);
            let (stored, behind) = (from.start..end, end..from.end);
            if !stored.is_empty() && !is_kept {
                write.copy(FILE, stored.clone(), stored.start + shift)?;
            }
            match behind.is_empty() {
                true => Ok(()),
                false => write.zeros(FILE, behind.start + shift..behind.end + shift),
            }
        };
        let (mut at, mut some) = (first, self.stretches(first));
        let mut spaces = self.spaces(some.len(), budget)?;
        while let Some(last) = some.last() {
            let next = last.end;
            in_order(
                spaces.iter_mut().collect(),
                some.len(),
                |space, n| self.fill_stretch(&some[n], space),
                |n, space, len| {
                    stays(at..some[n].start, write)?;
                    at = some[n].end;
                    let (room, _) = space.parts();
                    match len {
                        Some(len) => write.put(FILE, some[n].start + shift, &room[..len]),
                        None if shift == 0 => write.lies(FILE, some[n].clone()),
                        None => Err(Error::Bug("an array moves that lies in a new file".into())),
                    }
                },
            )?;
            some = self.stretches(next);
        }
        stays(at..self.len.max(at), write)?;
        let len = self.len.max(first) + shift;
        if way == CommitWay::Replaced || len != self.stored.len() {
            write.set_len(FILE, len)?;
        }
        Ok(())
    }

    /// Where the bytes of the arrays begin to be told, and how far they move.
    fn after_start(&self) -> (u64, u64) {
        match &self.start {
            Some(start) => (start.replaced, start.bytes.len() as u64 - start.replaced),
            None => (0, 0),
        }
    }

    /// About how many bytes of arrays change.
    pub(super) fn changed(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.dirty.len());
        parts.fold(0, u64::saturating_add)
    }

    /// For two stretches each: that which is told, and an array's bytes of it.
    fn spaces(&self, stretches: usize, budget: &Arc<Budget>) -> Result<Vec<Workspace>> {
        let mut lent = 0;
        for part in &self.parts {
            for run in part.dirty.iter() {
                let shown = run.start..run.end.min(part.len).min(part.stored);
                if !shown.is_empty() {
                    lent = lent.max(lent_for(part.shown, shown)?);
                }
            }
        }
        let room = 2 * (STEP + ELEMENT);
        spaces_in_turn((room, lent), stretches, budget)
    }

    /// The next stretches, some of them at a time.
    fn stretches(&self, mut at: u64) -> Vec<Range<u64>> {
        let next = || {
            let stretch = self.next_stretch(at)?;
            at = stretch.end;
            Some(stretch)
        };
        std::iter::from_fn(next).take(AT_A_TIME).collect()
    }

    /// The next bytes that are to be told.
    fn next_stretch(&self, at: u64) -> Option<Range<u64>> {
        let mut stretch = self.next_change(at)?;
        stretch.end = stretch.end.min(stretch.start.saturating_add(STEP));
        while stretch.end - stretch.start < STEP
            && let Some(next) = self.next_change(stretch.end)
            && next.start - stretch.end <= NEAR
        {
            let most = stretch.start.saturating_add(STEP);
            if next.start >= most {
                break;
            }
            stretch.end = next.end.min(most);
        }
        let mut parts = self.parts.iter();
        let end = parts.find_map(|part| part.until_lying_changes(&stretch));
        stretch.end = end.unwrap_or(stretch.end);
        Some(stretch)
    }

    /// The first bytes from `at` on that are not what is stored there.
    fn next_change(&self, at: u64) -> Option<Range<u64>> {
        let parts = self.parts.iter();
        let parts = parts.filter_map(|part| part.runs.next(&part.dirty, at));
        let literals = self.literals.iter().filter_map(|(start, bytes)| {
            let end = start.saturating_add(bytes.len() as u64);
            Some((*start).max(at)..end).filter(|range| !range.is_empty())
        });
        parts.chain(literals).min_by_key(|range| range.start)
    }

    /// Puts the bytes of a stretch to the start of a space; says how many, or none if they lie in
    /// the new file already.
    fn fill_stretch(&self, stretch: &Range<u64>, space: &mut Workspace) -> Result<Option<usize>> {
        if self.parts.iter().any(|part| part.lies(stretch)) {
            return Ok(None);
        }
        let (room, mut scratch) = space.parts();
        let (out, read) = room.split_at_mut((stretch.end - stretch.start) as usize);
        if !self.is_one_array(stretch) {
            self.read_stored(stretch, out)?;
        }
        for part in &self.parts {
            let within = part.runs.within(stretch);
            for run in part.dirty.within(within) {
                let piece = part.in_one_piece(&run, stretch);
                if let Some(piece) = piece.and_then(|piece| out.get_mut(piece)) {
                    part.read_elements(run.start, piece, scratch.lend())?;
                    continue;
                }
                let bytes = part.read(run.clone(), read, scratch.lend())?;
                part.runs
                    .scatter(run.start, bytes, (stretch.start, &mut *out));
            }
        }
        for (start, bytes) in &self.literals {
            Runs::whole(*start).scatter_part(bytes, (stretch.start, &mut *out));
        }
        Ok(Some(out.len()))
    }

    /// Whether all of it are changed bytes of one array that lies in one piece: what is stored
    /// there does not matter.
    fn is_one_array(&self, stretch: &Range<u64>) -> bool {
        self.parts.iter().any(|part| {
            let bytes = part.runs.within(stretch);
            let is_whole = part.runs.run == part.runs.stride && part.runs.begin <= stretch.start;
            is_whole && part.dirty.within(bytes.clone()).next() == Some(bytes)
        })
    }

    /// The bytes that are stored there, and zeros behind the end.
    fn read_stored(&self, stretch: &Range<u64>, out: &mut [u8]) -> Result<()> {
        let there = self.stored.len().clamp(stretch.start, stretch.end) - stretch.start;
        let (stored, behind) = out.split_at_mut(there as usize);
        behind.fill(0);
        match stored.is_empty() {
            true => Ok(()),
            false => self.stored.fetch_one(stretch.start, stored),
        }
    }
}

impl Runs {
    /// Copies those bytes that lie in a part of the file.
    fn scatter_part(&self, bytes: &[u8], (start, to): (u64, &mut [u8])) {
        let skip = start.saturating_sub(self.begin).min(bytes.len() as u64);
        let end = start.saturating_add(to.len() as u64);
        let take = end.saturating_sub(self.begin).min(bytes.len() as u64);
        if skip < take {
            self.scatter(skip, &bytes[skip as usize..take as usize], (start, to));
        }
    }
}

/// The bytes of an array that are not stored as they are shown: what was written, whole elements of
/// it, and what lies behind the stored bytes that still show.
pub(super) fn dirty_bytes(
    ranges: &[Range<u64>],
    (visible, len): (u64, u64),
    element: u64,
) -> RangeSet {
    let whole = |range: &Range<u64>| {
        let start = range.start - range.start % element;
        start..range.end.min(len).next_multiple_of(element).min(len)
    };
    let mut dirty: Vec<_> = ranges.iter().map(whole).collect();
    dirty.push(visible - visible % element..len);
    RangeSet::from_iter(dirty)
}
