//! Cells of an object as an array: `values` of a DenseMatrix (all columns), or one column of a
//! Frame.
//!
//! The object is a partition into rectangles of any kind. A run of cells that is stored as it is
//! shown, or that is not stored, is direct; other blocks are cut into tiles, numbered by the place
//! of their first cell in the array. A damaged block harms only its own cells. Here is what is
//! shown and what it is like; [`read`] reads it, by [`row_band`] and [`tile`], and [`check`] checks
//! it as a whole.

pub(super) mod check;
pub(super) mod read;
mod row_band;
mod tile;

use std::ops::Range;
use std::sync::Arc;

use super::block::BlockFile;
use super::block::index_cache::ChargedList;
use super::block::table::{BlockBody, CellBlock};
use super::block::tree::BlockTree;
use super::value::ValueType;
use crate::array::{Info, Order};
use tile::TileGrid;

/// Stored runs from this length on are read straight.
const LONG_RUN: u64 = 4 << 10;

/// A DenseMatrix or a Frame.
pub(super) struct CellObject {
    pub(super) stored: BlockFile,
    pub(super) tree: BlockTree,
    pub(super) rows: u64,
    pub(super) cols: u64,
    /// Types of the columns; a matrix has one for all.
    pub(super) types: Arc<ChargedList<ValueType>>,
}

impl CellObject {
    pub(super) fn value(&self, col: u64) -> ValueType {
        let types = &self.types.list;
        let first = types.first().copied().unwrap_or(ValueType::U8);
        let own = usize::try_from(col).ok().and_then(|col| types.get(col));
        own.copied().filter(|_| types.len() > 1).unwrap_or(first)
    }

    /// The block that holds a cell.
    pub(super) fn block_at(&self, row: u64, col: u64) -> Option<CellBlock> {
        let mut found = None;
        let cells = (&(row..row.saturating_add(1)), &(col..col.saturating_add(1)));
        self.tree.visit(&self.stored.table, cells, &mut |block| {
            found = Some(block);
            false
        });
        found
    }

    /// The type of a column of a block, counted within it.
    pub(super) fn target(&self, block: &CellBlock, col: u64) -> ValueType {
        self.value(block.col + col)
    }
}

pub(super) struct DenseView {
    name: String,
    pub(super) object: Arc<CellObject>,
    /// Columns shown.
    pub(super) cols: Range<u64>,
    pub(super) value: ValueType,
    shape: Vec<u64>,
    pub(super) bytes: u64,
}

impl DenseView {
    /// All cells of a matrix, which decode to `bytes`.
    pub(super) fn matrix(object: Arc<CellObject>, bytes: u64) -> DenseView {
        DenseView {
            name: "values".into(),
            cols: 0..object.cols,
            value: object.value(0),
            shape: vec![object.rows, object.cols],
            object,
            bytes,
        }
    }

    /// One column of a frame, which decodes to `bytes`.
    pub(super) fn column(object: Arc<CellObject>, name: String, col: u64, bytes: u64) -> DenseView {
        DenseView {
            name,
            cols: col..col + 1,
            value: object.value(col),
            shape: vec![object.rows],
            object,
            bytes,
        }
    }

    pub(super) fn width(&self) -> u64 {
        self.cols.end - self.cols.start
    }

    pub(super) fn size(&self) -> u64 {
        self.value.size() as u64
    }

    /// Columns of a block that are shown, counted within it.
    pub(super) fn shown(&self, block: &CellBlock) -> Range<u64> {
        let start = self.cols.start.max(block.col) - block.col;
        start..self.cols.end.min(block.cols().end) - block.col
    }

    /// Whether cells of a block need no decoding.
    pub(super) fn direct(&self, block: &CellBlock) -> bool {
        let shown = self.shown(block);
        let len = shown.end - shown.start;
        match block.body {
            BlockBody::Empty => true,
            BlockBody::Dense(value) if value == self.value => {
                let whole = len == self.width() && len == u64::from(block.width);
                whole || len * self.size() >= LONG_RUN
            }
            _ => false,
        }
    }

    pub(super) fn grid(&self, block: &CellBlock) -> TileGrid {
        TileGrid::new(block, self.shown(block), self.value)
    }

    /// The array's number of a cell of a block.
    pub(super) fn place(&self, block: &CellBlock, row: u64, col: u64) -> u64 {
        (block.row + row) * self.width() + (block.col + col - self.cols.start)
    }

    /// Bytes of cells, by their numbers in the array.
    pub(super) fn bytes_of(&self, places: &Range<u64>) -> Range<u64> {
        places.start * self.size()..places.end * self.size()
    }

    /// Where a cell lies in its block.
    fn within(&self, block: &CellBlock, place: u64) -> (u64, u64) {
        let (row, col) = (place / self.width(), place % self.width());
        (row - block.row, self.cols.start + col - block.col)
    }

    /// Visits the blocks that hold cells of the array, in no order.
    fn blocks(&self, mut visit: impl FnMut(CellBlock)) {
        let CellObject {
            stored, tree, rows, ..
        } = &*self.object;
        let cells = (&(0..*rows), &self.cols);
        tree.visit(&stored.table, cells, &mut |block| {
            visit(block);
            true
        });
    }

    fn describe(&self) -> Info {
        let (mut stored_bytes, mut blocks, mut codec) = (0, 0, None);
        self.blocks(|block| {
            let shown = self.shown(&block);
            let share = u128::from(block.stored()) * u128::from(shown.end - shown.start);
            stored_bytes += (share / u128::from(block.width.max(1))) as u64;
            blocks += 1;
            codec = block.codec(codec);
        });
        Info {
            dtype: self.value.dtype(),
            shape: self.shape.clone(),
            order: Order::C,
            bytes: self.bytes,
            stored_bytes,
            blocks,
            codec: codec.unwrap_or("none").into(),
        }
    }
}
