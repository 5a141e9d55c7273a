//! Blocks of entries as they are stored: sparse or COO, in the value type that the block had if
//! that holds the new values exactly, else in the object's.
//!
//! The three arrays are read in windows, from their start to their end. Used by [`super::entries`].

use std::ops::Range;
use std::sync::Arc;

use super::super::block::table::BlockBody;
use super::super::convert::convert;
use super::super::value::ValueType;
use super::cell_block::{BlockRect, COO, SPARSE};
use super::file_writer::FileWriter;
use super::too_large;
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::container::chunked_write::memory::at_once;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;

/// Elements that are read at once.
const WINDOW: u64 = 32 << 10;

/// Entries that are looked at at once.
const RUN: u64 = 4 << 10;

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
    pub(super) fn get(&mut self, wanted: Range<u64>) -> Result<&[u8]> {
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
}

/// The entries of a matrix as they are shown.
pub(super) struct ShownEntries<'a> {
    pub(super) offsets: ElementWindow<'a>,
    pub(super) columns: ElementWindow<'a>,
    pub(super) values: ElementWindow<'a>,
    pub(super) value: ValueType,
    /// Columns of the matrix.
    pub(super) cols: u64,
}

impl ShownEntries<'_> {
    /// The entries of rows, by their numbers.
    pub(super) fn of_rows(&mut self, rows: &Range<u64>) -> Result<Range<u64>> {
        Ok(self.offsets.number(rows.start)?..self.offsets.number(rows.end)?)
    }

    /// Gives the entries in some columns: the column, and the value in a type; false if that does
    /// not hold them.
    fn each(
        &mut self,
        entries: Range<u64>,
        (cols, to): (&Range<u64>, ValueType),
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        const ROOM: usize = 8 * RUN as usize;
        let (from, mut at) = (self.value, entries.start);
        let [mut own, mut converted, mut back] = [[0; ROOM]; 3];
        while at < entries.end {
            let run = at..entries.end.min(at + RUN);
            let columns = self.columns.get(run.clone())?.as_chunks().0.iter();
            let raw = self.values.get(run.clone())?.chunks_exact(from.size());
            let columns = columns.map(|column| u64::from_le_bytes(*column));
            let mut within = Vec::new();
            // What other columns hold does not matter.
            for (column, value) in columns.zip(raw).filter(|(column, _)| cols.contains(column)) {
                own[within.len() * from.size()..][..from.size()].copy_from_slice(value);
                within.push(column);
            }
            let own = &own[..within.len() * from.size()];
            let values = match from == to {
                true => own,
                false => {
                    let out = &mut converted[..within.len() * to.size()];
                    let back = &mut back[..own.len()];
                    let is_exact = convert(from, to, own, out).is_ok()
                        && convert(to, from, out, back).is_ok()
                        && back == own;
                    if !is_exact {
                        return Ok(false);
                    }
                    out
                }
            };
            for (column, value) in within.into_iter().zip(values.chunks_exact(to.size())) {
                take(column, value)?;
            }
            at = run.end;
        }
        Ok(true)
    }

    /// Whether one of these entries lies in some columns.
    pub(super) fn lie_in(
        &mut self,
        mut entries: impl Iterator<Item = u64>,
        cols: &Range<u64>,
    ) -> Result<bool> {
        let found = entries.find_map(|entry| match self.columns.number(entry) {
            Ok(column) => cols.contains(&column).then_some(Ok(true)),
            Err(e) => Some(Err(e)),
        });
        found.unwrap_or(Ok(false))
    }

    /// How many entries a rectangle has, if a type holds their values.
    fn count(&mut self, rect: &BlockRect, to: ValueType) -> Result<Option<u64>> {
        let (rows, cols) = ranges(rect);
        let entries = self.of_rows(&rows)?;
        if cols == (0..self.cols) && to == self.value {
            return Ok(Some(entries.end.saturating_sub(entries.start)));
        }
        let mut count = 0;
        let is_held = self.each(entries, (&cols, to), &mut |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(is_held.then_some(count))
    }

    /// Writes a block that was of this kind.
    pub(super) fn put_block(
        &mut self,
        rect: BlockRect,
        old: BlockBody,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        let kept = old.value().unwrap_or(self.value);
        let (value, count) = match self.count(&rect, kept)? {
            Some(count) => (kept, count),
            None => (self.value, self.count(&rect, self.value)?.unwrap_or(0)),
        };
        match (old, u32::try_from(count)) {
            (BlockBody::Coo(_), Ok(count)) => self.put_coo(&rect, (value, count), write),
            _ => self.put_sparse(&rect, (value, count), write),
        }
    }

    /// Writes all entries, in sparse blocks of as many rows and columns as one can have.
    pub(super) fn put_all(&mut self, rows: u64, write: &mut FileWriter<'_>) -> Result<()> {
        const MOST: u64 = u32::MAX as u64;
        let mut row = 0;
        while row < rows {
            let height = (rows - row).min(MOST);
            let mut col = 0;
            while col < self.cols {
                let width = (self.cols - col).min(MOST);
                let rect = BlockRect {
                    row,
                    col,
                    height: height as u32,
                    width: width as u32,
                };
                self.put_block(rect, BlockBody::Empty, write)?;
                col += width;
            }
            row += height;
        }
        Ok(())
    }

    fn put_sparse(
        &mut self,
        rect: &BlockRect,
        (value, count): (ValueType, u64),
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        write.put(&rect.typed_head(SPARSE, value))?;
        write.put(&count.to_le_bytes())?;
        let (rows, cols) = ranges(rect);
        for row in rows {
            let own = BlockRect {
                row,
                height: 1,
                ..*rect
            };
            let count = self.count(&own, value)?.unwrap_or(0);
            let count = u32::try_from(count).map_err(|_| too_large())?;
            write.put(&count.to_le_bytes())?;
            let entries = self.of_rows(&(row..row + 1))?;
            self.each(entries, (&cols, value), &mut |column, value| {
                write.put(&((column - rect.col) as u32).to_le_bytes())?;
                write.put(value)
            })?;
        }
        Ok(())
    }

    fn put_coo(
        &mut self,
        rect: &BlockRect,
        (value, count): (ValueType, u32),
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        write.put(&rect.typed_head(COO, value))?;
        write.put(&count.to_le_bytes())?;
        let (rows, cols) = ranges(rect);
        for row in rows {
            let entries = self.of_rows(&(row..row + 1))?;
            self.each(entries, (&cols, value), &mut |column, value| {
                write.put(&((row - rect.row) as u32).to_le_bytes())?;
                if rect.width != 1 {
                    write.put(&((column - rect.col) as u32).to_le_bytes())?;
                }
                write.put(value)
            })?;
        }
        Ok(())
    }
}

fn ranges(rect: &BlockRect) -> (Range<u64>, Range<u64>) {
    let (height, width) = (u64::from(rect.height), u64::from(rect.width));
    (
        rect.row..rect.row.saturating_add(height),
        rect.col..rect.col.saturating_add(width),
    )
}
