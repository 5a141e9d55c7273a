//! The blocks of a file and what has been learnt about their insides.
//!
//! Large sparse and COO blocks are passed over once and remembered by a few numbers for every 64 KiB;
//! smaller ones are cheaper to look through again. Shared by all arrays of a container.

mod by_place;
mod coo;
pub(super) mod scan;
pub(super) mod sorted;
pub(super) mod sparse;
pub(super) mod table;
pub(super) mod tree;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::strided;
use super::value::ValueType;
use crate::error::{Fault, Result};
use crate::source::Source;
use by_place::ByPlace;
use coo::CooRuns;
use sparse::{RowMarks, SparseRows};
use table::{BlockBody, BlockTable, CellBlock};

/// Stored bytes up to which a block is looked through each time.
const SMALL: u64 = 64 << 10;

pub(super) struct BlockFile {
    pub(super) source: Arc<dyn Source>,
    pub(super) table: BlockTable,
    pub(super) sorted: ByPlace,
    known: Mutex<HashMap<u32, Learnt>>,
}

#[derive(Clone)]
enum Learnt {
    RowMarks(Arc<RowMarks>),
    CooRuns(Arc<CooRuns>),
}

impl BlockFile {
    pub(super) fn new(source: Arc<dyn Source>, table: BlockTable) -> Self {
        BlockFile {
            source,
            table,
            sorted: ByPlace::new(),
            known: Mutex::default(),
        }
    }

    /// Checks the counts of a sparse block; a fault carries the block.
    pub(super) fn marks(&self, block: &CellBlock) -> Result<Arc<RowMarks>> {
        if let Some(Learnt::RowMarks(marks)) = self.recall(block) {
            return Ok(marks);
        }
        let marks = SparseRows::of(block).mark(&*self.source);
        let marks = Arc::new(marks.map_err(|e| e.map_fault(|f| in_block(f, block)))?);
        self.remember(block, || Learnt::RowMarks(Arc::clone(&marks)));
        Ok(marks)
    }

    /// Checks the rows of a COO block.
    fn spans(&self, block: &CellBlock) -> Result<Arc<CooRuns>> {
        if let Some(Learnt::CooRuns(spans)) = self.recall(block) {
            return Ok(spans);
        }
        let spans = Arc::new(CooRuns::find(&*self.source, block)?);
        self.remember(block, || Learnt::CooRuns(Arc::clone(&spans)));
        Ok(spans)
    }

    fn recall(&self, block: &CellBlock) -> Option<Learnt> {
        if block.stored() <= SMALL {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&block.number).cloned()
    }

    fn remember(&self, block: &CellBlock, known: impl FnOnce() -> Learnt) {
        if block.stored() > SMALL {
            let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(block.number, known());
        }
    }

    /// Cells of a dense block, packed row by row; the ranges count within the block.
    pub(super) fn dense(
        &self,
        block: &CellBlock,
        rows: &Range<u64>,
        cols: &Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let BlockBody::Dense(value) = block.body else {
            return Err(block.fault("not a dense block").into());
        };
        let stride = u64::from(block.width) * value.size() as u64;
        let first = block.payload() + rows.start * stride + cols.start * value.size() as u64;
        let len = (cols.end - cols.start) as usize * value.size();
        strided::gather(&*self.source, first, stride, len, out)
    }
}

/// Adds a block's place to a fault within it.
pub(super) fn in_block(fault: Fault, block: &CellBlock) -> Fault {
    let fault = fault.block(block.number.into());
    fault.bytes(block.at..block.end)
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
