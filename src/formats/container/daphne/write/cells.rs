//! A DenseMatrix or a Frame of the specification's form, told from its start to its end.
//!
//! Where as many rows stay and every block with a change is a dense one whose value type holds the
//! new values exactly (they come back with the same bits), the file keeps its blocks, and of those
//! all bands without a change. Else it is told in the blocks that a new file has: dense ones of all
//! columns, of a frame of one column each; what an old block holds at the same place stays. Cells
//! are read in bands of a bounded number. Used by [`super`] and, for new files, by `create`.

use std::ops::Range;
use std::sync::Arc;

use super::super::block::table::{BlockBody, CellBlock};
use super::super::convert::convert;
use super::super::dense::CellObject;
use super::super::value::ValueType;
use super::block_rect::{BAND, BlockRect, DENSE};
use super::file_writer::FileWriter;
use crate::array::Array;
use crate::array::stored_run::StoredRun;
use crate::array::uncached::{DecodeMemory, PlacedRange, gather, lent_for};
use crate::container::chunked_write::memory::at_once;
use crate::container::writable::ChangedArray;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

/// Bytes of a band, whatever the type.
const BAND_BYTES: usize = 8 * BAND as usize;

/// What is shown of an array.
pub(crate) struct ShownColumn<'a> {
    pub(crate) shown: &'a dyn Array,
    /// By which it has changed, if it has.
    pub(crate) change: Option<&'a ChangedArray>,
    pub(crate) value: ValueType,
    pub(crate) len: u64,
}

/// The cells of an object as they are shown.
pub(crate) struct ShownCells<'a> {
    /// One array for all columns, or one for each.
    arrays: Vec<ShownColumn<'a>>,
    cols: u64,
    is_matrix: bool,
    space: Workspace,
}

impl<'a> ShownCells<'a> {
    pub(crate) fn new(
        arrays: Vec<ShownColumn<'a>>,
        (cols, is_matrix): (u64, bool),
        budget: &Arc<Budget>,
    ) -> Result<ShownCells<'a>> {
        let mut lent = 0;
        for array in arrays.iter().filter(|array| array.len > 0) {
            lent = lent.max(lent_for(array.shown, 0..array.len)?);
        }
        let room = 4 * BAND_BYTES as u64;
        let hold = at_once(room.saturating_add(lent), budget);
        Ok(ShownCells {
            arrays,
            cols,
            is_matrix,
            space: Workspace::new(room, lent, hold, room)?,
        })
    }

    /// The value type of a column.
    fn value(&self, col: u64) -> Result<ValueType> {
        let number = if self.is_matrix { 0 } else { col };
        let found = usize::try_from(number).ok();
        let found = found.and_then(|number| self.arrays.get(number));
        let missing = || Error::Bug("there is no such column".into());
        found.map(|array| array.value).ok_or_else(missing)
    }

    /// Whether these bytes of the one array lie in the new file already.
    fn lies(&self, run: &StoredRun, range: &Range<u64>) -> bool {
        let first = self.arrays.first();
        first.is_some_and(|array| array.change.is_some_and(|change| change.lies(run, range)))
    }

    /// A band of cells in a type; none if that does not hold them all.
    fn band(
        &mut self,
        (rows, cols): (&Range<u64>, &Range<u64>),
        to: ValueType,
    ) -> Result<Option<&[u8]>> {
        let (room, mut scratch) = self.space.parts();
        let (raw, rest) = room.split_at_mut(BAND_BYTES);
        let (out, rest) = rest.split_at_mut(BAND_BYTES);
        let (converted, back) = rest.split_at_mut(BAND_BYTES);
        let (height, width) = (rows.end - rows.start, cols.end - cols.start);
        // An array for all columns is taken for one that has the cells as rows.
        let (arrays, count, stride) = match self.is_matrix {
            true => (0..1, (height * width) as usize, 1),
            false => (cols.clone(), height as usize, width as usize),
        };
        for (first, number) in arrays.enumerate() {
            let &ShownColumn {
                shown: array,
                value: from,
                ..
            } = &self.arrays[number as usize];
            let size = from.size() as u64;
            let ranges = match self.is_matrix {
                true => ranges_of(rows, cols, self.cols, size),
                false => ranges_of(rows, &(0..1), 1, size),
            };
            let raw = &mut raw[..count * from.size()];
            let read = gather(array, &ranges, raw, DecodeMemory::Lent(scratch.lend()));
            read.map_err(|e| e.of_array("", array.name()))?;
            let converted = &mut converted[..count * to.size()];
            if !is_exact((from, to), raw, converted, &mut back[..raw.len()]) {
                return Ok(None);
            }
            place(converted, to.size(), (first, stride), out);
        }
        Ok(Some(&out[..(height * width) as usize * to.size()]))
    }
}

/// Where the cells of a rectangle lie in an array of so many columns.
fn ranges_of(rows: &Range<u64>, cols: &Range<u64>, all: u64, size: u64) -> Vec<PlacedRange> {
    let at = |row: u64, col: u64| row.saturating_mul(all).saturating_add(col) * size;
    if *cols == (0..all) {
        let from = at(rows.start, 0)..at(rows.end, 0);
        return vec![PlacedRange { from, to: 0 }];
    }
    let width = (cols.end - cols.start) * size;
    let each = rows.clone().zip(0..).map(|(row, number)| PlacedRange {
        from: at(row, cols.start)..at(row, cols.end),
        to: (number * width) as usize,
    });
    each.collect()
}

/// Converts, and says whether the same bits come back.
fn is_exact(
    (from, to): (ValueType, ValueType),
    raw: &[u8],
    out: &mut [u8],
    back: &mut [u8],
) -> bool {
    if from == to {
        out.copy_from_slice(raw);
        return true;
    }
    convert(from, to, raw, out).is_ok() && convert(to, from, out, back).is_ok() && back == raw
}

/// Puts values `stride` values apart.
fn place(values: &[u8], size: usize, (first, stride): (usize, usize), out: &mut [u8]) {
    if stride == 1 {
        out[first * size..first * size + values.len()].copy_from_slice(values);
        return;
    }
    for (number, value) in values.chunks_exact(size).enumerate() {
        let at = (first + number * stride) * size;
        out[at..at + size].copy_from_slice(value);
    }
}

/// The cells of a stored object, and which of them have changed.
pub(super) struct ChangedCells<'a> {
    pub(super) cells: &'a CellObject,
    /// By their numbers, of each array.
    pub(super) dirty: Vec<RangeSet>,
    pub(super) is_matrix: bool,
}

impl ChangedCells<'_> {
    pub(super) fn touch(&self, rows: &Range<u64>, cols: &Range<u64>) -> bool {
        if self.is_matrix {
            let all = self.dirty.first();
            return all.is_some_and(|all| self.touch_matrix(all, rows, cols));
        }
        let own = self.dirty.get(cols.start as usize..cols.end as usize);
        let mut own = own.unwrap_or_default().iter();
        own.any(|column| column.within(rows.clone()).next().is_some())
    }

    fn touch_matrix(&self, all: &RangeSet, rows: &Range<u64>, cols: &Range<u64>) -> bool {
        let width = self.cells.cols.max(1);
        let cells = rows.start.saturating_mul(width)..rows.end.saturating_mul(width);
        all.within(cells).any(|run| {
            let (first, last) = (run.start / width, (run.end - 1) / width);
            let from = |at: u64| at % width < cols.end;
            let to = |at: u64| at % width >= cols.start;
            match last - first {
                0 => from(run.start) && to(run.end - 1),
                1 => from(run.start) || to(run.end - 1),
                _ => true,
            }
        })
    }

    /// Whether the file is one block of the one array's own type, which can get longer and shorter.
    pub(super) fn is_one_block(&self) -> bool {
        let (table, value) = (&self.cells.stored.table, self.cells.value(0));
        let mut blocks = table.iter();
        let first = blocks.next().map(|block| block.body);
        let is_one = self.is_matrix || self.cells.cols == 1;
        is_one && first == Some(BlockBody::Dense(value)) && blocks.next().is_none()
    }

    /// Where the one array lies, if all of it is one block of its own type.
    pub(super) fn run(&self) -> Option<StoredRun> {
        let block = self.cells.stored.table.iter().next()?;
        let is_all = block.rows() == (0..self.cells.rows) && block.cols() == (0..self.cells.cols);
        (is_all && self.is_one_block()).then(|| StoredRun {
            begin: block.payload(),
            len: block.end - block.payload(),
            turned: 1,
        })
    }

    /// Whether as many rows stay, and the blocks with a change are dense.
    pub(super) fn are_dense(&self, rows: u64) -> bool {
        let is_dense = |block: CellBlock| matches!(block.body, BlockBody::Dense(_));
        rows == self.cells.rows && self.touched().all(is_dense)
    }

    /// Whether they hold the changes, too.
    pub(super) fn are_held(&self, rows: u64, shown: &mut ShownCells<'_>) -> Result<bool> {
        if !self.are_dense(rows) {
            return Ok(false);
        }
        for block in self.touched() {
            let Some(value) = block.value().filter(|_| !self.is_own(&block)) else {
                continue;
            };
            for (rows, cols) in BlockRect::of(&block).bands() {
                let is_touched = self.touch(&rows, &cols);
                if is_touched && shown.band((&rows, &cols), value)?.is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether a block has the type of its cells, and so holds any change.
    fn is_own(&self, block: &CellBlock) -> bool {
        let mut cols = if self.is_matrix { 0..1 } else { block.cols() };
        let value = block.value();
        cols.all(|col| Some(self.cells.value(col)) == value)
    }

    /// Whether the blocks hold the changes, whatever they are.
    pub(super) fn are_own(&self, rows: u64) -> bool {
        self.are_dense(rows) && self.touched().all(|block| self.is_own(&block))
    }

    /// The blocks with a change.
    pub(super) fn touched(&self) -> impl Iterator<Item = CellBlock> {
        let all = self.cells.stored.table.iter();
        all.filter(|block| self.touch(&block.rows(), &block.cols()))
    }
}

/// A file that is being told.
pub(crate) struct CellWriter<'a, 'w> {
    pub(super) shown: ShownCells<'a>,
    /// Of a file that is there.
    pub(super) old: Option<ChangedCells<'a>>,
    pub(super) write: FileWriter<'w>,
}

impl<'a, 'w> CellWriter<'a, 'w> {
    /// Of a new file.
    pub(crate) fn new(shown: ShownCells<'a>, write: FileWriter<'w>) -> CellWriter<'a, 'w> {
        CellWriter {
            shown,
            old: None,
            write,
        }
    }

    /// Tells the blocks of a file of this many rows, behind its head.
    pub(super) fn tell_changed(mut self, rows: u64) -> Result<()> {
        match &self.old {
            Some(old) if old.are_held(rows, &mut self.shown)? => self.tell_blocks(),
            _ => self.tell_anew(rows),
        }
    }

    fn tell_blocks(mut self) -> Result<()> {
        let cells = self.old.as_ref().map(|old| old.cells);
        for block in cells.iter().flat_map(|cells| cells.stored.table.iter()) {
            let changed = self.old.as_ref();
            let is_touched = changed.is_some_and(|old| old.touch(&block.rows(), &block.cols()));
            match block.body {
                BlockBody::Dense(value) if is_touched => {
                    self.put_dense(BlockRect::of(&block), value, Some(block))?;
                }
                _ => self.write.keep(block.at..block.end)?,
            }
        }
        self.write.end()
    }

    /// Tells the blocks that a new file has.
    pub(crate) fn tell_anew(mut self, rows: u64) -> Result<()> {
        let cols = self.shown.cols;
        // Columns of a frame have types of their own.
        let width = if self.shown.is_matrix { cols } else { 1 };
        for rect in BlockRect::canonical((rows, cols), width) {
            let value = self.shown.value(rect.col)?;
            let old = self.old.as_ref();
            let old = old.and_then(|old| old.cells.block_at(rect.row, rect.col));
            let old = old.filter(|old| {
                let is_at = (old.row, old.col, old.width) == (rect.row, rect.col, rect.width);
                is_at && old.body == BlockBody::Dense(value)
            });
            self.put_dense(rect, value, old)?;
        }
        self.write.end()
    }

    /// A dense block. `old`: one that begins at the same cell and has the same columns and type,
    /// whose bands stay where nothing has changed.
    fn put_dense(
        &mut self,
        rect: BlockRect,
        value: ValueType,
        old: Option<CellBlock>,
    ) -> Result<()> {
        match old.filter(|old| old.height == rect.height) {
            Some(old) => self.write.keep(old.at..old.payload())?,
            None => self.write.put(&rect.head(DENSE, value))?,
        }
        for (rows, cols) in rect.bands() {
            let kept = old.filter(|old| rows.end <= old.rows().end);
            if let (Some(block), Some(old)) = (kept, &self.old)
                && !old.touch(&rows, &cols)
            {
                self.write.keep(stored_at(&block, value, &rows, &cols))?;
                continue;
            }
            if let Some(lying) = self.lying(&rows, &cols) {
                self.write.lies(lying)?;
                continue;
            }
            let cells = self.shown.band((&rows, &cols), value)?;
            let changed = || Error::Bug("values are not as they were looked at".into());
            self.write.put(cells.ok_or_else(changed)?)?;
        }
        Ok(())
    }
}

impl CellWriter<'_, '_> {
    /// Where a band of the one block lies in the new file, if it lies there already.
    fn lying(&self, rows: &Range<u64>, cols: &Range<u64>) -> Option<Range<u64>> {
        let old = self.old.as_ref()?;
        let run = old.run()?;
        let at = |row: u64, col: u64| row.saturating_mul(old.cells.cols).saturating_add(col);
        let (first, last) = (at(rows.start, cols.start), at(rows.end - 1, cols.end - 1));
        let size = old.cells.value(0).size() as u64;
        let bytes = first * size..(last + 1) * size;
        self.shown.lies(&run, &bytes).then(|| run.place(&bytes))
    }
}

/// Where a band of a dense block is stored.
fn stored_at(
    block: &CellBlock,
    value: ValueType,
    rows: &Range<u64>,
    cols: &Range<u64>,
) -> Range<u64> {
    let place = |row: u64, col: u64| (row - block.row) * u64::from(block.width) + col - block.col;
    let at = |place: u64| block.payload() + place * value.size() as u64;
    at(place(rows.start, cols.start))..at(place(rows.end - 1, cols.end - 1) + 1)
}
