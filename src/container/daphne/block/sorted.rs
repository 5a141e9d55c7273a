//! Entries of several blocks in the order of the object: by row, then by column.
//!
//! Blocks may hold their entries in any order and lie side by side, so a part of them is gathered and
//! sorted. What is too much for memory is first counted along the rows, then along the columns, and taken
//! part by part; each level narrows a part 4096 times. Used by the arrays of a CSRMatrix and by full checks.

use std::ops::Range;

use super::super::convert::convert;
use super::super::value::ValueType;
use super::BlockFile;
use super::scan::{EntryBatch, load};
use super::table::CellBlock;
use super::{inexact, twice};
use crate::error::{Fault, Result};

/// Parts that one level counts.
const PARTS: u64 = 4096;

/// An entry of the object. Its value is the bits of the type asked for.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct SortedEntry {
    pub(in super::super) row: u64,
    pub(in super::super) col: u64,
    pub(in super::super) bits: u64,
}

/// Blocks that are looked at together.
pub(in super::super) struct SortedEntries<'a> {
    pub(in super::super) stored: &'a BlockFile,
    /// Numbers of the blocks.
    pub(in super::super) blocks: &'a [u32],
    /// Type of the values; none if only the places matter.
    pub(in super::super) to: Option<ValueType>,
    /// Entries that are gathered at once.
    pub(in super::super) most: u64,
}

/// A rectangle and its entries.
#[derive(Clone)]
pub(in super::super) struct EntryRect {
    pub(in super::super) rows: Range<u64>,
    pub(in super::super) cols: Range<u64>,
    /// Number of the first entry.
    pub(in super::super) first: u64,
    pub(in super::super) entries: u64,
}

/// Gets a part's entries, sorted, and the number of the first.
pub(in super::super) type VisitSorted<'a> = dyn FnMut(u64, &[SortedEntry]) -> Result<()> + 'a;

impl SortedEntries<'_> {
    /// Visits what lies in a rectangle, block by block.
    fn scan(
        &self,
        rows: &Range<u64>,
        cols: &Range<u64>,
        visit: &mut dyn FnMut(&CellBlock, &EntryBatch) -> Result<()>,
    ) -> Result<()> {
        for &number in self.blocks {
            let block = self.stored.table.get(number);
            let rows = within(rows, block.rows());
            let cols = within(cols, block.cols());
            if rows.start < rows.end && cols.start < cols.end {
                self.stored
                    .scan(&block, &rows, &cols, &mut |batch| visit(&block, batch))?;
            }
        }
        Ok(())
    }

    /// Counts the entries of every `step` rows.
    pub(in super::super) fn count_rows(&self, rows: &Range<u64>, step: u64) -> Result<Vec<u64>> {
        self.count(rows, &(0..u64::MAX), step, true)
    }

    fn count(
        &self,
        rows: &Range<u64>,
        cols: &Range<u64>,
        step: u64,
        along_rows: bool,
    ) -> Result<Vec<u64>> {
        let side = if along_rows { rows } else { cols };
        let mut counts = vec![0; (side.end - side.start).div_ceil(step) as usize];
        self.scan(rows, cols, &mut |block, batch| {
            let (first, places) = match along_rows {
                true => (block.row, &batch.rows),
                false => (block.col, &batch.cols),
            };
            for &place in places {
                counts[((first + u64::from(place) - side.start) / step) as usize] += 1;
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Visits the entries of `part` that are among the numbers `want`, and perhaps some around them.
    pub(in super::super) fn visit(
        &self,
        part: EntryRect,
        want: &Range<u64>,
        visit: &mut VisitSorted<'_>,
    ) -> Result<()> {
        if part.first + part.entries <= want.start || part.first >= want.end {
            return Ok(());
        }
        if part.entries <= self.most {
            return visit(part.first, &self.gather(&part)?);
        }
        let len = |side: &Range<u64>| side.end - side.start;
        let along_rows = len(&part.rows) > 1;
        let side = if along_rows { &part.rows } else { &part.cols };
        if len(side) <= 1 {
            return Err(twice(part.rows.start, part.cols.start).into());
        }
        let step = len(side).div_ceil(PARTS);
        let counts = self.count(&part.rows, &part.cols, step, along_rows)?;
        let found: u64 = counts.iter().sum();
        check_number(part.entries, found)?;
        for (slice, first, entries) in merged(&counts, part.first, self.most) {
            let range =
                slice.start * step + side.start..side.end.min(slice.end * step + side.start);
            let mut inner = EntryRect {
                first,
                entries,
                ..part.clone()
            };
            match along_rows {
                true => inner.rows = range,
                false => inner.cols = range,
            }
            self.visit(inner, want, visit)?;
        }
        Ok(())
    }

    /// All entries of a part, sorted.
    fn gather(&self, part: &EntryRect) -> Result<Vec<SortedEntry>> {
        let mut entries = Vec::with_capacity(part.entries as usize);
        let mut converted = Vec::new();
        self.scan(&part.rows, &part.cols, &mut |block, batch| {
            check_number(
                part.entries,
                part.entries.max((entries.len() + batch.rows.len()) as u64),
            )?;
            let size = self.to.map_or(0, ValueType::size);
            if let Some(to) = self.to {
                convert_batch(block, batch, to, &mut converted)?;
            }
            for (at, (&row, &col)) in batch.rows.iter().zip(&batch.cols).enumerate() {
                entries.push(SortedEntry {
                    row: block.row + u64::from(row),
                    col: block.col + u64::from(col),
                    bits: load(&converted[at * size..(at + 1) * size]),
                });
            }
            Ok(())
        })?;
        check_number(part.entries, entries.len() as u64)?;
        entries.sort_unstable_by_key(|entry| (entry.row, entry.col));
        let same = |pair: &&[SortedEntry]| (pair[0].row, pair[0].col) == (pair[1].row, pair[1].col);
        match entries.windows(2).find(same) {
            Some(pair) => Err(twice(pair[0].row, pair[0].col).into()),
            None => Ok(entries),
        }
    }
}

/// Converts the values of a batch, and says which one cannot be.
pub(in super::super) fn convert_batch(
    block: &CellBlock,
    batch: &EntryBatch,
    to: ValueType,
    out: &mut Vec<u8>,
) -> Result<()> {
    let own = block.value().unwrap_or(to);
    out.resize(batch.rows.len() * to.size(), 0);
    convert(own, to, &batch.values, out).map_err(|at| {
        let place = (batch.rows[at].into(), batch.cols[at].into());
        inexact(block, place, to).into()
    })
}

/// Ranges of consecutive counts that make up at most `most` together, or one alone, without the empty
/// ones: range, entries before it, its entries.
fn merged(counts: &[u64], first: u64, most: u64) -> Vec<(Range<u64>, u64, u64)> {
    let mut parts: Vec<(Range<u64>, u64, u64)> = Vec::new();
    let mut before = first;
    for (at, &count) in (0u64..).zip(counts) {
        match parts.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.2 + count <= most => {
                last.0.end = at + 1;
                last.2 += count;
            }
            _ => parts.push((at..at + 1, before, count)),
        }
        before += count;
    }
    parts
}

fn within(range: &Range<u64>, block: Range<u64>) -> Range<u64> {
    let start = range.start.max(block.start);
    let end = range.end.min(block.end);
    start - block.start..end.max(start) - block.start
}

fn check_number(expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let fault = Fault::new("the blocks hold another number of entries");
    Err(fault.expected(expected).found(found).into())
}
