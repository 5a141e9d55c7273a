//! The arrays of rows that are stored as rows: one sparse block, or the program's form of 2022.
//!
//! Entries already stand in the order of the arrays, so a part is found by the marks and copied; a row
//! whose columns do not ascend is sorted on the way (not in the program's form, which is shown as stored).
//! Used by `csr`.

use std::ops::Range;
use std::sync::Arc;

use super::super::block::sorted::{EntryRect, SortedEntries};
use super::super::block::sparse::{LONG, RowMarks, RowWalk, SparseRow, SparseRows, column};
use super::super::block::twice;
use crate::error::{Fault, Result};
use crate::source::Source;

pub(in super::super) struct OrderedRows<'a> {
    pub(in super::super) source: &'a dyn Source,
    pub(in super::super) layout: SparseRows,
    pub(in super::super) marks: Arc<RowMarks>,
    /// For long rows out of order; none if rows are shown as stored.
    pub(in super::super) region: Option<SortedEntries<'a>>,
}

/// What is wanted of entries: columns, or packed values as they are stored (converted, where they come
/// from a long row out of order).
pub(in super::super) struct WantedEntries {
    pub(in super::super) cols: Option<Vec<u64>>,
    pub(in super::super) values: Vec<u8>,
}

impl OrderedRows<'_> {
    /// Appends the entries `want`, counted over all rows.
    pub(in super::super) fn entries(
        &self,
        want: &Range<u64>,
        out: &mut WantedEntries,
    ) -> Result<()> {
        let mark = self.marks.by_entry(&self.layout, want.start);
        let mut walk = self.layout.walk(self.source, mark);
        while walk.rest() > 0 {
            let row = walk.next()?;
            if row.first >= want.end {
                break;
            }
            let range = row.range();
            let part = range.start.max(want.start)..range.end.min(want.end);
            if part.start < part.end {
                let part = part.start - row.first..part.end - row.first;
                self.row(&mut walk, &row, part, out)?;
            }
        }
        Ok(())
    }

    fn row(
        &self,
        walk: &mut RowWalk<'_>,
        row: &SparseRow,
        part: Range<u64>,
        out: &mut WantedEntries,
    ) -> Result<()> {
        match &self.region {
            None => walk.entries(row, part, &mut |bytes| self.push(row, bytes, out)),
            Some(_) if row.entries <= LONG => {
                let entry = self.layout.entry() as usize;
                let len = row.entries as usize * entry;
                let bytes = &walk.window.bytes(row.at, len)?[..len];
                let cut = part.start as usize * entry..part.end as usize * entry;
                if ascends(bytes, entry) {
                    self.push_checked(row, bytes, cut, out)
                } else {
                    self.push_checked(row, &sorted(row, bytes, entry)?, cut, out)
                }
            }
            Some(_) if self.marks.ascends(row.number) => {
                walk.entries(row, part, &mut |bytes| self.push(row, bytes, out))
            }
            Some(region) => self.long(region, row, &part, out),
        }
    }

    /// Checks the greatest column of a whole row; `cut` is pushed.
    fn push_checked(
        &self,
        row: &SparseRow,
        bytes: &[u8],
        cut: Range<usize>,
        out: &mut WantedEntries,
    ) -> Result<()> {
        let last = bytes.len() - self.layout.entry() as usize;
        self.check(row, column(&bytes[last..]).into())?;
        self.push(row, &bytes[cut], out)
    }

    fn push(&self, row: &SparseRow, bytes: &[u8], out: &mut WantedEntries) -> Result<()> {
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
        self.check(row, most)
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

    /// A long row out of order, part by part.
    fn long(
        &self,
        region: &SortedEntries<'_>,
        row: &SparseRow,
        part: &Range<u64>,
        out: &mut WantedEntries,
    ) -> Result<()> {
        let Some(&number) = region.blocks.first() else {
            return Ok(());
        };
        let block = region.stored.table.get(number);
        let at = block.row + row.number;
        let whole = EntryRect {
            rows: at..at + 1,
            cols: block.cols(),
            first: 0,
            entries: row.entries,
        };
        let size = self.layout.value as usize;
        region.visit(whole, part, &mut |first, entries| {
            for (entry, number) in entries.iter().zip(first..) {
                if part.contains(&number) {
                    match &mut out.cols {
                        Some(cols) => cols.push(entry.col),
                        None => out
                            .values
                            .extend_from_slice(&entry.bits.to_le_bytes()[..size]),
                    }
                }
            }
            Ok(())
        })
    }

    /// Numbers of the first entries of rows, as little-endian u64 into `out`; `base` is added.
    pub(in super::super) fn offsets(
        &self,
        rows: &Range<u64>,
        base: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let mut walk = self.layout.walk(self.source, self.marks.by_row(rows.start));
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

/// Appends entries of `E` bytes, `I` of them the column, and gives the greatest column. Lengths that are
/// known here make each a move.
fn push<const I: usize, const E: usize>(bytes: &[u8], out: &mut WantedEntries) -> u64 {
    let (entries, _) = bytes.as_chunks::<E>();
    let cols = entries
        .iter()
        .map(|entry| super::super::block::scan::load(&entry[..I]));
    let Some(kept) = &mut out.cols else {
        let start = out.values.len();
        out.values.resize(start + entries.len() * (E - I), 0);
        let values = out.values[start..].chunks_exact_mut(E - I);
        for (value, entry) in values.zip(entries) {
            value.copy_from_slice(&entry[I..]);
        }
        return cols.max().unwrap_or(0);
    };
    let start = kept.len();
    kept.extend(cols);
    kept[start..].iter().copied().max().unwrap_or(0)
}

fn ascends(bytes: &[u8], entry: usize) -> bool {
    let mut before = None;
    let mut ascends = true;
    for entry in bytes.chunks_exact(entry) {
        let col = Some(column(entry));
        ascends &= before < col;
        before = col;
    }
    ascends
}

fn sorted(row: &SparseRow, bytes: &[u8], entry: usize) -> Result<Vec<u8>> {
    let mut entries: Vec<&[u8]> = bytes.chunks_exact(entry).collect();
    entries.sort_unstable_by_key(|entry| column(entry));
    let same = |pair: &&[&[u8]]| column(pair[0]) == column(pair[1]);
    match entries.windows(2).find(same) {
        Some(pair) => Err(twice(row.number, column(pair[0]).into()).into()),
        None => Ok(entries.concat()),
    }
}
