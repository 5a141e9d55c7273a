//! A CSRMatrix cut at the rows that no block crosses: where the entries of each group of rows begin.
//!
//! Counts of sparse and COO blocks stand in their heads, so for bands of such blocks every position is known
//! without looking at a row; only dense blocks must be counted. Used by `csr`.

use super::super::block::BlockFile;
use super::super::block::sorted::SortedEntries;
use super::super::block::table::{BlockBody, CellBlock};
use crate::error::Result;

/// Rows with blocks of their own.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RowGroup {
    /// First row.
    pub(in super::super) row: u64,
    /// Entries before it.
    pub(in super::super) first: u64,
    /// Its first block in the order.
    block: u32,
    /// Whether every row is known to be empty.
    pub(in super::super) nothing: bool,
}

pub(in super::super) struct RowGroups {
    /// In the order of rows; the last one is only the end.
    pub(in super::super) list: Vec<RowGroup>,
    order: Vec<u32>,
}

impl RowGroups {
    /// `rows` is the number of rows of the matrix; without cells it has no entries.
    pub(in super::super) fn new(stored: &BlockFile, rows: u64, cols: u64) -> Result<RowGroups> {
        if rows == 0 || cols == 0 {
            return Ok(RowGroups::one(rows, 0, true));
        }
        let table = &stored.table;
        let mut order: Vec<u32> = (0..table.len() as u32).collect();
        order.sort_unstable_by_key(|&number| table.get(number).row);
        let mut list: Vec<RowGroup> = Vec::new();
        let (mut end, mut entries) = (0, 0);
        for (at, block) in (0..).zip(order.iter().map(|&number| table.get(number))) {
            if block.row >= end {
                list.push(RowGroup {
                    row: block.row,
                    first: entries,
                    block: at,
                    nothing: true,
                });
            }
            end = end.max(block.rows().end);
            let own = count(stored, &block)?;
            entries += own;
            let unseen = matches!(block.body, BlockBody::Sparse(_));
            if let Some(group) = list.last_mut() {
                group.nothing &= own == 0 && !unseen;
            }
        }
        list.push(RowGroup {
            row: rows,
            first: entries,
            block: order.len() as u32,
            nothing: true,
        });
        Ok(RowGroups { list, order })
    }

    /// A single group of no blocks.
    pub(in super::super) fn one(rows: u64, entries: u64, nothing: bool) -> RowGroups {
        let at = |row, first| RowGroup {
            row,
            first,
            block: 0,
            nothing,
        };
        let list = match rows {
            0 => vec![at(0, 0)],
            _ => vec![at(0, 0), at(rows, entries)],
        };
        RowGroups {
            list,
            order: Vec::new(),
        }
    }

    pub(in super::super) fn len(&self) -> usize {
        self.list.len() - 1
    }

    pub(in super::super) fn entries(&self) -> u64 {
        self.list.last().map_or(0, |end| end.first)
    }

    /// The group and the one after it.
    pub(in super::super) fn get(&self, number: usize) -> (RowGroup, RowGroup) {
        (self.list[number], self.list[number + 1])
    }

    /// The group of a row; the end for what follows the last row.
    pub(in super::super) fn by_row(&self, row: u64) -> usize {
        self.list.partition_point(|group| group.row <= row) - 1
    }

    /// The group of an entry; the end for what follows the last entry.
    pub(in super::super) fn by_entry(&self, entry: u64) -> usize {
        self.list.partition_point(|group| group.first <= entry) - 1
    }

    pub(in super::super) fn blocks(&self, number: usize) -> &[u32] {
        let (group, next) = self.get(number);
        &self.order[group.block as usize..next.block as usize]
    }
}

/// Entries of a block as its head gives them; only a dense block is looked through.
fn count(stored: &BlockFile, block: &CellBlock) -> Result<u64> {
    match block.body {
        BlockBody::Empty => Ok(0),
        BlockBody::Sparse(_) | BlockBody::Coo(_) => Ok(block.entries()),
        BlockBody::Dense(_) => {
            let region = SortedEntries {
                stored,
                blocks: &[block.number],
                to: None,
                most: 0,
            };
            let counts = region.count_rows(&block.rows(), u64::from(block.height).max(1))?;
            Ok(counts.iter().sum())
        }
    }
}
