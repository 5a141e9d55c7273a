//! A CSRMatrix cut at the rows that no block crosses: where the entries of each group of rows
//! begin.
//!
//! Counts of sparse and COO blocks stand in their heads, so for bands of such blocks every position
//! is known without looking at a row; only dense blocks must be counted. Used by `csr`.

use super::super::block::BlockFile;
use super::super::block::index_cache::{BlockIndexCache, ChargedList};
use super::super::block::scan::SCAN_MEMORY;
use super::super::block::sorted::SortedEntries;
use super::super::block::table::{BlockBody, CellBlock};
use crate::error::Result;
use crate::memory::scratch::Region;

/// Rows with blocks of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowGroup {
    /// First row.
    pub(crate) row: u64,
    /// Entries before it.
    pub(crate) first: u64,
    /// Its first block in the order.
    block: u32,
    /// Whether every row is known to be empty.
    pub(crate) nothing: bool,
}

pub(crate) struct RowGroups {
    /// In the order of rows; the last one is only the end.
    pub(crate) list: ChargedList<RowGroup>,
    order: ChargedList<u32>,
}

impl RowGroups {
    /// `rows` is the number of rows of the matrix; without cells it has no entries.
    pub(crate) fn new(stored: &BlockFile, rows: u64, cols: u64) -> Result<RowGroups> {
        let index_cache = &*stored.index_cache;
        if rows == 0 || cols == 0 {
            return RowGroups::one(index_cache, rows, 0, true);
        }
        let table = &stored.table;
        let mut order = index_cache.list(table.len() as u64)?;
        order.list.extend(0..table.len() as u32);
        order
            .list
            .sort_unstable_by_key(|&number| table.get(number).row);
        let mut groups = index_cache.list::<RowGroup>(0)?;
        let (mut end, mut entries) = (0, 0);
        let mut region = Region::default();
        for (at, block) in (0..).zip(order.list.iter().map(|&number| table.get(number))) {
            if block.row >= end {
                index_cache.grow(&mut groups, 2)?;
                groups.list.push(RowGroup {
                    row: block.row,
                    first: entries,
                    block: at,
                    nothing: true,
                });
            }
            end = end.max(block.rows().end);
            let own = count(stored, &block, &mut region)?;
            entries += own;
            let unseen = matches!(block.body, BlockBody::Sparse(_));
            if let Some(group) = groups.list.last_mut() {
                group.nothing &= own == 0 && !unseen;
            }
        }
        index_cache.grow(&mut groups, 1)?;
        groups.list.push(RowGroup {
            row: rows,
            first: entries,
            block: order.list.len() as u32,
            nothing: true,
        });
        Ok(RowGroups {
            list: groups,
            order,
        })
    }

    /// A single group of no blocks.
    pub(crate) fn one(
        index_cache: &BlockIndexCache,
        rows: u64,
        entries: u64,
        nothing: bool,
    ) -> Result<RowGroups> {
        let at = |row, first| RowGroup {
            row,
            first,
            block: 0,
            nothing,
        };
        let mut list = index_cache.list(2)?;
        list.list.push(at(0, 0));
        if rows > 0 {
            list.list.push(at(rows, entries));
        }
        Ok(RowGroups {
            list,
            order: index_cache.list(0)?,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.list.list.len() - 1
    }

    pub(crate) fn entries(&self) -> u64 {
        self.list.list.last().map_or(0, |end| end.first)
    }

    /// The group and the one after it.
    pub(crate) fn get(&self, number: usize) -> (RowGroup, RowGroup) {
        (self.list.list[number], self.list.list[number + 1])
    }

    /// The group of a row; the end for what follows the last row.
    pub(crate) fn by_row(&self, row: u64) -> usize {
        self.list.list.partition_point(|group| group.row <= row) - 1
    }

    /// The group of an entry; the end for what follows the last entry.
    pub(crate) fn by_entry(&self, entry: u64) -> usize {
        let groups = &self.list.list;
        groups.partition_point(|group| group.first <= entry) - 1
    }

    pub(crate) fn blocks(&self, number: usize) -> &[u32] {
        let (group, next) = self.get(number);
        &self.order.list[group.block as usize..next.block as usize]
    }
}

/// Entries of a block as its head gives them; only a dense block is looked through.
fn count(stored: &BlockFile, block: &CellBlock, region: &mut Region) -> Result<u64> {
    match block.body {
        BlockBody::Empty => Ok(0),
        BlockBody::Sparse(_) | BlockBody::Coo(_) => Ok(block.entries()),
        BlockBody::Dense(_) => {
            let sorted = SortedEntries {
                stored,
                blocks: &[block.number],
                to: None,
                most: 0,
            };
            let mut number = [0];
            let (rows, step) = (block.rows(), u64::from(block.height).max(1));
            let scratch = region.scratch(SCAN_MEMORY)?;
            sorted.count_rows(&rows, step, &mut number, scratch)?;
            Ok(number[0])
        }
    }
}
