//! Whether the blocks partition the object: no cell in two blocks, none in no block.
//!
//! Areas alone miss an overlap beside a gap of one size, so a sweep over the rows also checks that
//! no two blocks meet: time O(n log n), whatever the tiling. Used when a file is opened.

use std::collections::BTreeMap;

use super::super::block::index_cache::{BlockIndexCache, ChargedList};
use super::super::block::table::{BlockTable, CellBlock};
use super::super::header::FileHead;
use crate::error::{Fault, Result};
use crate::memory::set_aside;

/// What a block takes in the sweep.
const LIVE: u64 = 40;

pub(crate) fn check(
    table: &BlockTable,
    header: &FileHead,
    index_cache: &BlockIndexCache,
) -> Result<()> {
    if !header.has_cells() {
        return Ok(());
    }
    let covered: u128 = table.iter().map(|block| u128::from(block.area())).sum();
    let cells = u128::from(header.rows) * u128::from(header.cols);
    if covered < cells {
        let fault = Fault::new("part of the object is in no block");
        return Err(fault.expected(cells).found(covered).into());
    }
    let room = LIVE.saturating_mul(table.len() as u64);
    let _charge = index_cache.charge(room)?;
    set_aside(room, "cannot check how an object is cut", || {
        sweep(table, index_cache)
    })??;
    if covered > cells {
        let fault = Fault::new("the blocks overlap");
        return Err(fault.expected(cells).found(covered).into());
    }
    Ok(())
}

/// Blocks come and go as the sweep moves down the rows.
fn sweep(table: &BlockTable, index_cache: &BlockIndexCache) -> Result<()> {
    let starts = sorted(table, index_cache, |block| block.row)?;
    let ends = sorted(table, index_cache, |block| block.rows().end)?;
    let mut ends = ends.list.iter().map(|&n| table.get(n)).peekable();
    // Those that live share no columns: by the first of these.
    let mut live = BTreeMap::new();
    for block in starts.list.iter().map(|&n| table.get(n)) {
        while let Some(gone) = ends.next_if(|ended| ended.rows().end <= block.row) {
            live.remove(&gone.col);
        }
        let before = live.range(..block.cols().end).next_back();
        let other = before.map(|(_, number)| table.get(*number));
        if let Some(other) = other.filter(|other| other.cols().end > block.col) {
            return Err(block
                .fault("two blocks hold the same cells")
                .found(format_args!("block {} overlaps it", other.number))
                .into());
        }
        live.insert(block.col, block.number);
    }
    Ok(())
}

/// The numbers of the blocks in the order of a key.
fn sorted(
    table: &BlockTable,
    index_cache: &BlockIndexCache,
    key: impl Fn(&CellBlock) -> u64,
) -> Result<ChargedList<u32>> {
    let mut numbers = index_cache.list(table.len() as u64)?;
    numbers.list.extend(0..table.len() as u32);
    numbers
        .list
        .sort_unstable_by_key(|&number| key(&table.get(number)));
    Ok(numbers)
}
