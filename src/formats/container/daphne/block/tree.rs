//! Which blocks hold a rectangle of cells: a balanced tree of bounding boxes.
//!
//! About ten bytes a block. As the blocks of an object do not overlap, a search for `k` of `n`
//! blocks takes O(sqrt(n) + k) whatever the tiling. Used by the arrays that show cells.

use std::ops::Range;

use super::index_cache::{BlockIndexCache, ChargedList};
use super::table::{BlockTable, CellBlock};
use crate::error::Result;

/// Blocks of a leaf.
const LEAF: usize = 16;
/// Blocks that are found at once, at most.
const MOST: usize = 256;

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

pub(crate) struct BlockTree {
    /// Blocks in the order of the leaves.
    order: ChargedList<u32>,
    /// Node `n` has the children `2n + 1` and `2n + 2`, which halve its part of the order.
    nodes: ChargedList<CellBounds>,
}

impl BlockTree {
    pub(crate) fn new(table: &BlockTable, index_cache: &BlockIndexCache) -> Result<BlockTree> {
        let mut tree = BlockTree {
            order: index_cache.list(table.len() as u64)?,
            nodes: index_cache.list(nodes(table.len()))?,
        };
        tree.order.list.extend(0..table.len() as u32);
        tree.build(table, 0, 0..table.len());
        Ok(tree)
    }

    fn build(&mut self, table: &BlockTable, node: usize, part: Range<usize>) {
        let (order, nodes) = (&mut self.order.list, &mut self.nodes.list);
        let blocks = order[part.clone()].iter().map(|&n| table.get(n));
        let bounds = blocks
            .clone()
            .fold(CellBounds::NOTHING, |all, b| all.with(&b));
        if nodes.len() <= node {
            nodes.resize(node + 1, CellBounds::NOTHING);
        }
        nodes[node] = bounds;
        if part.len() <= LEAF {
            return;
        }
        // Along the side on which there are more blocks.
        let mean =
            |side: fn(&CellBlock) -> u32| blocks.clone().map(|b| f64::from(side(&b))).sum::<f64>();
        let rows = (bounds.rows.1 - bounds.rows.0) as f64 / mean(|b| b.height).max(1.0);
        let cols = (bounds.cols.1 - bounds.cols.0) as f64 / mean(|b| b.width).max(1.0);
        let middle = part.len() / 2;
        let order = &mut order[part.clone()];
        if rows >= cols {
            order.select_nth_unstable_by_key(middle, |&n| table.get(n).row);
        } else {
            order.select_nth_unstable_by_key(middle, |&n| table.get(n).col);
        }
        let middle = part.start + middle;
        self.build(table, 2 * node + 1, part.start..middle);
        self.build(table, 2 * node + 2, middle..part.end);
    }

    /// The blocks that share cells with the rectangle, in no order; none if they are too many.
    pub(crate) fn find(
        &self,
        table: &BlockTable,
        rows: &Range<u64>,
        cols: &Range<u64>,
    ) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        let fits = self.visit(table, (rows, cols), &mut |block| {
            found.push(block.number);
            found.len() <= MOST
        });
        fits.then_some(found)
    }

    /// Visits the blocks that share cells with the rectangle, in no order, while they answer true.
    pub(crate) fn visit(
        &self,
        table: &BlockTable,
        cells: (&Range<u64>, &Range<u64>),
        visit: &mut dyn FnMut(CellBlock) -> bool,
    ) -> bool {
        self.search(table, (0, 0..self.order.list.len()), cells, visit)
    }

    fn search(
        &self,
        table: &BlockTable,
        (node, part): (usize, Range<usize>),
        cells: (&Range<u64>, &Range<u64>),
        visit: &mut dyn FnMut(CellBlock) -> bool,
    ) -> bool {
        let bounds = self.nodes.list.get(node);
        if !bounds.is_some_and(|bounds| bounds.meets(cells.0, cells.1)) {
            return true;
        }
        if part.len() <= LEAF {
            let meets = |b: &CellBlock| CellBounds::NOTHING.with(b).meets(cells.0, cells.1);
            let blocks = self.order.list[part].iter().map(|&n| table.get(n));
            return blocks.filter(meets).all(visit);
        }
        let middle = part.start + part.len() / 2;
        self.search(table, (2 * node + 1, part.start..middle), cells, visit)
            && self.search(table, (2 * node + 2, middle..part.end), cells, visit)
    }
}

/// Nodes of a tree over so many blocks: parts are halved, rounded up, until they are leaves.
fn nodes(blocks: usize) -> u64 {
    let (mut part, mut nodes) = (blocks, 1);
    while part > LEAF {
        part = part.div_ceil(2);
        nodes = 2 * nodes + 1;
    }
    nodes
}
