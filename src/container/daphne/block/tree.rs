//! Which blocks hold a rectangle of cells: a balanced tree of bounding boxes.
//!
//! About ten bytes a block. As the blocks of an object do not overlap, a search for `k` of `n` blocks takes
//! O(sqrt(n) + k) whatever the tiling. Used by the arrays that show cells.

use std::ops::Range;

use super::table::{BlockTable, CellBlock};

/// Blocks of a leaf.
const LEAF: usize = 16;

#[derive(Clone, Copy)]
struct CellBounds {
    rows: (u64, u64),
    cols: (u64, u64),
}

impl CellBounds {
    const NOTHING: CellBounds = CellBounds {
        rows: (u64::MAX, 0),
        cols: (u64::MAX, 0),
    };

    fn with(self, block: &CellBlock) -> CellBounds {
        let wider = |old: (u64, u64), new: Range<u64>| (old.0.min(new.start), old.1.max(new.end));
        CellBounds {
            rows: wider(self.rows, block.rows()),
            cols: wider(self.cols, block.cols()),
        }
    }

    fn meets(&self, rows: &Range<u64>, cols: &Range<u64>) -> bool {
        self.rows.0 < rows.end
            && rows.start < self.rows.1
            && self.cols.0 < cols.end
            && cols.start < self.cols.1
    }
}

pub(in super::super) struct BlockTree {
    /// Blocks in the order of the leaves.
    order: Vec<u32>,
    /// Node `n` has the children `2n + 1` and `2n + 2`, which halve its part of the order.
    nodes: Vec<CellBounds>,
}

impl BlockTree {
    pub(in super::super) fn new(table: &BlockTable) -> BlockTree {
        let mut index = BlockTree {
            order: (0..table.len() as u32).collect(),
            nodes: Vec::new(),
        };
        index.build(table, 0, 0..table.len());
        index
    }

    fn build(&mut self, table: &BlockTable, node: usize, part: Range<usize>) {
        let blocks = self.order[part.clone()].iter().map(|&n| table.get(n));
        let bounds = blocks
            .clone()
            .fold(CellBounds::NOTHING, |all, b| all.with(&b));
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, CellBounds::NOTHING);
        }
        self.nodes[node] = bounds;
        if part.len() <= LEAF {
            return;
        }
        // Along the side on which there are more blocks.
        let mean =
            |side: fn(&CellBlock) -> u32| blocks.clone().map(|b| f64::from(side(&b))).sum::<f64>();
        let rows = (bounds.rows.1 - bounds.rows.0) as f64 / mean(|b| b.height).max(1.0);
        let cols = (bounds.cols.1 - bounds.cols.0) as f64 / mean(|b| b.width).max(1.0);
        let middle = part.len() / 2;
        let order = &mut self.order[part.clone()];
        if rows >= cols {
            order.select_nth_unstable_by_key(middle, |&n| table.get(n).row);
        } else {
            order.select_nth_unstable_by_key(middle, |&n| table.get(n).col);
        }
        let middle = part.start + middle;
        self.build(table, 2 * node + 1, part.start..middle);
        self.build(table, 2 * node + 2, middle..part.end);
    }

    /// Appends the blocks that share cells with the rectangle, in no order.
    pub(in super::super) fn find(
        &self,
        table: &BlockTable,
        rows: &Range<u64>,
        cols: &Range<u64>,
        found: &mut Vec<CellBlock>,
    ) {
        self.search(table, (0, 0..self.order.len()), (rows, cols), found);
    }

    fn search(
        &self,
        table: &BlockTable,
        (node, part): (usize, Range<usize>),
        cells: (&Range<u64>, &Range<u64>),
        found: &mut Vec<CellBlock>,
    ) {
        if !self
            .nodes
            .get(node)
            .is_some_and(|n| n.meets(cells.0, cells.1))
        {
            return;
        }
        if part.len() <= LEAF {
            let meets = |b: &CellBlock| CellBounds::NOTHING.with(b).meets(cells.0, cells.1);
            let blocks = self.order[part].iter().map(|&n| table.get(n));
            return found.extend(blocks.filter(meets));
        }
        let middle = part.start + part.len() / 2;
        self.search(table, (2 * node + 1, part.start..middle), cells, found);
        self.search(table, (2 * node + 2, middle..part.end), cells, found);
    }
}
