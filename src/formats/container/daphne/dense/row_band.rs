//! Rows of an array through the same blocks: how a range of cells is cut along the partition.
//!
//! A band is as high as the least high of its blocks, and has a bounded number of them; what lies
//! in one block and goes on in the array is a run. Neither is ever a loop over cells, so a band of
//! zeros costs nothing however large it is.

use std::ops::Range;

use super::super::block::table::CellBlock;
use super::DenseView;
use crate::error::Result;

pub(super) struct RowBand<'a> {
    view: &'a DenseView,
    rows: Range<u64>,
    /// Columns of the object.
    cols: Range<u64>,
    /// Every block of these cells, from left to right.
    blocks: Vec<u32>,
}

/// Cells that go on in one block and in the array.
pub(super) struct CellRun {
    pub(super) block: CellBlock,
    /// Their numbers in the array.
    pub(super) places: Range<u64>,
}

impl RowBand<'_> {
    /// Visits the bands that hold the cells `places` of an array, in order.
    pub(super) fn each(
        view: &DenseView,
        places: Range<u64>,
        visit: &mut dyn FnMut(&RowBand<'_>) -> Result<()>,
    ) -> Result<()> {
        let (width, first) = (view.width(), view.cols.start);
        let (mut at, mut most) = (places.start, u64::MAX);
        while at < places.end {
            let (row, col, left) = (at / width, at % width, places.end - at);
            // A part of a row, or as many whole rows as there are.
            let (rows, cols) = if col > 0 || left < width || most < width {
                let end = width.min(col.saturating_add(left.min(most)));
                (row..row + 1, col..end)
            } else {
                (row..row + left / width, 0..width)
            };
            let cols = first + cols.start..first + cols.end;
            let Some(band) = RowBand::new(view, rows, cols.clone()) else {
                // Too many blocks lie side by side.
                most = (cols.end - cols.start).div_ceil(4);
                continue;
            };
            at = band.places().end;
            // Further down they may be wide again.
            most = most.saturating_mul(2);
            visit(&band)?;
        }
        Ok(())
    }

    /// None if too many blocks lie side by side, which a single column never has.
    fn new(view: &DenseView, rows: Range<u64>, cols: Range<u64>) -> Option<RowBand<'_>> {
        let object = &view.object;
        let table = &object.stored.table;
        let first = rows.start..rows.start + 1;
        let mut blocks = object.tree.find(table, &first, &cols)?;
        blocks.sort_unstable_by_key(|&number| table.get(number).col);
        let ends = blocks.iter().map(|&number| table.get(number).rows().end);
        let end = ends.min().map_or(rows.end, |end| end.min(rows.end));
        Some(RowBand {
            view,
            rows: rows.start..end,
            cols,
            blocks,
        })
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = CellBlock> {
        let table = &self.view.object.stored.table;
        self.blocks.iter().map(|&number| table.get(number))
    }

    /// Numbers of the cells in the array, from the first to the last.
    pub(super) fn places(&self) -> Range<u64> {
        let (width, left) = (self.view.width(), self.view.cols.start);
        let (first, last) = (self.cols.start - left, self.cols.end - left);
        self.rows.start * width + first..(self.rows.end - 1) * width + last
    }

    /// Visits the runs in the order of the array.
    pub(super) fn runs(&self, mut visit: impl FnMut(CellRun) -> Result<()>) -> Result<()> {
        let (width, left) = (self.view.width(), self.view.cols.start);
        let mut blocks = self.blocks();
        // One block: it holds whole rows, or there is only one row.
        if let (Some(block), None) = (blocks.next(), blocks.next()) {
            let places = self.places();
            return visit(CellRun { block, places });
        }
        for row in self.rows.clone() {
            for block in self.blocks() {
                let start = self.cols.start.max(block.col) - left;
                let end = self.cols.end.min(block.cols().end) - left;
                let places = row * width + start..row * width + end;
                visit(CellRun { block, places })?;
            }
        }
        Ok(())
    }
}
