//! COO blocks: entries with indices of their own, in any order.
//!
//! One pass over a block checks its rows and notes which each run of entries has, so that runs
//! without the rows that are wanted are passed over. Used by [`super::scan`].

use super::index_cache::{BlockIndexCache, ChargedList};
use super::sparse::column;
use super::table::CellBlock;
use crate::error::Result;
use crate::memory::Arena;
use crate::source::{ForwardWindow, Source};

/// Stored bytes of a run.
const RUN: u64 = 64 << 10;

/// The least and the greatest row of each run of COO entries: 8 bytes for 64 KiB.
pub(super) type CooRuns = ChargedList<(u32, u32)>;

impl CooRuns {
    /// Entries of a run.
    pub(super) fn entries(block: &CellBlock) -> u64 {
        RUN / block.entry()
    }

    /// Passes over a block, of which it takes a run of memory.
    pub(super) fn find(
        source: &dyn Source,
        block: &CellBlock,
        index_cache: &BlockIndexCache,
        mut scratch: Arena<'_>,
    ) -> Result<CooRuns> {
        let entry = block.entry() as usize;
        let (run, all) = (CooRuns::entries(block), block.entries());
        let mut window = ForwardWindow::eager(source, block.end, scratch.take(RUN)?);
        let mut runs: CooRuns = index_cache.list(all.div_ceil(run))?;
        for first in (0..all).step_by(run as usize) {
            let len = run.min(all - first) as usize * entry;
            let bytes = window.bytes(block.payload() + first * block.entry(), len)?;
            let rows = bytes[..len].chunks_exact(entry).map(column);
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
            runs.list.push(span);
        }
        Ok(runs)
    }
}
