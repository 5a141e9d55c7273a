//! The blocks of a file: where they lie, what is inside of them, and what has been learnt about
//! that.
//!
//! [`table`] knows where each lies, [`tree`] which hold a rectangle of cells. What is inside is
//! read by the type of the block: [`BlockFile::dense`], [`sparse`], [`coo`]; [`scan`] gives the
//! entries of any of them, [`by_place`] those of a large one by their places, [`sorted`] those of
//! several in the order of the object, both part by part ([`bands`]). Large sparse and COO blocks
//! are passed over once and remembered by a few numbers for every 64 KiB ([`index_cache`]); smaller
//! ones are cheaper to look through again. Shared by all arrays of a container.

pub(super) mod bands;
mod by_place;
mod coo;
pub(super) mod index_cache;
pub(super) mod scan;
pub(super) mod sorted;
pub(super) mod sparse;
pub(super) mod table;
pub(super) mod tree;

use std::ops::Range;
use std::sync::Arc;

use super::strided;
use super::value::ValueType;
use crate::error::{Error, Fault, Result};
use crate::memory::Arena;
use crate::source::Source;
use coo::CooRuns;
use index_cache::{BlockIndexCache, IndexedPart};
use sparse::{RowMarks, SparseRows};
use table::{BlockBody, BlockTable, CellBlock};

/// Stored bytes up to which a block is looked through each time.
const SMALL: u64 = 64 << 10;

pub(super) struct BlockFile {
    pub(super) source: Arc<dyn Source>,
    pub(super) table: BlockTable,
    pub(super) index_cache: Arc<BlockIndexCache>,
}

impl BlockFile {
    /// Where the rows of a sparse block lie, whose counts are checked; a fault carries the block.
    /// Takes [`sparse::MARKING_MEMORY`].
    pub(super) fn row_marks(&self, block: &CellBlock, scratch: Arena<'_>) -> Result<Arc<RowMarks>> {
        let about = IndexedPart::Rows(block.number);
        if let Some(marks) = self.index_cache.recall(about) {
            return Ok(marks);
        }
        let marks = SparseRows::of(block).mark(&*self.source, &self.index_cache, scratch);
        let marks = marks.map_err(|e| e.map_fault(|f| in_block(f, block)))?;
        if block.stored() <= SMALL {
            return Ok(Arc::new(marks));
        }
        let bytes = marks.bytes();
        Ok(self.index_cache.remember(about, marks, bytes))
    }

    /// Which rows the runs of a COO block have, all of which are checked.
    fn coo_runs(&self, block: &CellBlock, scratch: Arena<'_>) -> Result<Arc<CooRuns>> {
        let about = IndexedPart::Runs(block.number);
        if let Some(runs) = self.index_cache.recall(about) {
            return Ok(runs);
        }
        let runs = CooRuns::find(&*self.source, block, &self.index_cache, scratch)?;
        if block.stored() <= SMALL {
            return Ok(Arc::new(runs));
        }
        let bytes = runs.bytes();
        Ok(self.index_cache.remember(about, runs, bytes))
    }

    /// Cells of a dense block, packed row by row; the ranges count within the block. Takes
    /// [`strided::MEMORY`].
    pub(super) fn dense(
        &self,
        block: &CellBlock,
        rows: &Range<u64>,
        cols: &Range<u64>,
        out: &mut [u8],
        scratch: Arena<'_>,
    ) -> Result<()> {
        let BlockBody::Dense(value) = block.body else {
            let number = block.number;
            return Err(Error::Bug(format!("block {number} is read as a dense one")));
        };
        let stride = u64::from(block.width) * value.size() as u64;
        let first = block.payload() + rows.start * stride + cols.start * value.size() as u64;
        let len = (cols.end - cols.start) as usize * value.size();
        strided::gather(&*self.source, (first, stride), len, out, scratch)
    }
}

/// Adds a block's place to a fault within it.
pub(super) fn in_block(fault: Fault, block: &CellBlock) -> Fault {
    let fault = fault.block(block.number.into());
    fault.bytes(block.at..block.end)
}

/// Whether as many entries are there as heads and counts say.
pub(super) fn check_number(expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let fault = Fault::new("the rows hold another number of entries");
    Err(fault.expected(expected).found(found).into())
}

pub(super) fn twice(row: u64, col: u64) -> Fault {
    Fault::new("two entries at one place").found(format_args!("row {row}, column {col}"))
}

/// A value that the array's type cannot hold; the place counts within the block.
pub(super) fn inexact(block: &CellBlock, (row, col): (u64, u64), to: ValueType) -> Fault {
    let what = format!("a value does not fit the type {} exactly", to.name());
    block
        .fault(what)
        .found(format_args!("row {row}, column {col} of the block"))
}
