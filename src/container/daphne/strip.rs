//! Rows of an array through the same blocks: how a range of cells is cut along the partition.
//!
//! A strip is as high as the least high of its blocks; what lies in one block and goes on in the array is a
//! run. Neither is ever a loop over cells, so a strip of zeros costs nothing however large it is.

use std::ops::Range;

use super::cells::Cells;
use super::table::Block;
use crate::error::Result;

pub(super) struct Strip {
    rows: Range<u64>,
    /// Columns of the object.
    cols: Range<u64>,
    /// First column of the array.
    left: u64,
    /// Every block of these cells, from left to right.
    pub(super) blocks: Vec<Block>,
}

/// Cells that go on in one block and in the array.
pub(super) struct Run<'a> {
    pub(super) block: &'a Block,
    /// Their numbers in the array.
    pub(super) places: Range<u64>,
}

impl Strip {
    /// Visits the strips that hold the cells `places` of an array, in order.
    pub(super) fn each(
        cells: &Cells,
        places: Range<u64>,
        visit: &mut dyn FnMut(&Strip) -> Result<()>,
    ) -> Result<()> {
        let (width, mut at) = (cells.width(), places.start);
        while at < places.end {
            let (row, col, left) = (at / width, at % width, places.end - at);
            // A part of a row, or as many whole rows as there are.
            let (rows, cols) = if col > 0 || left < width {
                (row..row + 1, col..width.min(col + left))
            } else {
                (row..row + left / width, 0..width)
            };
            let first = cells.cols.start;
            let cols = first + cols.start..first + cols.end;
            let strip = Strip::new(cells, rows, cols);
            at = strip.places(width).end;
            visit(&strip)?;
        }
        Ok(())
    }

    fn new(cells: &Cells, rows: Range<u64>, cols: Range<u64>) -> Strip {
        let object = &cells.object;
        let mut blocks = Vec::new();
        let first = rows.start..rows.start + 1;
        object
            .index
            .find(&object.stored.table, &first, &cols, &mut blocks);
        blocks.sort_unstable_by_key(|block| block.col);
        let ends = blocks.iter().map(|block| block.rows().end);
        let end = ends.min().map_or(rows.end, |end| end.min(rows.end));
        Strip {
            rows: rows.start..end,
            cols,
            left: cells.cols.start,
            blocks,
        }
    }

    /// Numbers of the cells in the array, from the first to the last.
    pub(super) fn places(&self, width: u64) -> Range<u64> {
        let (left, last) = (self.cols.start - self.left, self.cols.end - self.left);
        self.rows.start * width + left..(self.rows.end - 1) * width + last
    }

    /// Visits the runs in the order of the array.
    pub(super) fn runs<'a>(
        &'a self,
        cells: &Cells,
        mut visit: impl FnMut(Run<'a>) -> Result<()>,
    ) -> Result<()> {
        let width = cells.width();
        // One block: it holds whole rows, or there is only one row.
        if let [block] = &self.blocks[..] {
            let places = self.places(width);
            return visit(Run { block, places });
        }
        for row in self.rows.clone() {
            for block in &self.blocks {
                let start = self.cols.start.max(block.col) - self.left;
                let end = self.cols.end.min(block.cols().end) - self.left;
                let places = row * width + start..row * width + end;
                visit(Run { block, places })?;
            }
        }
        Ok(())
    }
}
