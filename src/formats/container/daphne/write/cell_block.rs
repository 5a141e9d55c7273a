//! Blocks of cells as they are stored: of any type, in the value type that the block had if that
//! holds the new values exactly, else in the object's.
//!
//! Cells are read in bands of a bounded number. A value is held exactly if it comes back with the
//! same bits. A sparse or COO block stores what has any bit set. Used by [`super::cells`].

use std::ops::Range;
use std::sync::Arc;

use super::super::block::table::BlockBody;
use super::super::convert::convert;
use super::super::value::ValueType;
use super::file_writer::FileWriter;
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, PlacedRange, gather, lent_for};
use crate::container::chunked_write::memory::at_once;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;

/// Cells of a band.
const BAND: u64 = 32 << 10;

/// Bytes of them, whatever their type.
const BAND_BYTES: u64 = 8 * BAND;

/// A rectangle of cells that is one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockRect {
    pub(super) row: u64,
    pub(super) col: u64,
    pub(super) height: u32,
    pub(super) width: u32,
}

impl BlockRect {
    /// What every block begins with.
    pub(super) fn head(&self, kind: u8) -> Vec<u8> {
        let mut head = Vec::with_capacity(26);
        head.extend_from_slice(&self.row.to_le_bytes());
        head.extend_from_slice(&self.col.to_le_bytes());
        head.extend_from_slice(&self.height.to_le_bytes());
        head.extend_from_slice(&self.width.to_le_bytes());
        head.push(kind);
        head
    }

    /// The same with the value type.
    pub(super) fn typed_head(&self, kind: u8, value: ValueType) -> Vec<u8> {
        let mut head = self.head(kind);
        head.push(value.spec_code());
        head
    }

    fn area(&self) -> u64 {
        u64::from(self.height).saturating_mul(self.width.into())
    }

    /// The cells in parts of at most a band, row by row: whole rows, or parts of one.
    pub(super) fn bands(self) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
        let (rows_end, cols_end) = (
            self.row.saturating_add(self.height.into()),
            self.col.saturating_add(self.width.into()),
        );
        let rows = (BAND / u64::from(self.width.max(1))).max(1);
        let (mut row, mut col) = (self.row, self.col);
        std::iter::from_fn(move || {
            if row >= rows_end || self.width == 0 {
                return None;
            }
            let rows = row..row.saturating_add(rows).min(rows_end);
            let cols = col..col.saturating_add(BAND).min(cols_end);
            col = cols.end;
            if col >= cols_end {
                (row, col) = (rows.end, self.col);
            }
            Some((rows, cols))
        })
    }
}

/// Codes of block types.
pub(super) const EMPTY: u8 = 0;
pub(super) const DENSE: u8 = 1;
pub(super) const SPARSE: u8 = 2;
pub(super) const COO: u8 = 3;

/// The cells of an object as they are shown.
pub(super) struct ShownCells<'a> {
    /// One array for all columns, or one for each.
    arrays: Vec<(&'a dyn Array, ValueType)>,
    cols: u64,
    is_matrix: bool,
    space: Workspace,
}

/// Takes a cell: its row and column in the block, and its bytes.
type TakeEntry<'a> = &'a mut dyn FnMut(u32, u32, &[u8]) -> Result<()>;

/// What is known of the cells of a block: so many are stored in a sparse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fitting {
    pub(super) nonzero: u64,
}

impl<'a> ShownCells<'a> {
    /// `arrays`: with their lengths.
    pub(super) fn new(
        arrays: Vec<(&'a dyn Array, ValueType, u64)>,
        (cols, is_matrix): (u64, bool),
        budget: &Arc<Budget>,
    ) -> Result<ShownCells<'a>> {
        let mut lent = 0;
        for (array, _, len) in &arrays {
            if *len > 0 {
                lent = lent.max(lent_for(*array, 0..*len)?);
            }
        }
        let room = 4 * BAND_BYTES;
        let hold = at_once(room.saturating_add(lent), budget);
        let arrays = arrays.into_iter().map(|(array, value, _)| (array, value));
        Ok(ShownCells {
            arrays: arrays.collect(),
            cols,
            is_matrix,
            space: Workspace::new(room, lent, hold, room)?,
        })
    }

    fn value(&self, col: u64) -> Result<ValueType> {
        let number = if self.is_matrix { 0 } else { col };
        let array = usize::try_from(number).ok();
        let array = array.and_then(|number| self.arrays.get(number));
        array
            .map(|(_, value)| *value)
            .ok_or_else(|| Error::Bug("there is no such column".into()))
    }

    /// A band of cells in a type; none if that does not hold them all.
    pub(super) fn band(
        &mut self,
        (rows, cols): (&Range<u64>, &Range<u64>),
        to: ValueType,
    ) -> Result<Option<&[u8]>> {
        let (room, mut scratch) = self.space.parts();
        let (raw, rest) = room.split_at_mut(BAND_BYTES as usize);
        let (out, rest) = rest.split_at_mut(BAND_BYTES as usize);
        let (converted, back) = rest.split_at_mut(BAND_BYTES as usize);
        let (height, width) = (rows.end - rows.start, cols.end - cols.start);
        let cells = (height * width) as usize;
        let each = match self.is_matrix {
            true => 0..1,
            false => cols.clone(),
        };
        for col in each {
            let (array, from) = self.arrays[col as usize];
            let size = from.size() as u64;
            let ranges = match self.is_matrix {
                true => ranges_of(rows, cols, self.cols, size),
                false => vec![PlacedRange {
                    from: rows.start * size..rows.end * size,
                    to: 0,
                }],
            };
            let count = if self.is_matrix {
                cells
            } else {
                height as usize
            };
            let raw = &mut raw[..count * from.size()];
            let read = gather(array, &ranges, raw, DecodeMemory::Lent(scratch.lend()));
            read.map_err(|e| e.of_array("", array.name()))?;
            let converted = &mut converted[..count * to.size()];
            if !is_exact((from, to), raw, converted, &mut back[..raw.len()]) {
                return Ok(None);
            }
            let stride = if self.is_matrix { 1 } else { width as usize };
            let first = if self.is_matrix {
                0
            } else {
                (col - cols.start) as usize
            };
            place(converted, to.size(), (first, stride), out);
        }
        Ok(Some(&out[..cells * to.size()]))
    }

    /// Whether a type holds the cells of a block, and how many of them are not zero.
    pub(super) fn survey(&mut self, rect: BlockRect, to: ValueType) -> Result<Option<Fitting>> {
        let mut nonzero = 0;
        for (rows, cols) in rect.bands() {
            let Some(cells) = self.band((&rows, &cols), to)? else {
                return Ok(None);
            };
            let count = cells
                .chunks_exact(to.size())
                .filter(|cell| is_nonzero(cell));
            nonzero += count.count() as u64;
        }
        Ok(Some(Fitting { nonzero }))
    }

    /// Writes a block that was of this kind, in the shortest of the types that it may have: sparse
    /// and COO blocks stay so unless a dense one is shorter.
    pub(super) fn put_block(
        &mut self,
        rect: BlockRect,
        old: BlockBody,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        let own = self.value(rect.col)?;
        let kept = old.value().unwrap_or(own);
        if let Some(fitting) = self.survey(rect, kept)? {
            return self.put_as(rect, (kind_of(old, rect, kept, fitting), kept), write);
        }
        if rect.width == 1 || self.is_matrix {
            let fitting = self.survey(rect, own)?.ok_or_else(not_held)?;
            return self.put_as(rect, (kind_of(old, rect, own, fitting), own), write);
        }
        // Columns of several types, which no type holds together.
        for col in 0..rect.width {
            let col = rect.col + u64::from(col);
            let alone = BlockRect {
                col,
                width: 1,
                ..rect
            };
            self.put_block(alone, BlockBody::Empty, write)?;
        }
        Ok(())
    }

    fn put_as(
        &mut self,
        rect: BlockRect,
        (kind, value): (u8, ValueType),
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        match kind {
            EMPTY => write.put(&rect.head(EMPTY)),
            DENSE => {
                write.put(&rect.typed_head(DENSE, value))?;
                for (rows, cols) in rect.bands() {
                    let cells = self.band((&rows, &cols), value)?;
                    write.put(cells.ok_or_else(not_held)?)?;
                }
                Ok(())
            }
            SPARSE => self.put_sparse(rect, value, write),
            _ => self.put_coo(rect, value, write),
        }
    }

    fn put_sparse(
        &mut self,
        rect: BlockRect,
        value: ValueType,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        let count = self.survey(rect, value)?.ok_or_else(not_held)?.nonzero;
        write.put(&rect.typed_head(SPARSE, value))?;
        write.put(&count.to_le_bytes())?;
        if u64::from(rect.width) > BAND {
            return self.put_wide_rows(rect, value, write);
        }
        let size = value.size();
        for (rows, cols) in rect.bands() {
            let cells = self.band((&rows, &cols), value)?.ok_or_else(not_held)?;
            for row in cells.chunks_exact(rect.width.max(1) as usize * size) {
                let count = row
                    .chunks_exact(size)
                    .filter(|cell| is_nonzero(cell))
                    .count();
                write.put(&(count as u32).to_le_bytes())?;
                for (col, cell) in (0u32..).zip(row.chunks_exact(size)) {
                    if is_nonzero(cell) {
                        write.put(&col.to_le_bytes())?;
                        write.put(cell)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of a sparse block that are longer than a band: each is read twice.
    fn put_wide_rows(
        &mut self,
        rect: BlockRect,
        value: ValueType,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        for row in 0..rect.height {
            let row = BlockRect {
                row: rect.row + u64::from(row),
                height: 1,
                ..rect
            };
            let count = self.survey(row, value)?.ok_or_else(not_held)?.nonzero;
            write.put(&(count as u32).to_le_bytes())?;
            self.put_entries(row, value, &mut |_, col, cell| {
                write.put(&col.to_le_bytes())?;
                write.put(cell)
            })?;
        }
        Ok(())
    }

    fn put_coo(
        &mut self,
        rect: BlockRect,
        value: ValueType,
        write: &mut FileWriter<'_>,
    ) -> Result<()> {
        let count = self.survey(rect, value)?.ok_or_else(not_held)?.nonzero;
        write.put(&rect.typed_head(COO, value))?;
        write.put(&(count as u32).to_le_bytes())?;
        self.put_entries(rect, value, &mut |row, col, cell| {
            write.put(&row.to_le_bytes())?;
            if rect.width != 1 {
                write.put(&col.to_le_bytes())?;
            }
            write.put(cell)
        })
    }

    /// Gives the cells that are not zero, with their places in the block, row by row.
    fn put_entries(&mut self, rect: BlockRect, value: ValueType, put: TakeEntry<'_>) -> Result<()> {
        for (rows, cols) in rect.bands() {
            let width = cols.end - cols.start;
            let cells = self.band((&rows, &cols), value)?.ok_or_else(not_held)?;
            for (number, cell) in (0..).zip(cells.chunks_exact(value.size())) {
                if is_nonzero(cell) {
                    let row = rows.start - rect.row + number / width;
                    let col = cols.start - rect.col + number % width;
                    put(row as u32, col as u32, cell)?;
                }
            }
        }
        Ok(())
    }
}

/// The type of a block that was of another one, or of this, whose cells are these.
fn kind_of(old: BlockBody, rect: BlockRect, value: ValueType, fitting: Fitting) -> u8 {
    let (size, nonzero) = (value.size() as u64, fitting.nonzero);
    let dense = 1 + rect.area().saturating_mul(size);
    let sparse = 9 + 4 * u64::from(rect.height) + nonzero.saturating_mul(4 + size);
    let indices = if rect.width == 1 { 4 } else { 8 };
    let coo = match nonzero <= u32::MAX.into() {
        true => 5 + nonzero.saturating_mul(indices + size),
        false => u64::MAX,
    };
    match old {
        BlockBody::Dense(_) => DENSE,
        BlockBody::Empty if nonzero == 0 => EMPTY,
        BlockBody::Sparse(_) if sparse <= dense => SPARSE,
        BlockBody::Coo(_) if coo <= dense => COO,
        _ if dense <= sparse.min(coo) => DENSE,
        _ if sparse <= coo => SPARSE,
        _ => COO,
    }
}

/// Where the cells of a rectangle lie in an array of all columns.
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

fn is_nonzero(cell: &[u8]) -> bool {
    cell.iter().any(|byte| *byte != 0)
}

fn not_held() -> Error {
    Error::Bug("values are not held by their own type".into())
}
