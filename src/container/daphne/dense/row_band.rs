//! Rows of an array through the same blocks: how a range of cells is cut along the partition.
//!
//! A strip is as high as the least high of its blocks; what lies in one block and goes on in the array is a
//! run. Neither is ever a loop over cells, so a strip of zeros costs nothing however large it is.

use std::ops::Range;

use super::super::block::table::CellBlock;
use super::DenseView;
use crate::error::Result;

pub(in super::super) struct RowBand {
    rows: Range<u64>,
    /// Columns of the object.
    cols: Range<u64>,
    /// First column of the array.
    left: u64,
    /// Every block of these cells, from left to right.
    pub(in super::super) blocks: Vec<CellBlock>,
}

/// Cells that go on in one block and in the array.
pub(in super::super) struct CellRun<'a> {
    pub(in super::super) block: &'a CellBlock,
    /// Their numbers in the array.
    pub(in super::super) places: Range<u64>,
}

impl RowBand {
    /// Visits the strips that hold the cells `places` of an array, in order.
    pub(in super::super) fn each(
        cells: &DenseView,
        places: Range<u64>,
        visit: &mut dyn FnMut(&RowBand) -> Result<()>,
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
            let strip = RowBand::new(cells, rows, cols);
            at = strip.places(width).end;
            visit(&strip)?;
        }
        Ok(())
    }

    fn new(cells: &DenseView, rows: Range<u64>, cols: Range<u64>) -> RowBand {
        let object = &cells.object;
        let mut blocks = Vec::new();
        let first = rows.start..rows.start + 1;
        object
            .index
            .find(&object.stored.table, &first, &cols, &mut blocks);
        blocks.sort_unstable_by_key(|block| block.col);
        let ends = blocks.iter().map(|block| block.rows().end);
        let end = ends.min().map_or(rows.end, |end| end.min(rows.end));
        RowBand {
            rows: rows.start..end,
            cols,
            left: cells.cols.start,
            blocks,
        }
    }

    /// Numbers of the cells in the array, from the first to the last.
    pub(in super::super) fn places(&self, width: u64) -> Range<u64> {
        let (left, last) = (self.cols.start - self.left, self.cols.end - self.left);
        self.rows.start * width + left..(self.rows.end - 1) * width + last
    }

    /// Visits the runs in the order of the array.
    pub(in super::super) fn runs<'a>(
        &'a self,
        cells: &DenseView,
        mut visit: impl FnMut(CellRun<'a>) -> Result<()>,
    ) -> Result<()> {
        let width = cells.width();
        // One block: it holds whole rows, or there is only one row.
        if let [block] = &self.blocks[..] {
            let places = self.places(width);
            return visit(CellRun { block, places });
        }
        for row in self.rows.clone() {
            for block in &self.blocks {
                let start = self.cols.start.max(block.col) - self.left;
                let end = self.cols.end.min(block.cols().end) - self.left;
                let places = row * width + start..row * width + end;
                visit(CellRun { block, places })?;
            }
        }
        Ok(())
    }
}
