//! The blocks of a file and what has been learnt about their insides.
//!
//! Large sparse and COO blocks are passed over once and remembered by a few numbers for every 64 KiB;
//! smaller ones are cheaper to look through again. Shared by all arrays of a container.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::rows::{Layout, Marks};
use super::sorted::Sorted;
use super::strided;
use super::table::{Block, Body, Table};
use super::window::Window;
use crate::error::{Fault, Result};
use crate::source::Source;

/// Stored bytes up to which a block is looked through each time.
const SMALL: u64 = 64 << 10;

pub(super) struct Stored {
    pub(super) source: Arc<dyn Source>,
    pub(super) table: Table,
    pub(super) sorted: Sorted,
    known: Mutex<HashMap<u32, Known>>,
}

#[derive(Clone)]
enum Known {
    Marks(Arc<Marks>),
    Spans(Arc<Spans>),
}

/// The least and the greatest row of each run of COO entries.
pub(super) struct Spans {
    pub(super) spans: Vec<(u32, u32)>,
}

impl Spans {
    /// Entries of a run.
    pub(super) fn run(block: &Block) -> u64 {
        SMALL / block.entry()
    }
}

impl Stored {
    pub(super) fn new(source: Arc<dyn Source>, table: Table) -> Self {
        Stored {
            source,
            table,
            sorted: Sorted::new(),
            known: Mutex::default(),
        }
    }

    /// Checks the counts of a sparse block; a fault carries the block.
    pub(super) fn marks(&self, block: &Block) -> Result<Arc<Marks>> {
        if let Some(Known::Marks(marks)) = self.recall(block) {
            return Ok(marks);
        }
        let marks = Layout::of(block).mark(&*self.source);
        let marks = Arc::new(marks.map_err(|e| e.map_fault(|f| in_block(f, block)))?);
        self.remember(block, || Known::Marks(Arc::clone(&marks)));
        Ok(marks)
    }

    /// Checks the rows of a COO block.
    pub(super) fn spans(&self, block: &Block) -> Result<Arc<Spans>> {
        if let Some(Known::Spans(spans)) = self.recall(block) {
            return Ok(spans);
        }
        let spans = Arc::new(self.find_spans(block)?);
        self.remember(block, || Known::Spans(Arc::clone(&spans)));
        Ok(spans)
    }

    fn find_spans(&self, block: &Block) -> Result<Spans> {
        let entry = block.entry() as usize;
        let (run, all) = (Spans::run(block), block.entries());
        let mut window = Window::eager(&*self.source, block.end, SMALL as usize);
        let mut spans = Vec::new();
        for first in (0..all).step_by(run as usize) {
            let len = run.min(all - first) as usize * entry;
            let bytes = window.bytes(block.payload() + first * block.entry(), len)?;
            let rows = bytes[..len].chunks_exact(entry).map(super::rows::column);
            let span = rows.fold((u32::MAX, 0), |(least, most), row| {
                (least.min(row), most.max(row))
            });
            if span.1 >= block.height {
                let fault = block.fault("an entry's row lies outside the block");
                let most = block.height.saturating_sub(1);
                return Err(fault
                    .expected(format_args!("at most {most}"))
                    .found(span.1)
                    .into());
            }
            spans.push(span);
        }
        Ok(Spans { spans })
    }

    fn recall(&self, block: &Block) -> Option<Known> {
        if block.stored() <= SMALL {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&block.number).cloned()
    }

    fn remember(&self, block: &Block, known: impl FnOnce() -> Known) {
        if block.stored() > SMALL {
            let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(block.number, known());
        }
    }

    /// Cells of a dense block, packed row by row; the ranges count within the block.
    pub(super) fn dense(
        &self,
        block: &Block,
        rows: &Range<u64>,
        cols: &Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        let Body::Dense(value) = block.body else {
            return Err(block.fault("not a dense block").into());
        };
        let stride = u64::from(block.width) * value.size() as u64;
        let first = block.payload() + rows.start * stride + cols.start * value.size() as u64;
        let len = (cols.end - cols.start) as usize * value.size();
        strided::gather(&*self.source, first, stride, len, out)
    }
}

/// Adds a block's place to a fault within it.
pub(super) fn in_block(fault: Fault, block: &Block) -> Fault {
    let fault = fault.block(block.number.into());
    fault.bytes(block.at..block.end)
}
