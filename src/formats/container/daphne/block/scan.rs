//! The entries of any block in a rectangle of its cells, in the order in which they are stored, or
//! by place.
//!
//! Given in batches of packed columns and values, whatever the block type; the cells of a dense
//! block that are not zero count as entries. Indices are checked here, places that come twice are
//! not: see [`super::sorted`] and the tiles of `dense`. Ranges count within the block.

use std::ops::Range;

use super::super::value::ValueType;
use super::coo::CooRuns;
use super::sparse::{SparseRows, column};
use super::table::{BlockBody, CellBlock};
use super::{BlockFile, in_block};
use crate::error::{Fault, Result};
use crate::memory::{Arena, room};
use crate::source::ForwardWindow;

/// Entries of a batch.
const BATCH: usize = 4096;
/// A batch with less room than this is handed on.
const SPARE: usize = BATCH / 8;
/// Stored bytes that are read at once.
pub(crate) const WINDOW: u64 = 128 << 10;

/// Most bytes of the values of a batch.
pub(crate) const BATCH_VALUES: u64 = 8 * BATCH as u64;

/// Scratch memory of a scan: a batch, and a window.
pub(crate) const SCAN_MEMORY: u64 = 2 * room(4 * BATCH as u64) + room(BATCH_VALUES) + room(WINDOW);

/// Entries of one block: places within it, and values as they are stored.
pub(crate) struct EntryBatch<'b> {
    rows: &'b mut [u32],
    cols: &'b mut [u32],
    values: &'b mut [u8],
    /// Bytes of a value.
    size: usize,
    len: usize,
}

impl<'b> EntryBatch<'b> {
    /// Takes what [`SCAN_MEMORY`] has beside the window.
    pub(super) fn new(size: usize, scratch: &mut Arena<'b>) -> Result<EntryBatch<'b>> {
        Ok(EntryBatch {
            rows: scratch.take_u32s(BATCH as u64)?,
            cols: scratch.take_u32s(BATCH as u64)?,
            values: scratch.take(BATCH_VALUES)?,
            size,
            len: 0,
        })
    }

    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows[..self.len]
    }

    pub(crate) fn cols(&self) -> &[u32] {
        &self.cols[..self.len]
    }

    /// Packed.
    pub(crate) fn values(&self) -> &[u8] {
        &self.values[..self.len * self.size]
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Entries that it has room for.
    pub(super) fn spare(&self) -> usize {
        BATCH - self.len
    }

    /// Adds an entry, whose value has `S` bytes; there is room.
    #[inline(always)]
    pub(super) fn push<const S: usize>(&mut self, row: u32, col: u32, value: &[u8]) {
        let at = self.len;
        self.rows[at] = row;
        self.cols[at] = col;
        self.values[at * S..at * S + S].copy_from_slice(value);
        self.len = at + 1;
    }

    /// Adds an entry whose value has these bits; there is room.
    #[inline(always)]
    pub(super) fn push_bits(&mut self, row: u32, col: u32, bits: u64) {
        let value = bits.to_le_bytes();
        match self.size {
            1 => self.push::<1>(row, col, &value[..1]),
            2 => self.push::<2>(row, col, &value[..2]),
            4 => self.push::<4>(row, col, &value[..4]),
            _ => self.push::<8>(row, col, &value),
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

pub(crate) type VisitBatch<'a> = dyn FnMut(&EntryBatch<'_>) -> Result<()> + 'a;

/// The part of a block that is looked through.
struct BlockScan<'a, 'b> {
    stored: &'a BlockFile,
    block: &'a CellBlock,
    rows: Range<u32>,
    cols: Range<u32>,
    batch: EntryBatch<'b>,
}

impl BlockFile {
    /// Visits the entries of a block in a rectangle. Takes [`SCAN_MEMORY`].
    pub(crate) fn scan(
        &self,
        block: &CellBlock,
        rows: &Range<u64>,
        cols: &Range<u64>,
        mut scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let narrow = |range: &Range<u64>, most: u32| {
            let most = u64::from(most);
            range.start.min(most) as u32..range.end.min(most) as u32
        };
        let (rows, cols) = (narrow(rows, block.height), narrow(cols, block.width));
        match self.scan_sorted(block, &rows, &cols, scratch.lend(), visit)? {
            true => Ok(()),
            false => self.look_through(block, &rows, &cols, scratch, visit),
        }
    }

    /// Visits the entries of a block in a rectangle in the order in which they are stored, by
    /// looking through the block. Takes [`SCAN_MEMORY`].
    pub(super) fn look_through(
        &self,
        block: &CellBlock,
        rows: &Range<u32>,
        cols: &Range<u32>,
        mut scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let size = block.value().map_or(0, ValueType::size);
        let mut scan = BlockScan {
            stored: self,
            block,
            rows: rows.clone(),
            cols: cols.clone(),
            batch: EntryBatch::new(size, &mut scratch)?,
        };
        let done = match size {
            1 => scan.run::<1>(scratch, visit),
            2 => scan.run::<2>(scratch, visit),
            4 => scan.run::<4>(scratch, visit),
            8 => scan.run::<8>(scratch, visit),
            _ => Ok(()),
        };
        done.map_err(|e| e.map_fault(|fault| in_block(fault, block)))
    }

    /// About the entries that are looked through for those in some rows. Takes a [`WINDOW`].
    pub(super) fn passed(
        &self,
        block: &CellBlock,
        rows: &Range<u32>,
        scratch: Arena<'_>,
    ) -> Result<u64> {
        match block.body {
            BlockBody::Sparse(_) => {
                let stored = self.row_marks(block, scratch)?.stored(rows, block.end);
                Ok((stored.end - stored.start) / block.entry())
            }
            BlockBody::Coo(_) => {
                let runs = self.coo_runs(block, scratch)?;
                let runs = runs.list.iter().filter(|span| meets(span, rows)).count();
                Ok((runs as u64 * CooRuns::entries(block)).min(block.entries()))
            }
            _ => Ok(0),
        }
    }
}

impl BlockScan<'_, '_> {
    fn run<const S: usize>(
        &mut self,
        scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        match self.block.body {
            BlockBody::Empty => return Ok(()),
            BlockBody::Dense(value) => self.dense::<S>(value.nonzero_bits(), scratch, visit)?,
            BlockBody::Sparse(_) => self.sparse::<S>(scratch, visit)?,
            BlockBody::Coo(_) => self.coo::<S>(scratch, visit)?,
        }
        self.flush(visit)
    }

    fn flush(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        if self.batch.len() > 0 {
            visit(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn flush_full(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        match self.batch.spare() < SPARE {
            true => self.flush(visit),
            false => Ok(()),
        }
    }

    fn sparse<const S: usize>(
        &mut self,
        mut scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let rows = SparseRows::of(self.block);
        let marks = self.stored.row_marks(self.block, scratch.lend())?;
        let mark = marks.by_row(self.rows.start.into());
        let mut walk = rows.walk(&*self.stored.source, mark, scratch.take(WINDOW)?);
        while walk.rest() > 0 {
            let row = walk.next()?;
            if row.number >= u64::from(self.rows.end) {
                return Ok(());
            }
            if row.number < u64::from(self.rows.start) || row.entries == 0 {
                continue;
            }
            walk.entries(&row, 0..row.entries, &mut |bytes| {
                self.sparse_run::<S>(row.number as u32, bytes, visit)
            })?;
        }
        Ok(())
    }

    /// Consecutive entries of one row.
    fn sparse_run<const S: usize>(
        &mut self,
        row: u32,
        bytes: &[u8],
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let (cols, mut rest) = (self.cols.clone(), bytes);
        while !rest.is_empty() {
            let len = (self.batch.spare() * (4 + S)).min(rest.len());
            let (part, after) = rest.split_at(len);
            let mut most = 0;
            for entry in part.chunks_exact(4 + S) {
                let col = column(entry);
                most = most.max(col);
                if cols.contains(&col) {
                    self.batch.push::<S>(row, col, &entry[4..]);
                }
            }
            self.check_column(most, row)?;
            self.flush_full(visit)?;
            rest = after;
        }
        Ok(())
    }

    fn check_column(&self, most: u32, row: u32) -> Result<()> {
        if most < self.block.width {
            return Ok(());
        }
        Err(Fault::new("an entry's column lies outside the block")
            .expected(format_args!("less than {}", self.block.width))
            .found(format_args!("{most} in row {row}"))
            .into())
    }

    fn coo<const S: usize>(
        &mut self,
        mut scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let (run, all) = (CooRuns::entries(self.block), self.block.entries());
        let entry = self.block.entry();
        let runs = self.stored.coo_runs(self.block, scratch.lend())?;
        let buf = scratch.take(WINDOW)?;
        let mut window = ForwardWindow::eager(&*self.stored.source, self.block.end, buf);
        for (number, span) in (0..).zip(&runs.list) {
            if !meets(span, &self.rows) {
                continue;
            }
            let first = number * run;
            let len = (run.min(all - first) * entry) as usize;
            let bytes = window.bytes(self.block.payload() + first * entry, len)?;
            match self.block.width {
                1 => self.coo_run::<S, 4>(&bytes[..len], visit)?,
                _ => self.coo_run::<S, 8>(&bytes[..len], visit)?,
            }
        }
        Ok(())
    }

    /// Entries whose indices take `I` bytes.
    fn coo_run<const S: usize, const I: usize>(
        &mut self,
        bytes: &[u8],
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = (self.batch.spare() * (I + S)).min(rest.len());
            let (part, after) = rest.split_at(len);
            for entry in part.chunks_exact(I + S) {
                let row = column(entry);
                let col = if I == 8 { column(&entry[4..]) } else { 0 };
                if col >= self.block.width || row >= self.block.height {
                    return self.check_column(col, row);
                }
                if self.rows.contains(&row) && self.cols.contains(&col) {
                    self.batch.push::<S>(row, col, &entry[I..]);
                }
            }
            self.flush_full(visit)?;
            rest = after;
        }
        Ok(())
    }

    fn dense<const S: usize>(
        &mut self,
        mask: u64,
        mut scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let stride = u64::from(self.block.width) * S as u64;
        let buf = scratch.take(WINDOW)?;
        let mut window = ForwardWindow::eager(&*self.stored.source, self.block.end, buf);
        for row in self.rows.clone() {
            let start = self.block.payload() + u64::from(row) * stride;
            let mut col = self.cols.start;
            while col < self.cols.end {
                let bytes = window.bytes(start + u64::from(col) * S as u64, S)?;
                let len = (bytes.len() / S).min((self.cols.end - col) as usize);
                let len = len.min(self.batch.spare());
                for (cell, col) in bytes[..len * S].chunks_exact(S).zip(col..) {
                    if load(cell) & mask != 0 {
                        self.batch.push::<S>(row, col, cell);
                    }
                }
                col += len as u32;
                self.flush_full(visit)?;
            }
        }
        Ok(())
    }
}

/// Whether a run of COO entries may have some in these rows.
fn meets(&(least, most): &(u32, u32), rows: &Range<u32>) -> bool {
    least < rows.end && rows.start <= most
}

/// The bits of a value.
#[inline(always)]
pub(crate) fn load(value: &[u8]) -> u64 {
    let mut own = [0; 8];
    own[..value.len()].copy_from_slice(value);
    u64::from_le_bytes(own)
}
