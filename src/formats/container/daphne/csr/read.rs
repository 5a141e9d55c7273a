//! Reading the entries and offsets of a CSRMatrix, sorted by row, then column.
//!
//! Opening needs no row: what the arrays' sizes and the first entries depend on comes from
//! [`RowGroups`]. Blocks are cut at the groups, so a damaged stored block harms only the rows it
//! crosses. A group of one sparse block is copied from it ([`OrderedRows`]); any other is counted
//! once in bands of about a thousand entries, and gathered from its blocks ([`SortedEntries`]).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::super::block::bands::{self, CountedBands};
use super::super::block::index_cache::IndexedPart;
use super::super::block::scan::SCAN_MEMORY;
use super::super::block::sorted::{EntryRect, SortedEntries, sorting_memory};
use super::super::block::sparse::{LONG, MARKING_MEMORY, RowMarks, SparseRows};
use super::super::block::table::BlockBody;
use super::super::block::{BlockFile, check_number, in_block};
use super::super::convert::convert;
use super::super::value::ValueType;
use super::row_groups::RowGroups;
use super::stored_rows::{COPYING_MEMORY, EntrySink, OrderedRows};
use super::{BLOCK, EntryField};
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};

/// Entries of a band, at least: there are at most so many bands.
const BAND: u64 = 1024;
const MOST_BANDS: u64 = 64 << 10;
/// Stored bytes that weigh as much as an entry.
const WEIGHT: u64 = 16;

/// Scratch memory of a block of entries: their values as they are stored, and copying or sorting
/// them.
pub(super) const ENTRIES_MEMORY: u64 = room(8 * BLOCK) + sorting_memory(LONG);
/// Scratch memory of a block of offsets: the number of entries of each row, and counting them.
pub(super) const OFFSETS_MEMORY: u64 = room(8 * BLOCK) + SCAN_MEMORY;

const _: () = assert!(sorting_memory(LONG) >= COPYING_MEMORY && SCAN_MEMORY >= MARKING_MEMORY);

pub(crate) struct CsrMatrix {
    pub(crate) stored: BlockFile,
    pub(crate) rows: u64,
    pub(crate) cols: u64,
    pub(crate) value: ValueType,
    groups: OnceLock<RowGroups>,
    /// The program's form of 2022: rows of 64-bit indices, shown as stored.
    pub(super) wide: Option<(SparseRows, OnceLock<Arc<RowMarks>>)>,
}

impl CsrMatrix {
    pub(crate) fn new(stored: BlockFile, rows: u64, cols: u64, value: ValueType) -> CsrMatrix {
        CsrMatrix {
            stored,
            rows,
            cols,
            value,
            groups: OnceLock::new(),
            wide: None,
        }
    }

    /// Rows of 64-bit indices; `stored` has no blocks.
    pub(crate) fn wide(
        stored: BlockFile,
        layout: SparseRows,
        value: ValueType,
    ) -> Result<CsrMatrix> {
        let nothing = layout.rows == 0;
        let groups = RowGroups::one(&stored.index_cache, layout.rows, layout.entries, nothing)?;
        Ok(CsrMatrix {
            groups: OnceLock::from(groups),
            wide: Some((layout, OnceLock::new())),
            ..CsrMatrix::new(stored, layout.rows, layout.width, value)
        })
    }

    /// Two readers may count at once; both find the same.
    pub(crate) fn groups(&self) -> Result<&RowGroups> {
        if self.groups.get().is_none() {
            let groups = RowGroups::new(&self.stored, self.rows, self.cols)?;
            let _ = self.groups.set(groups);
        }
        let missing = || Error::Bug("the entries of a matrix were not counted".into());
        self.groups.get().ok_or_else(missing)
    }

    fn sorted<'a>(&'a self, blocks: &'a [u32], field: EntryField) -> SortedEntries<'a> {
        SortedEntries {
            stored: &self.stored,
            blocks,
            to: (field == EntryField::Values).then_some(self.value),
            most: LONG,
        }
    }

    /// The rows of a group that are stored as rows. Takes [`MARKING_MEMORY`].
    fn stored_rows<'a>(
        &'a self,
        groups: &'a RowGroups,
        group: usize,
        scratch: Arena<'_>,
    ) -> Result<Option<OrderedRows<'a>>> {
        let source = &*self.stored.source;
        if let Some((layout, marks)) = &self.wide {
            if marks.get().is_none() {
                let found = layout.mark(source, &self.stored.index_cache, scratch)?;
                let _ = marks.set(Arc::new(found));
            }
            return Ok(marks.get().map(|marks| OrderedRows {
                source,
                layout: *layout,
                marks: Arc::clone(marks),
                as_stored: true,
            }));
        }
        let blocks = groups.blocks(group);
        let [number] = blocks else { return Ok(None) };
        let block = self.stored.table.get(*number);
        if !matches!(block.body, BlockBody::Sparse(_)) {
            return Ok(None);
        }
        Ok(Some(OrderedRows {
            source,
            layout: SparseRows::of(&block),
            marks: self.stored.row_marks(&block, scratch)?,
            as_stored: false,
        }))
    }

    /// The type of a single block's values.
    fn own(&self, groups: &RowGroups, group: usize) -> ValueType {
        let block = |&number: &u32| self.stored.table.get(number).value();
        match (&self.wide, groups.blocks(group).first()) {
            (None, Some(number)) => block(number).unwrap_or(self.value),
            _ => self.value,
        }
    }

    /// Decodes the entries `want` of a group, counted within it. Takes [`ENTRIES_MEMORY`].
    pub(super) fn entries(
        &self,
        group: usize,
        want: &Range<u64>,
        field: EntryField,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let groups = self.groups()?;
        let decoded = match self.copied(groups, group, (want, field), out, scratch.lend()) {
            Ok(false) => self.gather(groups, group, want, field, out, scratch),
            copied => copied.map(drop),
        };
        decoded.map_err(|e| e.map_fault(|fault| self.place(fault, groups, group)))
    }

    /// Copies them from rows that are stored as rows; false if they are not, or out of order.
    fn copied(
        &self,
        groups: &RowGroups,
        group: usize,
        (want, field): (&Range<u64>, EntryField),
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<bool> {
        let Some(rows) = self.stored_rows(groups, group, scratch.lend())? else {
            return Ok(false);
        };
        let own = self.own(groups, group);
        if field == EntryField::Columns || own == self.value {
            return copy(&rows, field, want, out, scratch);
        }
        let values = scratch.take((want.end - want.start) * own.size() as u64)?;
        if !copy(&rows, field, want, values, scratch)? {
            return Ok(false);
        }
        let converted = convert(own, self.value, values, out).map_err(|at| {
            let what = format!(
                "a value does not fit the type {} exactly",
                self.value.name()
            );
            let number = want.start + at as u64;
            Fault::new(what).found(format_args!("entry {number}"))
        });
        converted.map(|()| true).map_err(Error::from)
    }

    fn gather(
        &self,
        groups: &RowGroups,
        group: usize,
        want: &Range<u64>,
        field: EntryField,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let sorted = self.sorted(groups.blocks(group), field);
        let counted = self.bands(groups, group, scratch.lend())?;
        let bands = counted.bands();
        let size = match field {
            EntryField::Values => self.value.size(),
            EntryField::Columns => 8,
        };
        let mut band = bands.by_entry(want.start);
        while band < bands.len() && bands.before(band) < want.end {
            // As many bands as are gathered at once.
            let needed = bands.by_entry(want.end - 1) + 1;
            let joined = bands.joined(band, LONG);
            let joined = band..joined.end.min(needed).max(band + 1);
            band = joined.end;
            let part = EntryRect {
                rows: bands.places(&joined),
                cols: 0..self.cols,
                first: bands.before(joined.start),
                entries: bands.entries(&joined),
            };
            sorted.visit(part, want, scratch.lend(), &mut |first, entries| {
                for (&[_, col, bits], number) in entries.iter().zip(first..) {
                    if want.contains(&number) {
                        let bits = match field {
                            EntryField::Values => bits,
                            EntryField::Columns => col,
                        };
                        let at = (number - want.start) as usize * size;
                        out[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The bands of a group, counted when first needed; a small group is one. Takes
    /// [`SCAN_MEMORY`].
    fn bands(
        &self,
        groups: &RowGroups,
        group: usize,
        scratch: Arena<'_>,
    ) -> Result<Arc<CountedBands>> {
        let index_cache = &*self.stored.index_cache;
        let about = IndexedPart::Bands(group);
        if let Some(bands) = index_cache.recall(about) {
            return Ok(bands);
        }
        let (start, end) = groups.get(group);
        let (side, entries) = (start.row..end.row, end.first - start.first);
        let blocks = groups.blocks(group);
        let stored = blocks.iter().map(|&n| self.stored.table.get(n).stored());
        let weight = entries.max(stored.sum::<u64>() / WEIGHT);
        let is_small = weight <= LONG;
        let step = match is_small {
            true => bands::step(&side, 1),
            false => bands::step(&side, (weight / BAND).min(MOST_BANDS)),
        };
        let count = (side.end - side.start).div_ceil(step);
        let mut ends = index_cache.list(count)?;
        ends.list.resize(count as usize, entries);
        if !is_small {
            let sorted = self.sorted(blocks, EntryField::Columns);
            sorted.count_rows(&side, step, &mut ends.list, scratch)?;
            bands::sum_up(&mut ends.list);
            check_number(entries, ends.list.last().copied().unwrap_or(0))?;
        }
        let bands = CountedBands { side, step, ends };
        if is_small {
            return Ok(Arc::new(bands));
        }
        let bytes = bands.bytes();
        Ok(index_cache.remember(about, bands, bytes))
    }

    /// Decodes where the entries of rows of a group begin, as numbers of the whole matrix. Takes
    /// [`OFFSETS_MEMORY`].
    pub(super) fn offsets(
        &self,
        group: usize,
        rows: &Range<u64>,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let groups = self.groups()?;
        let (start, _) = groups.get(group);
        let decoded = match self.stored_rows(groups, group, scratch.lend())? {
            Some(stored) => {
                let within = rows.start - start.row..rows.end - start.row;
                stored.offsets(&within, start.first, scratch, out)
            }
            None => self.count_offsets(groups, group, rows, out, scratch),
        };
        decoded.map_err(|e| e.map_fault(|fault| self.place(fault, groups, group)))
    }

    fn count_offsets(
        &self,
        groups: &RowGroups,
        group: usize,
        rows: &Range<u64>,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let (start, end) = groups.get(group);
        let bands = self.bands(groups, group, scratch.lend())?;
        let sorted = self.sorted(groups.blocks(group), EntryField::Columns);
        let band = (rows.start - start.row) / bands.step;
        let top = start.row + band * bands.step;
        let mut sum = start.first + bands.bands().before(band as usize);
        if top < rows.start {
            let (mut above, range) = ([0], top..rows.start);
            sorted.count_rows(&range, rows.start - top, &mut above, scratch.lend())?;
            sum += above[0];
        }
        let counts = scratch.take_u64s(rows.end - rows.start)?;
        sorted.count_rows(rows, 1, counts, scratch)?;
        for (out, count) in out.chunks_exact_mut(8).zip(counts) {
            out.copy_from_slice(&sum.to_le_bytes());
            sum += *count;
        }
        // The counts of the heads are what the arrays are made by.
        let last = end.row == rows.end;
        if last {
            check_number(end.first, sum)
        } else {
            Ok(())
        }
    }

    /// The block of a group that has only one.
    fn place(&self, fault: Fault, groups: &RowGroups, group: usize) -> Fault {
        match groups.blocks(group) {
            [number] if self.wide.is_none() => in_block(fault, &self.stored.table.get(*number)),
            _ => fault,
        }
    }
}

/// Copies entries of rows that are stored as rows; false if these are out of order.
fn copy(
    rows: &OrderedRows<'_>,
    field: EntryField,
    want: &Range<u64>,
    out: &mut [u8],
    scratch: Arena<'_>,
) -> Result<bool> {
    let all = out.len();
    let mut sink = EntrySink { field, out, len: 0 };
    if !rows.entries(want, scratch, &mut sink)? {
        return Ok(false);
    }
    check_number(all as u64, sink.len as u64)?;
    Ok(true)
}
