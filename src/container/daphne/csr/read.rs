//! A CSRMatrix as three arrays: `row_offsets`, `col_idxs` and `values`, sorted by row, then column.
//!
//! Opening needs no row: what the arrays' sizes and the first entries depend on comes from `groups`. Blocks
//! are cut at the groups, so a damaged stored block harms only the rows it crosses. A group of one sparse
//! block is copied from it (`single`); any other is counted once in bands of about a thousand entries, and
//! gathered from its blocks (`region`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::super::block::sorted::{EntryRect, SortedEntries};
use super::super::block::sparse::{LONG, RowMarks, SparseRows};
use super::super::block::table::BlockBody;
use super::super::block::{BlockFile, in_block};
use super::super::convert::convert;
use super::super::value::ValueType;
use super::row_groups::RowGroups;
use super::stored_rows::{OrderedRows, WantedEntries};
use crate::error::{Fault, Result};

/// Entries of a band.
const BAND: u64 = 1024;
/// Stored bytes that weigh as much as an entry.
const WEIGHT: u64 = 16;

pub(in super::super) struct CsrMatrix {
    pub(in super::super) stored: BlockFile,
    pub(in super::super) rows: u64,
    pub(in super::super) cols: u64,
    pub(in super::super) value: ValueType,
    groups: OnceLock<RowGroups>,
    bands: Mutex<HashMap<usize, Arc<EntryBands>>>,
    /// The program's form of 2022: rows of 64-bit indices, shown as stored.
    pub(in super::super) wide: Option<(SparseRows, OnceLock<Arc<RowMarks>>)>,
}

/// Bands of equal height of a group, and the entries before each; the last is their number.
struct EntryBands {
    height: u64,
    before: Vec<u64>,
}

/// What part of an entry an array shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum EntryField {
    Columns,
    Values,
}

impl CsrMatrix {
    pub(in super::super) fn new(
        stored: BlockFile,
        rows: u64,
        cols: u64,
        value: ValueType,
    ) -> CsrMatrix {
        CsrMatrix {
            stored,
            rows,
            cols,
            value,
            groups: OnceLock::new(),
            bands: Mutex::default(),
            wide: None,
        }
    }

    /// Rows of 64-bit indices; `stored` has no blocks.
    pub(in super::super) fn wide(
        stored: BlockFile,
        layout: SparseRows,
        value: ValueType,
    ) -> CsrMatrix {
        let csr = CsrMatrix::new(stored, layout.rows, layout.width, value);
        let groups = RowGroups::one(layout.rows, layout.entries, layout.rows == 0);
        let _ = csr.groups.set(groups);
        CsrMatrix {
            wide: Some((layout, OnceLock::new())),
            ..csr
        }
    }

    /// Two readers may count at once; both find the same.
    pub(in super::super) fn groups(&self) -> Result<&RowGroups> {
        if self.groups.get().is_none() {
            let groups = RowGroups::new(&self.stored, self.rows, self.cols)?;
            let _ = self.groups.set(groups);
        }
        let missing = || Fault::new("the entries were not counted").into();
        self.groups.get().ok_or_else(missing)
    }

    fn region<'a>(&'a self, blocks: &'a [u32], side: EntryField) -> SortedEntries<'a> {
        SortedEntries {
            stored: &self.stored,
            blocks,
            to: (side == EntryField::Values).then_some(self.value),
            most: LONG,
        }
    }

    /// The rows of a group that are stored as rows.
    fn single<'a>(
        &'a self,
        groups: &'a RowGroups,
        group: usize,
    ) -> Result<Option<OrderedRows<'a>>> {
        let source = &*self.stored.source;
        if let Some((layout, marks)) = &self.wide {
            if marks.get().is_none() {
                let _ = marks.set(Arc::new(layout.mark(source)?));
            }
            return Ok(marks.get().map(|marks| OrderedRows {
                source,
                layout: *layout,
                marks: Arc::clone(marks),
                region: None,
            }));
        }
        let blocks = groups.blocks(group);
        let [number] = blocks else { return Ok(None) };
        let block = self.stored.table.get(*number);
        let BlockBody::Sparse(own) = block.body else {
            return Ok(None);
        };
        let region = SortedEntries {
            to: Some(own),
            ..self.region(blocks, EntryField::Values)
        };
        Ok(Some(OrderedRows {
            source,
            layout: SparseRows::of(&block),
            marks: self.stored.marks(&block)?,
            region: Some(region),
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

    /// Decodes the entries `want` of a group, counted within it.
    pub(in super::super) fn entries(
        &self,
        group: usize,
        want: &Range<u64>,
        side: EntryField,
        out: &mut [u8],
    ) -> Result<()> {
        let groups = self.groups()?;
        let decoded = match self.single(groups, group)? {
            Some(single) => self.copy(&single, self.own(groups, group), want, side, out),
            None => self.gather(groups, group, want, side, out),
        };
        decoded.map_err(|e| e.map_fault(|fault| self.place(fault, groups, group)))
    }

    fn copy(
        &self,
        single: &OrderedRows<'_>,
        own: ValueType,
        want: &Range<u64>,
        side: EntryField,
        out: &mut [u8],
    ) -> Result<()> {
        let mut wanted = WantedEntries {
            cols: (side == EntryField::Columns).then(|| Vec::with_capacity(out.len() / 8)),
            values: Vec::with_capacity(if side == EntryField::Values {
                out.len()
            } else {
                0
            }),
        };
        single.entries(want, &mut wanted)?;
        let expected = want.end - want.start;
        let size = own.size();
        if let Some(cols) = &wanted.cols {
            check_number(expected, cols.len())?;
            for (to, col) in out.chunks_exact_mut(8).zip(cols) {
                to.copy_from_slice(&col.to_le_bytes());
            }
            return Ok(());
        }
        check_number(expected, wanted.values.len() / size)?;
        convert(own, self.value, &wanted.values, out).map_err(|at| {
            let what = format!(
                "a value does not fit the type {} exactly",
                self.value.name()
            );
            Fault::new(what)
                .found(format_args!("entry {}", want.start + at as u64))
                .into()
        })
    }

    fn gather(
        &self,
        groups: &RowGroups,
        group: usize,
        want: &Range<u64>,
        side: EntryField,
        out: &mut [u8],
    ) -> Result<()> {
        let region = self.region(groups.blocks(group), side);
        let bands = self.bands(groups, group)?;
        let rows = groups.get(group).0.row..groups.get(group).1.row;
        let size = if side == EntryField::Values {
            self.value.size()
        } else {
            8
        };
        let mut band = bands.before.partition_point(|&n| n <= want.start) - 1;
        while band + 1 < bands.before.len() && bands.before[band] < want.end {
            let first = bands.before[band];
            // As many bands as are gathered at once.
            let fit = bands.before.partition_point(|&n| n <= first + LONG) - 1;
            let needed = bands.before.partition_point(|&n| n < want.end);
            let next = fit.min(needed).max(band + 1);
            let part = EntryRect {
                rows: rows.start + band as u64 * bands.height
                    ..rows.end.min(rows.start + next as u64 * bands.height),
                cols: 0..self.cols,
                first,
                entries: bands.before[next] - first,
            };
            region.visit(part, want, &mut |first, entries| {
                for (entry, number) in entries.iter().zip(first..) {
                    if want.contains(&number) {
                        let bits = if side == EntryField::Values {
                            entry.bits
                        } else {
                            entry.col
                        };
                        let at = (number - want.start) as usize * size;
                        out[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
                    }
                }
                Ok(())
            })?;
            band = next;
        }
        Ok(())
    }

    /// The bands of a group, counted when first needed; a small group is one.
    fn bands(&self, groups: &RowGroups, group: usize) -> Result<Arc<EntryBands>> {
        let locked = || self.bands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bands) = locked().get(&group) {
            return Ok(Arc::clone(bands));
        }
        let (start, end) = groups.get(group);
        let (rows, entries) = (end.row - start.row, end.first - start.first);
        let blocks = groups.blocks(group);
        let stored = blocks.iter().map(|&n| self.stored.table.get(n).stored());
        let weight = entries.max(stored.sum::<u64>() / WEIGHT);
        if weight <= LONG {
            return Ok(Arc::new(EntryBands {
                height: rows,
                before: vec![0, entries],
            }));
        }
        let height = rows.div_ceil(weight / BAND);
        let counts = self
            .region(blocks, EntryField::Columns)
            .count_rows(&(start.row..end.row), height)?;
        let mut before = vec![0];
        let mut sum = 0;
        before.extend(counts.iter().map(|count| {
            sum += count;
            sum
        }));
        check_number(entries, sum as usize)?;
        let bands = Arc::new(EntryBands { height, before });
        locked().insert(group, Arc::clone(&bands));
        Ok(bands)
    }

    /// Decodes where the entries of rows of a group begin, as numbers of the whole matrix.
    pub(in super::super) fn offsets(
        &self,
        group: usize,
        rows: &Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let groups = self.groups()?;
        let (start, _) = groups.get(group);
        let decoded = match self.single(groups, group)? {
            Some(single) => {
                let within = rows.start - start.row..rows.end - start.row;
                single.offsets(&within, start.first, out)
            }
            None => self.count_offsets(groups, group, rows, out),
        };
        decoded.map_err(|e| e.map_fault(|fault| self.place(fault, groups, group)))
    }

    fn count_offsets(
        &self,
        groups: &RowGroups,
        group: usize,
        rows: &Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let (start, end) = groups.get(group);
        let bands = self.bands(groups, group)?;
        let region = self.region(groups.blocks(group), EntryField::Columns);
        let band = (rows.start - start.row) / bands.height;
        let top = start.row + band * bands.height;
        let mut sum = start.first + bands.before[band as usize];
        if top < rows.start {
            let above = region.count_rows(&(top..rows.start), rows.start - top)?;
            sum += above.iter().sum::<u64>();
        }
        let counts = region.count_rows(rows, 1)?;
        for (out, count) in out.chunks_exact_mut(8).zip(counts) {
            out.copy_from_slice(&sum.to_le_bytes());
            sum += count;
        }
        // The counts of the heads are what the arrays are made by.
        let last = end.row == rows.end;
        if last {
            check_number(end.first, sum as usize)
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

fn check_number(expected: u64, found: usize) -> Result<()> {
    if expected == found as u64 {
        return Ok(());
    }
    let fault = Fault::new("the rows hold another number of entries");
    Err(fault.expected(expected).found(found).into())
}
