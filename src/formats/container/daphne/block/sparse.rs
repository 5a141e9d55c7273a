//! Rows of interleaved entries: a sparse block of the specification, and the program's form of
//! 2022.
//!
//! Each row is a count and that many pairs of column and value; where a row begins is known only
//! from the rows before it. One pass over the counts checks them all and leaves a mark every 64
//! KiB, so memory is a small part of the file's size; a walk to any row begins at the mark before
//! it.

use std::ops::Range;

use super::check_number;
use super::index_cache::{BlockIndexCache, ChargedList};
use super::scan::WINDOW;
use super::table::{BlockBody, CellBlock};
use crate::error::{Fault, Result};
use crate::memory::{Arena, room};
use crate::source::{ForwardWindow, Source};

/// Stored bytes between marks, at least: there are at most so many.
const SPACING: u64 = 64 << 10;
const MOST_MARKS: u64 = 64 << 10;
/// Most that a walk reads at once, if a row is not longer.
const AT_ONCE: usize = WINDOW as usize;
/// Entries of a row that is not read as a whole.
pub(crate) const LONG: u64 = 64 << 10;
/// Memory of a window that holds any other row of 32-bit columns whole.
pub(crate) const ROW_WINDOW: u64 = LONG * 12;
/// Scratch memory that finding the marks takes.
pub(crate) const MARKING_MEMORY: u64 = room(WINDOW);

/// Where the rows lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SparseRows {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) rows: u64,
    pub(crate) entries: u64,
    /// Columns of the block.
    pub(crate) width: u64,
    /// Bytes of a count, and of a column: 4 or 8.
    pub(crate) index: u64,
    /// Bytes of a value.
    pub(crate) value: u64,
}

/// What the pass over the counts found.
pub(crate) struct RowMarks {
    /// Row, and where its count is stored.
    marks: ChargedList<(u64, u64)>,
    /// Long rows whose columns do not ascend.
    unsorted: ChargedList<u64>,
}

impl RowMarks {
    pub(crate) fn ascends(&self, row: u64) -> bool {
        self.unsorted.list.binary_search(&row).is_err()
    }

    /// The last mark at or before a row.
    pub(crate) fn by_row(&self, row: u64) -> (u64, u64) {
        let next = self.marks.list.partition_point(|mark| mark.0 <= row);
        self.marks.list[next.saturating_sub(1)]
    }

    /// Bytes that are passed over for these rows, up to `end`.
    pub(crate) fn stored(&self, rows: &Range<u32>, end: u64) -> Range<u64> {
        let next = self
            .marks
            .list
            .partition_point(|mark| mark.0 < u64::from(rows.end));
        let end = self.marks.list.get(next).map_or(end, |mark| mark.1);
        self.by_row(rows.start.into()).1..end
    }

    /// The last mark whose row begins at or before an entry.
    pub(crate) fn by_entry(&self, layout: &SparseRows, entry: u64) -> (u64, u64) {
        let before = |mark: &(u64, u64)| layout.before(mark.0, mark.1) <= entry;
        let next = self.marks.list.partition_point(before);
        self.marks.list[next.saturating_sub(1)]
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.marks.bytes() + self.unsorted.bytes()
    }
}

impl SparseRows {
    /// Of a sparse block.
    pub(crate) fn of(block: &CellBlock) -> SparseRows {
        let value = match block.body {
            BlockBody::Sparse(value) => value.size() as u64,
            _ => 0,
        };
        SparseRows {
            start: block.payload(),
            end: block.end,
            rows: block.height.into(),
            entries: block.entries(),
            width: block.width.into(),
            index: 4,
            value,
        }
    }

    /// Bytes of an entry.
    pub(crate) fn entry(&self) -> u64 {
        self.index + self.value
    }

    /// Entries before a row whose count is stored at `at`.
    pub(crate) fn before(&self, row: u64, at: u64) -> u64 {
        (at - self.start - row * self.index) / self.entry()
    }

    /// Checks every count. Takes [`MARKING_MEMORY`].
    pub(crate) fn mark(
        &self,
        source: &dyn Source,
        index_cache: &BlockIndexCache,
        mut scratch: Arena<'_>,
    ) -> Result<RowMarks> {
        let stored = self.end - self.start;
        let spacing = SPACING.max(stored / MOST_MARKS);
        let long_rows = stored / (LONG * self.entry());
        let mut marks = RowMarks {
            marks: index_cache.list(stored / spacing + 1)?,
            unsorted: index_cache.list(long_rows)?,
        };
        marks.marks.list.push((0, self.start));
        let mut walk = self.walk(source, (0, self.start), scratch.take(WINDOW)?);
        let mut last = self.start;
        while walk.rest() > 0 {
            if walk.at - last >= spacing {
                marks.marks.list.push((walk.row, walk.at));
                last = walk.at;
            }
            let row = walk.next()?;
            if row.entries > LONG && self.index == 4 && !walk.row_ascends(&row)? {
                marks.unsorted.list.push(row.number);
            }
        }
        if walk.at != self.end {
            check_number(self.entries, self.before(self.rows, walk.at))?;
        }
        Ok(marks)
    }

    /// Walks rows from a mark on, reading them into `buf`.
    pub(crate) fn walk<'a, 'b>(
        &self,
        source: &'a dyn Source,
        mark: (u64, u64),
        buf: &'b mut [u8],
    ) -> RowWalk<'a, 'b> {
        RowWalk {
            layout: *self,
            window: ForwardWindow::new(source, self.end, buf).at_once(AT_ONCE),
            row: mark.0,
            at: mark.1,
        }
    }
}

pub(crate) struct RowWalk<'a, 'b> {
    layout: SparseRows,
    pub(crate) window: ForwardWindow<'a, 'b>,
    row: u64,
    at: u64,
}

/// A row and where it is stored.
#[derive(Debug, Clone)]
pub(crate) struct SparseRow {
    pub(crate) number: u64,
    /// Its first entry, counted over all rows.
    pub(crate) first: u64,
    pub(crate) entries: u64,
    /// Where its entries are stored.
    pub(crate) at: u64,
}

impl SparseRow {
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.entries
    }
}

impl RowWalk<'_, '_> {
    /// Rows that follow.
    pub(crate) fn rest(&self) -> u64 {
        self.layout.rows - self.row
    }

    /// The next row; there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<SparseRow> {
        let layout = &self.layout;
        let entries = match layout.index {
            4 => u64::from(self.window.u32(self.at)?),
            _ => self.window.u64(self.at)?,
        };
        let at = self.at + layout.index;
        let left = layout.end.saturating_sub(at) / layout.entry();
        if entries > left || entries > layout.width && layout.index == 4 {
            return Err(Fault::new("a row has too many entries")
                .bytes(self.at..at)
                .expected(format_args!("at most {}", left.min(layout.width)))
                .found(format_args!("{entries} in row {}", self.row))
                .into());
        }
        let row = SparseRow {
            number: self.row,
            first: layout.before(self.row, self.at),
            entries,
            at,
        };
        self.row += 1;
        self.at = at + entries * layout.entry();
        Ok(row)
    }

    /// Gives the stored entries of a part of a row, several at a time.
    #[inline]
    pub(crate) fn entries(
        &mut self,
        row: &SparseRow,
        part: Range<u64>,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let entry = self.layout.entry();
        let (mut at, end) = (row.at + part.start * entry, row.at + part.end * entry);
        while at < end {
            let bytes = self.window.bytes(at, entry as usize)?;
            let len = (bytes.len() as u64).min(end - at);
            let len = len - len % entry;
            visit(&bytes[..len as usize])?;
            at += len;
        }
        Ok(())
    }

    fn row_ascends(&mut self, row: &SparseRow) -> Result<bool> {
        let entry = self.layout.entry() as usize;
        let (mut before, mut all) = (None, true);
        self.entries(row, 0..row.entries, &mut |bytes| {
            all &= ascends(bytes, entry, &mut before);
            Ok(())
        })?;
        Ok(all)
    }
}

/// Whether the columns of entries of so many bytes rise, from the one `before` on.
#[inline]
pub(crate) fn ascends(bytes: &[u8], entry: usize, before: &mut Option<u32>) -> bool {
    let mut ascends = true;
    for entry in bytes.chunks_exact(entry) {
        let col = Some(column(entry));
        ascends &= *before < col;
        *before = col;
    }
    ascends
}

/// The 32-bit column that an entry begins with.
#[inline(always)]
pub(crate) fn column(entry: &[u8]) -> u32 {
    let mut own = [0; 4];
    own.copy_from_slice(&entry[..4]);
    u32::from_le_bytes(own)
}
