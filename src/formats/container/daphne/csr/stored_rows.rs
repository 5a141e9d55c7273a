//! The arrays of rows that are stored as rows: one sparse block, or the program's form of 2022.
//!
//! Entries already stand in the order of the arrays, so a part is found by the marks and copied; a
//! row whose columns do not ascend is sorted on the way, unless it is a long one (in the program's
//! form these are shown as stored). Used by `csr`.

use std::ops::Range;
use std::sync::Arc;

use super::super::block::scan::{WINDOW, load};
use super::super::block::sparse::{
    LONG, ROW_WINDOW, RowMarks, RowWalk, SparseRow, SparseRows, ascends, column,
};
use super::super::block::twice;
use super::EntryField;
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};
use crate::source::Source;

/// Scratch memory of copying rows: a window, and keys of those that are out of order.
pub(crate) const COPYING_MEMORY: u64 = room(ROW_WINDOW) + room(8 * LONG);

pub(crate) struct OrderedRows<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) layout: SparseRows,
    pub(crate) marks: Arc<RowMarks>,
    /// Rows in any order are shown as stored.
    pub(crate) as_stored: bool,
}

/// Where entries go, one behind the other: columns as 64-bit numbers, or packed values as they are
/// stored.
pub(crate) struct EntrySink<'b> {
    pub(crate) field: EntryField,
    pub(crate) out: &'b mut [u8],
    /// Bytes that are filled.
    pub(crate) len: usize,
}

impl EntrySink<'_> {
    /// Room for so many bytes; entries are counted, so more is a mistake of ours.
    fn next(&mut self, bytes: usize) -> Result<&mut [u8]> {
        let (start, end) = (self.len, self.len + bytes);
        self.len = end;
        let room = self.out.len();
        let more = || Error::Bug(format!("{end} bytes of entries for a block of {room}"));
        self.out.get_mut(start..end).ok_or_else(more)
    }
}

impl OrderedRows<'_> {
    /// Appends the entries `want`, counted over all rows; false if a long row does not ascend.
    /// Takes [`COPYING_MEMORY`].
    pub(crate) fn entries(
        &self,
        want: &Range<u64>,
        mut scratch: Arena<'_>,
        out: &mut EntrySink<'_>,
    ) -> Result<bool> {
        let mark = self.marks.by_entry(&self.layout, want.start);
        let buf = scratch.take(ROW_WINDOW)?;
        let mut walk = self.layout.walk(self.source, mark, buf);
        while walk.rest() > 0 {
            let row = walk.next()?;
            if row.first >= want.end {
                break;
            }
            let range = row.range();
            let part = range.start.max(want.start)..range.end.min(want.end);
            if part.start < part.end {
                let part = part.start - row.first..part.end - row.first;
                if !self.row(&mut walk, &row, part, scratch.lend(), out)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn row(
        &self,
        walk: &mut RowWalk<'_, '_>,
        row: &SparseRow,
        part: Range<u64>,
        scratch: Arena<'_>,
        out: &mut EntrySink<'_>,
    ) -> Result<bool> {
        let is_long = row.entries > LONG;
        if self.as_stored || is_long && self.marks.ascends(row.number) {
            walk.entries(row, part, &mut |bytes| self.push(row, bytes, out))?;
            return Ok(true);
        }
        if is_long {
            return Ok(false);
        }
        let entry = self.layout.entry() as usize;
        let len = row.entries as usize * entry;
        let bytes = &walk.window.bytes(row.at, len)?[..len];
        if !ascends(bytes, entry, &mut None) {
            return self.push_sorted(row, bytes, part, scratch, out);
        }
        self.check(row, column(&bytes[len - entry..]).into())?;
        let cut = part.start as usize * entry..part.end as usize * entry;
        self.push(row, &bytes[cut], out)?;
        Ok(true)
    }

    /// Sorts a row, of which `part` is pushed.
    fn push_sorted(
        &self,
        row: &SparseRow,
        bytes: &[u8],
        part: Range<u64>,
        mut scratch: Arena<'_>,
        out: &mut EntrySink<'_>,
    ) -> Result<bool> {
        let entry = self.layout.entry() as usize;
        // Columns above the places in the row, so that sorting numbers is enough.
        let keys = scratch.take_u64s(row.entries)?;
        for ((at, key), entry) in (0..).zip(keys.iter_mut()).zip(bytes.chunks_exact(entry)) {
            *key = u64::from(column(entry)) << 32 | at;
        }
        keys.sort_unstable();
        let same = |pair: &&[u64]| pair[0] >> 32 == pair[1] >> 32;
        if let Some(pair) = keys.windows(2).find(same) {
            return Err(twice(row.number, pair[0] >> 32).into());
        }
        self.check(row, keys.last().map_or(0, |key| key >> 32))?;
        for key in &keys[part.start as usize..part.end as usize] {
            let at = (key & u64::from(u32::MAX)) as usize * entry;
            self.push(row, &bytes[at..at + entry], out)?;
        }
        Ok(true)
    }

    fn push(&self, row: &SparseRow, bytes: &[u8], out: &mut EntrySink<'_>) -> Result<()> {
        let most = match (self.layout.index, self.layout.value) {
            (4, 1) => push::<4, 5>(bytes, out),
            (4, 2) => push::<4, 6>(bytes, out),
            (4, 4) => push::<4, 8>(bytes, out),
            (4, _) => push::<4, 12>(bytes, out),
            (_, 1) => push::<8, 9>(bytes, out),
            (_, 2) => push::<8, 10>(bytes, out),
            (_, 4) => push::<8, 12>(bytes, out),
            _ => push::<8, 16>(bytes, out),
        };
        self.check(row, most?)
    }

    fn check(&self, row: &SparseRow, col: u64) -> Result<()> {
        if col < self.layout.width {
            return Ok(());
        }
        Err(Fault::new("an entry's column lies outside")
            .expected(format_args!("less than {}", self.layout.width))
            .found(format_args!("{col} in row {}", row.number))
            .into())
    }

    /// Numbers of the first entries of rows, as little-endian u64 into `out`; `base` is added.
    /// Takes [`COPYING_MEMORY`].
    pub(crate) fn offsets(
        &self,
        rows: &Range<u64>,
        base: u64,
        mut scratch: Arena<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let (mark, buf) = (self.marks.by_row(rows.start), scratch.take(WINDOW)?);
        let mut walk = self.layout.walk(self.source, mark, buf);
        while walk.rest() > 0 {
            let row = walk.next()?;
            if row.number >= rows.end {
                break;
            }
            if let Some(skip) = row.number.checked_sub(rows.start) {
                let at = skip as usize * 8;
                out[at..at + 8].copy_from_slice(&(base + row.first).to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Appends entries of `E` bytes, `I` of them the column, and gives the greatest column. Lengths
/// that are known here make each a move.
fn push<const I: usize, const E: usize>(bytes: &[u8], out: &mut EntrySink<'_>) -> Result<u64> {
    let (entries, _) = bytes.as_chunks::<E>();
    let cols = entries.iter().map(|entry| load(&entry[..I]));
    match out.field {
        EntryField::Columns => {
            let out = out.next(entries.len() * 8)?;
            let (out, _) = out.as_chunks_mut::<8>();
            Ok(cols.zip(out).fold(0, |most, (col, out)| {
                *out = col.to_le_bytes();
                most.max(col)
            }))
        }
        EntryField::Values => {
            let out = out.next(entries.len() * (E - I))?;
            for (out, entry) in out.chunks_exact_mut(E - I).zip(entries) {
                out.copy_from_slice(&entry[I..]);
            }
            Ok(cols.max().unwrap_or(0))
        }
    }
}
