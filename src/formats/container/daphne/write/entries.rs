//! A CSRMatrix of the specification's form, told from its start to its end in sparse blocks: as
//! many as its rows and columns need. The three arrays are read in windows, from their start to
//! their end. Used by [`super`] and, for new files, by `create`.

use std::ops::Range;
use std::sync::Arc;

use super::super::value::ValueType;
use super::block_rect::{BlockRect, SPARSE};
use super::file_writer::FileWriter;
use super::too_large;
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::container::chunked_write::memory::at_once;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

/// Elements that are read at once.
const WINDOW: u64 = 32 << 10;

/// Elements that are looked at at once.
const RUN: u64 = 4 << 10;

/// An array of a matrix as it is shown.
pub(crate) struct MatrixArray<'a> {
    pub(crate) shown: &'a dyn Array,
    /// Bytes.
    pub(crate) len: u64,
    /// Those that have changed.
    pub(crate) dirty: RangeSet,
}

impl<'a> MatrixArray<'a> {
    /// One of which nothing is known yet.
    pub(crate) fn new(shown: &'a dyn Array, len: u64) -> MatrixArray<'a> {
        let dirty = RangeSet::from(0..len);
        MatrixArray { shown, len, dirty }
    }

    pub(super) fn window(&self, size: u64, budget: &Arc<Budget>) -> Result<ElementWindow<'a>> {
        ElementWindow::new(self.shown, (size, self.len), budget)
    }
}

/// The arrays of a CSRMatrix as they are shown.
pub(crate) struct MatrixArrays<'a> {
    pub(crate) values: MatrixArray<'a>,
    pub(crate) columns: MatrixArray<'a>,
    pub(crate) offsets: MatrixArray<'a>,
    pub(crate) value: ValueType,
    /// Columns of the matrix.
    pub(crate) cols: u64,
}

impl MatrixArrays<'_> {
    pub(super) fn rows(&self) -> u64 {
        (self.offsets.len / 8).saturating_sub(1)
    }

    pub(super) fn entries(&self) -> u64 {
        self.values.len / self.value.size() as u64
    }

    /// Tells the blocks, behind the head of the file. Columns have to rise in each row.
    pub(crate) fn tell(&self, budget: &Arc<Budget>, mut write: FileWriter<'_>) -> Result<()> {
        let mut shown = ShownEntries {
            offsets: self.offsets.window(8, budget)?,
            columns: self.columns.window(8, budget)?,
            values: self.values.window(self.value.size() as u64, budget)?,
            value: self.value,
            cols: self.cols,
        };
        for rect in BlockRect::canonical((self.rows(), self.cols), self.cols) {
            shown.put_block(&rect, &mut write)?;
        }
        write.end()
    }
}

/// Elements of an array, read from its start to its end.
pub(super) struct ElementWindow<'a> {
    array: &'a dyn Array,
    size: u64,
    /// Elements of the array.
    count: u64,
    space: Workspace,
    /// Elements that have been read.
    seen: Range<u64>,
}

impl<'a> ElementWindow<'a> {
    /// `len`: bytes of the array.
    pub(super) fn new(
        array: &'a dyn Array,
        (size, len): (u64, u64),
        budget: &Arc<Budget>,
    ) -> Result<ElementWindow<'a>> {
        let lent = match len {
            0 => 0,
            len => lent_for(array, 0..len)?,
        };
        let room = WINDOW * 8;
        let hold = at_once(room.saturating_add(lent), budget);
        Ok(ElementWindow {
            array,
            size,
            count: len / size,
            space: Workspace::new(room, lent, hold, room)?,
            seen: 0..0,
        })
    }

    /// Bytes of at most [`RUN`] elements.
    fn get(&mut self, wanted: Range<u64>) -> Result<&[u8]> {
        let (room, scratch) = self.space.parts();
        if wanted.start < self.seen.start || wanted.end > self.seen.end {
            let end = self.count.min(wanted.start.saturating_add(WINDOW));
            if wanted.end > end {
                let name = self.array.name();
                let beyond = format!("{name} has {} elements, not {}", self.count, wanted.end);
                return Err(Error::Invalid(beyond));
            }
            let out = &mut room[..((end - wanted.start) * self.size) as usize];
            self.seen = 0..0;
            let at = wanted.start * self.size;
            let read = read_into(self.array, at, out, DecodeMemory::Lent(scratch));
            read.map_err(|e| e.of_array("", self.array.name()))?;
            self.seen = wanted.start..end;
        }
        let at = ((wanted.start - self.seen.start) * self.size) as usize;
        let len = ((wanted.end - wanted.start) * self.size) as usize;
        Ok(&room[at..at + len])
    }

    pub(super) fn number(&mut self, at: u64) -> Result<u64> {
        let bytes = self.get(at..at.saturating_add(1))?;
        let number = bytes.first_chunk().copied();
        let number = number.ok_or_else(|| Error::Bug("a number has 8 bytes".into()))?;
        Ok(u64::from_le_bytes(number))
    }

    /// Gives 64-bit numbers, each with its own number, to `take`.
    pub(super) fn each(
        &mut self,
        wanted: Range<u64>,
        take: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        for run in runs(wanted) {
            let numbers = self.get(run.clone())?.as_chunks().0.iter();
            for (number, at) in numbers.zip(run) {
                take(at, u64::from_le_bytes(*number));
            }
        }
        Ok(())
    }
}

/// A range in parts of at most [`RUN`].
fn runs(all: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = all.clone().step_by(RUN as usize);
    starts.map(move |start| start..all.end.min(start.saturating_add(RUN)))
}

/// The entries of a matrix as they are shown.
struct ShownEntries<'a> {
    offsets: ElementWindow<'a>,
    columns: ElementWindow<'a>,
    values: ElementWindow<'a>,
    value: ValueType,
    cols: u64,
}

impl ShownEntries<'_> {
    /// The entries of rows, by their numbers.
    fn of_rows(&mut self, rows: Range<u64>) -> Result<Range<u64>> {
        Ok(self.offsets.number(rows.start)?..self.offsets.number(rows.end)?)
    }

    /// How many entries of rows lie in some columns.
    fn count(&mut self, rows: Range<u64>, cols: &Range<u64>) -> Result<u64> {
        let entries = self.of_rows(rows)?;
        if *cols == (0..self.cols) {
            return Ok(entries.end.saturating_sub(entries.start));
        }
        let mut count = 0;
        let mut take = |_, column| count += u64::from(cols.contains(&column));
        self.columns.each(entries, &mut take)?;
        Ok(count)
    }

    fn put_block(&mut self, rect: &BlockRect, write: &mut FileWriter<'_>) -> Result<()> {
        let cols = rect.cols();
        write.put(&rect.head(SPARSE, self.value))?;
        write.put(&self.count(rect.rows(), &cols)?.to_le_bytes())?;
        for row in rect.rows() {
            let count = self.count(row..row + 1, &cols)?;
            let count = u32::try_from(count).map_err(|_| too_large())?;
            write.put(&count.to_le_bytes())?;
            for run in runs(self.of_rows(row..row + 1)?) {
                self.put_entries(run, &cols, write)?;
            }
        }
        Ok(())
    }

    fn put_entries(
        &mut self,
        run: Range<u64>,
        cols: &Range<u64>,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        let columns = self.columns.get(run.clone())?.as_chunks().0.iter();
        let columns = columns.map(|column| u64::from_le_bytes(*column));
        let values = self.values.get(run)?.chunks_exact(self.value.size());
        for (column, value) in columns
            .zip(values)
            .filter(|(column, _)| cols.contains(column))
        {
            write.put(&((column - cols.start) as u32).to_le_bytes())?;
            write.put(value)?;
        }
        Ok(())
    }
}
