//! Entries of several blocks in the order of the object: by row, then by column.
//!
//! Blocks may hold their entries in any order and lie side by side, so a part of them is gathered
//! and sorted. What is too much for memory is first counted along the rows, then along the columns,
//! and taken part by part ([`super::bands`]); each level narrows a part 4096 times. Used by the
//! arrays of a CSRMatrix and by full checks.

use std::ops::Range;

use super::super::convert::convert;
use super::super::value::ValueType;
use super::bands::{self, Bands};
use super::scan::{BATCH_VALUES, EntryBatch, SCAN_MEMORY, load};
use super::table::CellBlock;
use super::{BlockFile, check_number, inexact, twice};
use crate::error::Result;
use crate::memory::{Arena, room};

/// Parts that one level counts.
const PARTS: u64 = 4096;
/// Levels that narrow 2^64 rows, then 2^64 columns, to one.
const LEVELS: u64 = 12;

/// Row, column, and the bits of the value in the type asked for.
pub(crate) type SortedEntry = [u64; 3];

/// Scratch memory of [`SortedEntries::visit`] that gathers `most` entries at once.
pub(crate) const fn sorting_memory(most: u64) -> u64 {
    LEVELS * room(8 * PARTS) + room(24 * most) + room(BATCH_VALUES) + SCAN_MEMORY
}

/// Blocks that are looked at together.
pub(crate) struct SortedEntries<'a> {
    pub(crate) stored: &'a BlockFile,
    /// Numbers of the blocks.
    pub(crate) blocks: &'a [u32],
    /// Type of the values; none if only the places matter.
    pub(crate) to: Option<ValueType>,
    /// Entries that are gathered at once.
    pub(crate) most: u64,
}

/// A rectangle and its entries.
#[derive(Clone)]
pub(crate) struct EntryRect {
    pub(crate) rows: Range<u64>,
    pub(crate) cols: Range<u64>,
    /// Number of the first entry.
    pub(crate) first: u64,
    pub(crate) entries: u64,
}

/// Gets a part's entries, sorted, and the number of the first.
pub(crate) type VisitSorted<'a> = dyn FnMut(u64, &[SortedEntry]) -> Result<()> + 'a;

impl SortedEntries<'_> {
    /// Visits what lies in a rectangle, block by block. Takes [`SCAN_MEMORY`].
    fn scan(
        &self,
        rows: &Range<u64>,
        cols: &Range<u64>,
        mut scratch: Arena<'_>,
        visit: &mut dyn FnMut(&CellBlock, &EntryBatch<'_>) -> Result<()>,
    ) -> Result<()> {
        for &number in self.blocks {
            let block = self.stored.table.get(number);
            let rows = within(rows, block.rows());
            let cols = within(cols, block.cols());
            if rows.start < rows.end && cols.start < cols.end {
                let visit = &mut |batch: &EntryBatch<'_>| visit(&block, batch);
                self.stored
                    .scan(&block, &rows, &cols, scratch.lend(), visit)?;
            }
        }
        Ok(())
    }

    /// Counts the entries of every `step` rows. Takes [`SCAN_MEMORY`].
    pub(crate) fn count_rows(
        &self,
        rows: &Range<u64>,
        step: u64,
        counts: &mut [u64],
        scratch: Arena<'_>,
    ) -> Result<()> {
        self.count(rows, &(0..u64::MAX), (step, true), counts, scratch)
    }

    /// Counts along the rows or the columns; `counts` has a place for every `step` of them.
    fn count(
        &self,
        rows: &Range<u64>,
        cols: &Range<u64>,
        (step, along_rows): (u64, bool),
        counts: &mut [u64],
        scratch: Arena<'_>,
    ) -> Result<()> {
        let side = if along_rows { rows } else { cols };
        counts.fill(0);
        self.scan(rows, cols, scratch, &mut |block, batch| {
            let (first, places) = match along_rows {
                true => (block.row, batch.rows()),
                false => (block.col, batch.cols()),
            };
            for &place in places {
                counts[((first + u64::from(place) - side.start) / step) as usize] += 1;
            }
            Ok(())
        })
    }

    /// Visits the entries of `part` that are among the numbers `want`, and perhaps some around
    /// them. Takes [`sorting_memory`].
    pub(crate) fn visit(
        &self,
        part: EntryRect,
        want: &Range<u64>,
        mut scratch: Arena<'_>,
        visit: &mut VisitSorted<'_>,
    ) -> Result<()> {
        if part.first + part.entries <= want.start || part.first >= want.end {
            return Ok(());
        }
        if part.entries <= self.most {
            return visit(part.first, self.gather(&part, scratch)?);
        }
        let len = |side: &Range<u64>| side.end - side.start;
        let along_rows = len(&part.rows) > 1;
        let side = if along_rows { &part.rows } else { &part.cols };
        if len(side) <= 1 {
            return Err(twice(part.rows.start, part.cols.start).into());
        }
        let step = bands::step(side, PARTS);
        let counts = scratch.take_u64s(len(side).div_ceil(step))?;
        let along = (step, along_rows);
        self.count(&part.rows, &part.cols, along, counts, scratch.lend())?;
        bands::sum_up(counts);
        let bands = Bands::new(side.clone(), step, counts);
        check_number(part.entries, bands.before(bands.len()))?;
        let mut at = 0;
        while at < bands.len() {
            let joined = bands.joined(at, self.most);
            let mut inner = EntryRect {
                first: part.first + bands.before(at),
                entries: bands.entries(&joined),
                ..part.clone()
            };
            match along_rows {
                true => inner.rows = bands.places(&joined),
                false => inner.cols = bands.places(&joined),
            }
            if inner.entries > 0 {
                self.visit(inner, want, scratch.lend(), visit)?;
            }
            at = joined.end;
        }
        Ok(())
    }

    /// All entries of a part, sorted.
    fn gather<'b>(
        &self,
        part: &EntryRect,
        mut scratch: Arena<'b>,
    ) -> Result<&'b mut [SortedEntry]> {
        let numbers = scratch.take_u64s(3 * part.entries)?;
        let (entries, _) = numbers.as_chunks_mut::<3>();
        let converted = scratch.take(BATCH_VALUES)?;
        let size = self.to.map_or(0, ValueType::size);
        let mut len = 0;
        self.scan(&part.rows, &part.cols, scratch, &mut |block, batch| {
            let end = len + batch.rows().len();
            let Some(gathered) = entries.get_mut(len..end) else {
                return check_number(part.entries, end as u64);
            };
            if let Some(to) = self.to {
                convert_batch(block, batch, to, converted)?;
            }
            let places = batch.rows().iter().zip(batch.cols());
            for (at, (entry, (&row, &col))) in gathered.iter_mut().zip(places).enumerate() {
                *entry = [
                    block.row + u64::from(row),
                    block.col + u64::from(col),
                    load(&converted[at * size..(at + 1) * size]),
                ];
            }
            len = end;
            Ok(())
        })?;
        check_number(part.entries, len as u64)?;
        entries.sort_unstable_by_key(|&[row, col, _]| (row, col));
        let same = |pair: &&[SortedEntry]| pair[0][..2] == pair[1][..2];
        match entries.windows(2).find(same) {
            Some(pair) => Err(twice(pair[0][0], pair[0][1]).into()),
            None => Ok(entries),
        }
    }
}

/// Converts the values of a batch into `out`, which has [`BATCH_VALUES`], and says which one cannot
/// be.
pub(crate) fn convert_batch(
    block: &CellBlock,
    batch: &EntryBatch<'_>,
    to: ValueType,
    out: &mut [u8],
) -> Result<()> {
    let own = block.value().unwrap_or(to);
    let out = &mut out[..batch.rows().len() * to.size()];
    convert(own, to, batch.values(), out).map_err(|at| {
        let place = (batch.rows()[at].into(), batch.cols()[at].into());
        inexact(block, place, to).into()
    })
}

fn within(range: &Range<u64>, block: Range<u64>) -> Range<u64> {
    let start = range.start.max(block.start);
    let end = range.end.min(block.end);
    start - block.start..end.max(start) - block.start
}
