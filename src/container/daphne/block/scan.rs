//! The entries of any block in a rectangle of its cells, in the order in which they are stored, or by place.
//!
//! Given in batches of packed columns and values, whatever the block type; the cells of a dense block that
//! are not zero count as entries. Indices are checked here, places that come twice are not: see `parts` and
//! `tile`. Ranges count within the block.

use std::ops::Range;

use super::super::value::ValueType;
use super::super::window::Window;
use super::sparse::{SparseRows, column};
use super::table::{BlockBody, CellBlock};
use super::{BlockFile, CooRuns, in_block};
use crate::error::{Fault, Result};

/// Entries of a batch.
const BATCH: usize = 4096;
const WINDOW: usize = 128 << 10;

/// Entries of one block: places within it, and values as they are stored.
#[derive(Default)]
pub(in super::super) struct EntryBatch {
    pub(in super::super) rows: Vec<u32>,
    pub(in super::super) cols: Vec<u32>,
    pub(in super::super) values: Vec<u8>,
}

impl EntryBatch {
    #[inline(always)]
    pub(in super::super) fn push(&mut self, row: u32, col: u32, value: &[u8]) {
        self.rows.push(row);
        self.cols.push(col);
        self.values.extend_from_slice(value);
    }

    pub(in super::super) fn clear(&mut self) {
        self.rows.clear();
        self.cols.clear();
        self.values.clear();
    }
}

pub(in super::super) type VisitBatch<'a> = dyn FnMut(&EntryBatch) -> Result<()> + 'a;

/// The part of a block that is looked through.
struct BlockScan<'a> {
    stored: &'a BlockFile,
    block: &'a CellBlock,
    rows: Range<u32>,
    cols: Range<u32>,
    batch: EntryBatch,
}

impl BlockFile {
    /// Visits the entries of a block in a rectangle.
    pub(in super::super) fn scan(
        &self,
        block: &CellBlock,
        rows: &Range<u64>,
        cols: &Range<u64>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let narrow = |range: &Range<u64>, most: u32| {
            let most = u64::from(most);
            range.start.min(most) as u32..range.end.min(most) as u32
        };
        let (rows, cols) = (narrow(rows, block.height), narrow(cols, block.width));
        match self.scan_sorted(block, &rows, &cols, visit)? {
            true => Ok(()),
            false => self.look_through(block, &rows, &cols, visit),
        }
    }

    /// The same, in the order in which the entries are stored.
    pub(in super::super) fn look_through(
        &self,
        block: &CellBlock,
        rows: &Range<u32>,
        cols: &Range<u32>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let mut scan = BlockScan {
            stored: self,
            block,
            rows: rows.clone(),
            cols: cols.clone(),
            batch: EntryBatch::default(),
        };
        let done = match block.value().map_or(0, ValueType::size) {
            1 => scan.run::<1>(visit),
            2 => scan.run::<2>(visit),
            4 => scan.run::<4>(visit),
            8 => scan.run::<8>(visit),
            _ => Ok(()),
        };
        done.map_err(|e| e.map_fault(|fault| in_block(fault, block)))
    }

    /// About the entries that are looked through for those in some rows.
    pub(in super::super) fn passed(&self, block: &CellBlock, rows: &Range<u32>) -> Result<u64> {
        match block.body {
            BlockBody::Sparse(_) => {
                let stored = self.marks(block)?.stored(rows, block.end);
                Ok((stored.end - stored.start) / block.entry())
            }
            BlockBody::Coo(_) => {
                let spans = self.spans(block)?;
                let runs = spans.spans.iter().filter(|span| meets(span, rows)).count();
                Ok((runs as u64 * CooRuns::run(block)).min(block.entries()))
            }
            _ => Ok(0),
        }
    }
}

impl BlockScan<'_> {
    fn run<const S: usize>(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        match self.block.body {
            BlockBody::Empty => return Ok(()),
            BlockBody::Dense(value) => self.dense::<S>(value.nonzero_bits(), visit)?,
            BlockBody::Sparse(_) => self.sparse::<S>(visit)?,
            BlockBody::Coo(_) => self.coo::<S>(visit)?,
        }
        self.flush(visit)
    }

    fn flush(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        if !self.batch.rows.is_empty() {
            visit(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn sparse<const S: usize>(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        let layout = SparseRows::of(self.block);
        let marks = self.stored.marks(self.block)?;
        let mut walk = layout.walk(&*self.stored.source, marks.by_row(self.rows.start.into()));
        loop {
            let row = match walk.rest() {
                0 => return Ok(()),
                _ => walk.next()?,
            };
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
    }

    /// Consecutive entries of one row.
    fn sparse_run<const S: usize>(
        &mut self,
        row: u32,
        bytes: &[u8],
        visit: &mut VisitBatch<'_>,
    ) -> Result<()> {
        let (cols, batch) = (self.cols.clone(), &mut self.batch);
        let mut most = 0;
        for entry in bytes.chunks_exact(4 + S) {
            let col = column(entry);
            most = most.max(col);
            if cols.contains(&col) {
                batch.push(row, col, &entry[4..]);
            }
        }
        self.check_column(most, row)?;
        self.flush_full(visit)
    }

    fn flush_full(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        match self.batch.rows.len() >= BATCH {
            true => self.flush(visit),
            false => Ok(()),
        }
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

    fn coo<const S: usize>(&mut self, visit: &mut VisitBatch<'_>) -> Result<()> {
        let (run, all) = (CooRuns::run(self.block), self.block.entries());
        let entry = self.block.entry();
        let spans = self.stored.spans(self.block)?;
        let mut window = Window::eager(&*self.stored.source, self.block.end, WINDOW);
        for (number, &(least, most)) in spans.spans.iter().enumerate() {
            if !meets(&(least, most), &self.rows) {
                continue;
            }
            let first = number as u64 * run;
            let len = (run.min(all - first) * entry) as usize;
            let bytes = window.bytes(self.block.payload() + first * entry, len)?;
            match self.block.width {
                1 => self.coo_run::<S, 4>(&bytes[..len])?,
                _ => self.coo_run::<S, 8>(&bytes[..len])?,
            }
            self.flush_full(visit)?;
        }
        Ok(())
    }

    /// Entries whose indices take `I` bytes.
    fn coo_run<const S: usize, const I: usize>(&mut self, bytes: &[u8]) -> Result<()> {
        for entry in bytes.chunks_exact(I + S) {
            let row = column(entry);
            let col = if I == 8 { column(&entry[4..]) } else { 0 };
            if col >= self.block.width || row >= self.block.height {
                return self.check_column(col, row);
            }
            if self.rows.contains(&row) && self.cols.contains(&col) {
                self.batch.push(row, col, &entry[I..]);
            }
        }
        Ok(())
    }

    fn dense<const S: usize>(&mut self, mask: u64, visit: &mut VisitBatch<'_>) -> Result<()> {
        let stride = u64::from(self.block.width) * S as u64;
        let mut window = Window::eager(&*self.stored.source, self.block.end, WINDOW);
        for row in self.rows.clone() {
            let start = self.block.payload() + u64::from(row) * stride;
            let mut col = self.cols.start;
            while col < self.cols.end {
                let bytes = window.bytes(start + u64::from(col) * S as u64, S)?;
                let len = (bytes.len() / S).min((self.cols.end - col) as usize);
                for (cell, col) in bytes[..len * S].chunks_exact(S).zip(col..) {
                    if load(cell) & mask != 0 {
                        self.batch.push(row, col, cell);
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
pub(in super::super) fn load(value: &[u8]) -> u64 {
    let mut own = [0; 8];
    own[..value.len()].copy_from_slice(value);
    u64::from_le_bytes(own)
}
