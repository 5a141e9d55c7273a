//! The changes of all arrays of a container between two commits.
//!
//! A [`Layer`] lies above the arrays of the container, or above a layer that is being committed. It
//! has a lock of its own, which is held while bytes are copied in memory, never while the log is
//! read or written and never while memory is asked for: a thread that holds no memory may wait for
//! it. What is read from the log is found under the lock and read without it; that is safe because
//! the log is only appended to. When a commit failed, the changes that came after are laid over
//! those that it had (`absorb`); the layer they came from then shows what is below it, so a reader
//! that still has both reads right. Used by [`super::Stage`], [`super::Overlay`] and the commit.

mod charged;
mod encoded;
mod kept;
mod next;
mod unlogged;

use std::ops::Range;
use std::sync::Arc;

use next::NextArea;
pub(super) use unlogged::{MovedExtent, StagedPart};

use super::encoded_blocks::EncodedBlocks;
use super::extents::{ExtentPlace, Extents, Shown};
use super::intervals::IntervalCharge;
use super::log::LogBytes;
use super::next_file::NextFile;
use super::slab::{LayerSlab, Slabs};
use super::written_array::WrittenArray;
use crate::error::{Error, Result};
use crate::range_set::RangeSet;
use crate::sync::RwLock;

/// Bytes that are copied under the lock at a time.
const STEP: usize = 128 << 10;

/// The changes between two commits.
pub struct Layer {
    state: RwLock<LayerState>,
}

struct LayerState {
    number: u64,
    arrays: Vec<ArrayChanges>,
    slabs: Slabs,
    /// Of the intervals of all arrays.
    charge: Option<IntervalCharge>,
    log: Option<LogBytes>,
    next: Option<Arc<NextFile>>,
    /// Whether anything in the log is said of this layer.
    has_logged: bool,
    /// What these changes have become a part of.
    absorbed_by: Option<Arc<Layer>>,
}

struct ArrayChanges {
    extents: Extents,
    /// The ranges that the log does not have. All of them are in memory, or zeros.
    unlogged: RangeSet,
    /// The shortest that the array has been since its length was last logged, if it was cut.
    cut: Option<u64>,
    /// Its length by the log.
    logged_len: u64,
    /// The length of the array below.
    below: u64,
    encoded: EncodedBlocks,
    next: Option<NextArea>,
}

/// What a part of a range of an array consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes that [`Layer::read`] gives.
    Staged(Range<u64>),
    /// What is below the layer.
    Below(Range<u64>),
    Zeros(Range<u64>),
}

impl Part {
    fn end(&self) -> u64 {
        match self {
            Part::Staged(range) | Part::Below(range) | Part::Zeros(range) => range.end,
        }
    }
}

/// The outcome of a write to memory.
pub(super) enum Written {
    Done,
    /// So many bytes more are needed, beside what the layer holds already.
    Needs {
        more: u64,
        held: u64,
    },
}

/// The outcome of a read.
pub(super) enum Step {
    /// So many bytes.
    Read(usize),
    /// That so many bytes are those of the array below.
    Below(usize),
}

impl Layer {
    /// Nothing is changed of arrays of these lengths.
    pub(super) fn new(number: u64, lens: &[u64], log: Option<LogBytes>) -> Layer {
        let array = |&len: &u64| ArrayChanges::new(Extents::new(len), len);
        Layer {
            state: RwLock::new(LayerState {
                number,
                arrays: lens.iter().map(array).collect(),
                slabs: Slabs::default(),
                charge: None,
                log,
                next: None,
                has_logged: false,
                absorbed_by: None,
            }),
        }
    }

    /// One array more, of this length, of which nothing is changed.
    pub(super) fn add_array(&self, len: u64) {
        let array = ArrayChanges::new(Extents::new(len), len);
        self.state.write().arrays.push(array);
    }

    /// A layer found in a log: for each array the changes, and the length of the array below.
    pub(super) fn found(number: u64, arrays: Vec<(Extents, u64)>, log: LogBytes) -> Layer {
        let layer = Layer::new(number, &[], Some(log));
        let array = |(extents, below)| ArrayChanges::new(extents, below);
        let mut state = layer.state.write();
        state.arrays = arrays.into_iter().map(array).collect();
        state.has_logged = true;
        drop(state);
        layer
    }

    /// Its number in the log.
    pub fn number(&self) -> u64 {
        self.state.read().number
    }

    /// Of an array as it is shown.
    pub fn len(&self, array: WrittenArray) -> u64 {
        let state = self.state.read();
        match &state.absorbed_by {
            Some(other) => other.len(array),
            None => state.array(array).map_or(0, |array| array.extents.len()),
        }
    }

    /// How many bytes of the array below still show; behind them are extents and zeros.
    pub fn visible(&self, array: WrittenArray) -> u64 {
        let state = self.state.read();
        match &state.absorbed_by {
            Some(other) => other.visible(array),
            None => state
                .array(array)
                .map_or(0, |array| array.extents.visible()),
        }
    }

    /// Ranges that do not show what is below, in order and apart from each other.
    pub fn changed(&self, array: WrittenArray) -> Vec<Range<u64>> {
        let state = self.state.read();
        match &state.absorbed_by {
            Some(other) => other.changed(array),
            None => state
                .array(array)
                .map_or(Vec::new(), |array| array.extents.changed()),
        }
    }

    /// Appends what a range consists of, in order.
    pub fn parts(&self, array: WrittenArray, range: Range<u64>, out: &mut Vec<Part>) {
        let state = self.state.read();
        let mut at = range.start;
        while at < range.end {
            let part = state.part(array, at..range.end);
            at = part.end();
            match (out.last_mut(), part) {
                // Callers need not know where in memory or in the log it is.
                (Some(Part::Staged(last)), Part::Staged(part)) if last.end == part.start => {
                    last.end = part.end;
                }
                (_, part) => out.push(part),
            }
        }
    }

    /// What the first bytes of a range consist of. The range is not empty.
    pub(super) fn first_part(&self, array: WrittenArray, range: Range<u64>) -> Part {
        self.state.read().part(array, range)
    }

    /// Fills in staged bytes and zeros; leaves the bytes of the array below as they are.
    pub fn read(&self, array: WrittenArray, at: u64, out: &mut [u8]) -> Result<()> {
        let (mut at, mut done) = (at, 0);
        while done < out.len() {
            let (Step::Read(n) | Step::Below(n)) = self.read_some(array, at, &mut out[done..])?;
            done += n;
            at = at.saturating_add(n as u64);
        }
        Ok(())
    }

    /// Reads the first part of a range that is all in memory, all in the log, or all below. `out`
    /// is not empty.
    pub(super) fn read_some(&self, array: WrittenArray, at: u64, out: &mut [u8]) -> Result<Step> {
        // A writer waits for the lock no longer than one step takes.
        let most = out.len().min(STEP);
        let out = &mut out[..most];
        let end = at.saturating_add(out.len() as u64);
        let state = self.state.read();
        let mut done = 0;
        let (part, place) = loop {
            let from = at.saturating_add(done as u64);
            if from >= end {
                return Ok(Step::Read(out.len()));
            }
            let (part, shown) = state.look(array, from..end);
            let n = (part.end - part.start) as usize;
            let to = &mut out[done..][..n];
            match shown {
                Shown::Zeros => to.fill(0),
                Shown::Below if done == 0 => return Ok(Step::Below(n)),
                Shown::Staged(place) => match place.memory() {
                    Some(place) => {
                        to.copy_from_slice(state.slabs.get(place, n).ok_or_else(lost)?);
                    }
                    None if done == 0 => break (part, place),
                    None => return Ok(Step::Read(done)),
                },
                Shown::Below => return Ok(Step::Read(done)),
            }
            done += n;
        };
        let out = &mut out[..(part.end - part.start) as usize];
        let next = state.next_of(array).filter(|_| place.is_in_next());
        let log = state.log.clone();
        drop(state);
        match (next, place.log()) {
            (Some((next, run)), _) => next.read(&run, part.start, out)?,
            (None, Some(at)) => log.ok_or_else(lost)?.read(at, out)?,
            (None, None) => return Err(lost()),
        }
        Ok(Step::Read(out.len()))
    }

    /// The arrays below have these lengths now, as far as an array has no changes here.
    pub(super) fn rebase(&self, lens: &[u64]) {
        let mut state = self.state.write();
        for (array, &len) in state.arrays.iter_mut().zip(lens) {
            if array.below != len && array.extents.is_unchanged(array.below) {
                array.reset(len);
            }
        }
    }

    /// Nothing is said of an array any more, which has this length below.
    pub(super) fn show_below(&self, array: WrittenArray, len: u64) -> Result<()> {
        self.set_len(array, 0)?;
        let mut state = self.state.write();
        let array = state.arrays.get_mut(array.index()).ok_or_else(no_array)?;
        array.reset(len);
        Ok(())
    }

    /// Whether nothing is said of an array.
    pub fn leaves(&self, array: WrittenArray) -> bool {
        let state = self.state.read();
        match state.array(array) {
            _ if state.absorbed_by.is_some() => true,
            Some(array) => array.extents.is_unchanged(array.below),
            None => true,
        }
    }

    /// Whether nothing is staged.
    pub fn is_unchanged(&self) -> bool {
        self.is_clean()
    }

    pub(super) fn is_clean(&self) -> bool {
        let state = self.state.read();
        let mut arrays = state.arrays.iter();
        arrays.all(|array| array.extents.is_unchanged(array.below))
    }

    /// Whether every array is as long as the one below.
    pub fn keeps_lengths(&self) -> bool {
        let state = self.state.read();
        let mut arrays = state.arrays.iter();
        arrays.all(|array| array.extents.len() == array.below)
    }

    /// Lengths of all arrays.
    pub fn lens(&self) -> Vec<u64> {
        let state = self.state.read();
        let arrays = state.arrays.iter();
        arrays.map(|array| array.extents.len()).collect()
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes_held(&self) -> u64 {
        self.state.read().slabs.bytes()
    }

    pub(super) fn set_log(&self, log: LogBytes) {
        self.state.write().log = Some(log);
    }

    /// Keeps bytes in memory, if there is room with this slab.
    pub(super) fn write(
        &self,
        array: WrittenArray,
        at: u64,
        bytes: &[u8],
        slab: Option<LayerSlab>,
    ) -> Result<Written> {
        let mut state = self.state.write();
        let range = at..at.saturating_add(bytes.len() as u64);
        if let Some(slab) = slab {
            // The rest of the last one may be too small to be worth a part of this write.
            state.slabs.add(slab);
        }
        let (missing, room) = (state.missing(array, &range)?, state.slabs.room());
        if missing > room {
            state.slabs.drop_unused();
            return Ok(Written::Needs {
                more: missing,
                held: state.slabs.bytes(),
            });
        }
        state.note_write(array, &range);
        state.write(array, at, bytes)?;
        Ok(Written::Done)
    }

    /// Says that bytes are in the log, and nowhere else.
    pub(super) fn put_logged(&self, array: WrittenArray, range: Range<u64>, at: u64) -> Result<()> {
        let mut state = self.state.write();
        state.has_logged = true;
        state.note_write(array, &range);
        let LayerState { arrays, slabs, .. } = &mut *state;
        let array = arrays.get_mut(array.index()).ok_or_else(no_array)?;
        array.unlogged.remove(range.clone());
        array.logged_len = array.logged_len.max(range.end);
        let mut dropped = |place: ExtentPlace, len| release(slabs, place, len);
        array
            .extents
            .put(range, ExtentPlace::in_log(at), &mut dropped);
        Ok(())
    }

    /// A range is zeros from now on. Takes no memory for its bytes, and gives back the memory of
    /// the old ones.
    pub(super) fn put_zeros(&self, array: WrittenArray, range: Range<u64>) -> Result<()> {
        let mut state = self.state.write();
        state.note_loss(array, &range);
        let LayerState { arrays, slabs, .. } = &mut *state;
        let array = arrays.get_mut(array.index()).ok_or_else(no_array)?;
        array.unlogged.insert(range.clone());
        let mut dropped = |place: ExtentPlace, len| release(slabs, place, len);
        array.extents.put(range, ExtentPlace::ZEROS, &mut dropped);
        Ok(())
    }

    pub(super) fn set_len(&self, array: WrittenArray, len: u64) -> Result<()> {
        let mut state = self.state.write();
        state.note_loss(array, &(len..u64::MAX));
        let LayerState { arrays, slabs, .. } = &mut *state;
        let array = arrays.get_mut(array.index()).ok_or_else(no_array)?;
        if len < array.extents.len() {
            array.cut = Some(array.cut.map_or(len, |cut| cut.min(len)));
            array.unlogged.remove(len..u64::MAX);
        }
        let mut dropped = |place: ExtentPlace, len| release(slabs, place, len);
        array.extents.set_len(len, &mut dropped);
        Ok(())
    }
}

/// Our own mistake: an extent whose bytes are nowhere.
fn lost() -> Error {
    Error::Bug("staged bytes are neither in memory nor in a log".into())
}

pub(super) fn no_array() -> Error {
    Error::Bug("an array that this stage does not have".into())
}

fn release(slabs: &mut Slabs, place: ExtentPlace, len: u64) {
    if let Some(memory) = place.memory() {
        slabs.release(memory, len);
    }
}

impl ArrayChanges {
    fn new(extents: Extents, below: u64) -> ArrayChanges {
        ArrayChanges {
            logged_len: extents.len(),
            extents,
            unlogged: RangeSet::default(),
            cut: None,
            below,
            encoded: EncodedBlocks::default(),
            next: None,
        }
    }

    /// Nothing is changed of the array, which has this length. What lies in the next file of it is
    /// not wanted: the log may refer to it, so that no commit makes that file the container.
    fn reset(&mut self, len: u64) {
        let mut next = self.next.take();
        next.iter_mut().for_each(NextArea::spoil);
        *self = ArrayChanges::new(Extents::new(len), len);
        self.next = next;
    }

    /// Whether the log has all of it.
    fn is_logged(&self) -> bool {
        self.unlogged.is_empty() && self.is_length_logged()
    }

    /// Whether the log knows how long it is, and has been.
    fn is_length_logged(&self) -> bool {
        self.cut.is_none() && self.logged_len == self.extents.len()
    }
}

impl LayerState {
    fn array(&self, array: WrittenArray) -> Option<&ArrayChanges> {
        self.arrays.get(array.index())
    }

    /// What the first bytes of a range consist of.
    fn look(&self, array: WrittenArray, range: Range<u64>) -> (Range<u64>, Shown) {
        match self.array(array) {
            _ if self.absorbed_by.is_some() => (range, Shown::Below),
            Some(array) => array.extents.look(range),
            None => (range, Shown::Below),
        }
    }

    /// What the first bytes of a range consist of, wherever the bytes are.
    fn part(&self, array: WrittenArray, range: Range<u64>) -> Part {
        match self.look(array, range) {
            (part, Shown::Staged(_)) => Part::Staged(part),
            (part, Shown::Below) => Part::Below(part),
            (part, Shown::Zeros) => Part::Zeros(part),
        }
    }
}
