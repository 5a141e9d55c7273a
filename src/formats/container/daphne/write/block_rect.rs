//! A rectangle of cells that is one block, as it is told: its head, and the parts in which its
//! cells are read. Pure. Used by [`super::cells`] and [`super::entries`].

use std::ops::Range;

use super::super::block::table::CellBlock;
use super::super::value::ValueType;

/// Cells of a band.
pub(super) const BAND: u64 = 32 << 10;

/// Rows, or columns, of a block.
const MOST: u64 = u32::MAX as u64;

/// Codes of block types.
pub(super) const DENSE: u8 = 1;
pub(super) const SPARSE: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockRect {
    pub(super) row: u64,
    pub(super) col: u64,
    pub(super) height: u32,
    pub(super) width: u32,
}

impl BlockRect {
    pub(super) fn of(block: &CellBlock) -> BlockRect {
        BlockRect {
            row: block.row,
            col: block.col,
            height: block.height,
            width: block.width,
        }
    }

    /// The blocks that a new file has: as high as one can be, and of at most so many columns.
    pub(super) fn canonical(
        (rows, cols): (u64, u64),
        width: u64,
    ) -> impl Iterator<Item = BlockRect> {
        let step = width.clamp(1, MOST);
        let (mut row, mut col) = (0, 0);
        std::iter::from_fn(move || {
            if row >= rows || cols == 0 {
                return None;
            }
            let rect = BlockRect {
                row,
                col,
                height: (rows - row).min(MOST) as u32,
                width: (cols - col).min(step) as u32,
            };
            col += u64::from(rect.width);
            if col >= cols {
                (row, col) = (row + u64::from(rect.height), 0);
            }
            Some(rect)
        })
    }

    /// What a block of this kind begins with.
    pub(super) fn head(&self, kind: u8, value: ValueType) -> Vec<u8> {
        let mut head = Vec::with_capacity(26);
        head.extend_from_slice(&self.row.to_le_bytes());
        head.extend_from_slice(&self.col.to_le_bytes());
        head.extend_from_slice(&self.height.to_le_bytes());
        head.extend_from_slice(&self.width.to_le_bytes());
        head.extend([kind, value.spec_code()]);
        head
    }

    pub(super) fn rows(&self) -> Range<u64> {
        self.row..self.row.saturating_add(self.height.into())
    }

    pub(super) fn cols(&self) -> Range<u64> {
        self.col..self.col.saturating_add(self.width.into())
    }

    /// The cells in parts of at most a band, row by row: whole rows, or parts of one.
    pub(super) fn bands(self) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
        let (all_rows, all_cols) = (self.rows(), self.cols());
        let rows = (BAND / u64::from(self.width.max(1))).max(1);
        let (mut row, mut col) = (self.row, self.col);
        std::iter::from_fn(move || {
            if row >= all_rows.end || self.width == 0 {
                return None;
            }
            let rows = row..row.saturating_add(rows).min(all_rows.end);
            let cols = col..col.saturating_add(BAND).min(all_cols.end);
            col = cols.end;
            if col >= all_cols.end {
                (row, col) = (rows.end, self.col);
            }
            Some((rows, cols))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_blocks_are_as_large_as_they_can_be() {
        let rects = |size, width| BlockRect::canonical(size, width).collect::<Vec<_>>();
        let rect = |row, col, height, width| BlockRect {
            row,
            col,
            height,
            width,
        };
        assert_eq!(rects((0, 3), 3), []);
        assert_eq!(rects((3, 0), 1), []);
        assert_eq!(rects((3, 2), 2), [rect(0, 0, 3, 2)]);
        assert_eq!(rects((3, 2), 1), [rect(0, 0, 3, 1), rect(0, 1, 3, 1)]);
        let most = u32::MAX;
        let expected = [rect(0, 0, most, 1), rect(MOST, 0, 2, 1)];
        assert_eq!(rects((MOST + 2, 1), u64::MAX), expected);
        assert_eq!(rects((1, MOST + 2), u64::MAX)[1], rect(0, MOST, 1, 2));
    }
}
