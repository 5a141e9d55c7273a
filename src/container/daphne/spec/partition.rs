//! Whether the blocks partition the object: no cell in two blocks, none in no block.
//!
//! Areas alone miss an overlap beside a gap of one size, so a sweep over the rows also checks that no two
//! blocks meet: time O(n log n), whatever the tiling. Used when a file is opened.

use std::collections::BTreeMap;

use super::super::block::table::{BlockTable, CellBlock};
use super::super::header::FileHead;
use crate::error::{Fault, Result};

pub(in super::super) fn check(table: &BlockTable, header: &FileHead) -> Result<()> {
    if !header.has_cells() {
        return Ok(());
    }
    let covered: u128 = table.iter().map(|block| u128::from(block.area())).sum();
    let cells = u128::from(header.rows) * u128::from(header.cols);
    if covered < cells {
        let fault = Fault::new("part of the object is in no block");
        return Err(fault.expected(cells).found(covered).into());
    }
    sweep(table)?;
    if covered > cells {
        let fault = Fault::new("the blocks overlap");
        return Err(fault.expected(cells).found(covered).into());
    }
    Ok(())
}

/// Blocks come and go as the sweep moves down the rows.
fn sweep(table: &BlockTable) -> Result<()> {
    let mut starts: Vec<u32> = (0..table.len() as u32).collect();
    let mut ends = starts.clone();
    starts.sort_unstable_by_key(|&n| table.get(n).row);
    ends.sort_unstable_by_key(|&n| table.get(n).rows().end);
    let mut ends = ends.into_iter().map(|n| table.get(n)).peekable();
    let mut live: BTreeMap<u64, u32> = BTreeMap::new();
    for number in starts {
        let block = table.get(number);
        while let Some(gone) = ends.next_if(|ended| ended.rows().end <= block.row) {
            live.remove(&gone.col);
        }
        if let Some(other) = meets(table, &live, &block) {
            return Err(block
                .fault("two blocks hold the same cells")
                .found(format_args!("block {other} overlaps it"))
                .into());
        }
        live.insert(block.col, number);
    }
    Ok(())
}

/// A live block that shares columns with this one; those that live share none.
fn meets(table: &BlockTable, live: &BTreeMap<u64, u32>, block: &CellBlock) -> Option<u32> {
    let (_, &last) = live.range(..block.cols().end).next_back()?;
    (table.get(last).cols().end > block.col).then_some(last)
}
