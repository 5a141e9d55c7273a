//! A CSRMatrix cut at the rows that no block crosses: where the entries of each group of rows begin.
//!
//! Counts of sparse and COO blocks stand in their heads, so for bands of such blocks every position is known
//! without looking at a row; only dense blocks must be counted. Used by `csr`.

use super::region::Region;
use super::stored::Stored;
use super::table::{Block, Body};
use crate::error::Result;

/// Rows with blocks of their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// First row.
    pub(super) row: u64,
    /// Entries before it.
    pub(super) first: u64,
    /// Its first block in the order.
    block: u32,
    /// Whether every row is known to be empty.
    pub(super) nothing: bool,
}

pub(super) struct Groups {
    /// In the order of rows; the last one is only the end.
    pub(super) list: Vec<Group>,
    order: Vec<u32>,
}

impl Groups {
    /// `rows` is the number of rows of the matrix; without cells it has no entries.
    pub(super) fn new(stored: &Stored, rows: u64, cols: u64) -> Result<Groups> {
        if rows == 0 || cols == 0 {
            return Ok(Groups::one(rows, 0, true));
        }
        let table = &stored.table;
        let mut order: Vec<u32> = (0..table.len() as u32).collect();
        order.sort_unstable_by_key(|&number| table.get(number).row);
        let mut list: Vec<Group> = Vec::new();
        let (mut end, mut entries) = (0, 0);
        for (at, block) in (0..).zip(order.iter().map(|&number| table.get(number))) {
            if block.row >= end {
                list.push(Group {
                    row: block.row,
                    first: entries,
                    block: at,
                    nothing: true,
                });
            }
            end = end.max(block.rows().end);
            let own = count(stored, &block)?;
            entries += own;
            let unseen = matches!(block.body, Body::Sparse(_));
            if let Some(group) = list.last_mut() {
                group.nothing &= own == 0 && !unseen;
            }
        }
        list.push(Group {
            row: rows,
            first: entries,
            block: order.len() as u32,
            nothing: true,
        });
        Ok(Groups { list, order })
    }

    /// A single group of no blocks.
    pub(super) fn one(rows: u64, entries: u64, nothing: bool) -> Groups {
        let at = |row, first| Group {
            row,
            first,
            block: 0,
            nothing,
        };
        let list = match rows {
            0 => vec![at(0, 0)],
            _ => vec![at(0, 0), at(rows, entries)],
        };
        Groups {
            list,
            order: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len() - 1
    }

    pub(super) fn entries(&self) -> u64 {
        self.list.last().map_or(0, |end| end.first)
    }

    /// The group and the one after it.
    pub(super) fn get(&self, number: usize) -> (Group, Group) {
        (self.list[number], self.list[number + 1])
    }

    /// The group of a row; the end for what follows the last row.
    pub(super) fn by_row(&self, row: u64) -> usize {
        self.list.partition_point(|group| group.row <= row) - 1
    }

    /// The group of an entry; the end for what follows the last entry.
    pub(super) fn by_entry(&self, entry: u64) -> usize {
        self.list.partition_point(|group| group.first <= entry) - 1
    }

    pub(super) fn blocks(&self, number: usize) -> &[u32] {
        let (group, next) = self.get(number);
        &self.order[group.block as usize..next.block as usize]
    }
}

/// Entries of a block as its head gives them; only a dense block is looked through.
fn count(stored: &Stored, block: &Block) -> Result<u64> {
    match block.body {
        Body::Empty => Ok(0),
        Body::Sparse(_) | Body::Coo(_) => Ok(block.entries()),
        Body::Dense(_) => {
            let region = Region {
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
