//! A rectangle of one block's cells, decoded: the bounded unit in which blocks are read and cached.
//!
//! Every kind of block first becomes a dense tile of its own value type, which is then converted as
//! a whole, so there is one conversion for all of them. Used by [`super::read`].

use std::ops::Range;

use super::super::block::scan::SCAN_MEMORY;
use super::super::block::table::{BlockBody, CellBlock};
use super::super::block::{BlockFile, inexact, twice};
use super::super::convert::convert;
use super::super::strided;
use super::super::value::ValueType;
use crate::error::Result;
use crate::memory::{Arena, room};
use crate::source::StoredRanges;

/// Decoded bytes of a tile, by the wider of its two value types.
const TILE: u64 = 1 << 20;
/// Stored bytes that reading a column of a dense block may pass over for one tile.
const PASSED: u64 = 8 << 20;

/// Scratch memory of a tile: as the block's own value type, the cells that have an entry, a bit
/// each, and what reading its block takes.
pub(super) const TILE_MEMORY: u64 = room(TILE) + room(TILE / 8) + READING_MEMORY;

const READING_MEMORY: u64 = match SCAN_MEMORY > strided::MEMORY {
    true => SCAN_MEMORY,
    false => strided::MEMORY,
};

/// A part of a block: rows and columns within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) rows: Range<u64>,
    pub(crate) cols: Range<u64>,
}

impl Tile {
    pub(crate) fn width(&self) -> u64 {
        self.cols.end - self.cols.start
    }

    pub(crate) fn cells(&self) -> u64 {
        (self.rows.end - self.rows.start) * self.width()
    }
}

/// How the columns `cols` of a block are cut into tiles.
#[derive(Debug, Clone)]
pub(crate) struct TileGrid {
    rows: u64,
    cols: Range<u64>,
    height: u64,
    width: u64,
}

impl TileGrid {
    /// `cols` count within the block and are not empty.
    pub(crate) fn new(block: &CellBlock, cols: Range<u64>, to: ValueType) -> TileGrid {
        let own = block.value().map_or(1, ValueType::size);
        let cells = TILE / own.max(to.size()) as u64;
        let across = (cols.end - cols.start).max(1);
        let passed = match block.body {
            BlockBody::Dense(_) => PASSED / (u64::from(block.width) * own as u64).max(1),
            _ => u64::MAX,
        };
        TileGrid {
            rows: block.height.into(),
            height: (cells / across).min(passed).max(1),
            width: across.min(cells),
            cols,
        }
    }

    /// The tile of a cell.
    pub(crate) fn tile(&self, row: u64, col: u64) -> Tile {
        let top = row - row % self.height;
        let skip = col - self.cols.start;
        let left = self.cols.start + (skip - skip % self.width);
        Tile {
            rows: top..(top + self.height).min(self.rows),
            cols: left..(left + self.width).min(self.cols.end),
        }
    }
}

/// Blocks of entries up to this size are asked for whole of a source that is far away.
const AT_ONCE: u64 = 4 << 20;

impl BlockFile {
    /// Names what decoding a tile fetches ([`crate::array::Array::stored`]).
    pub(crate) fn name(&self, block: &CellBlock, tile: &Tile, needed: &mut StoredRanges) {
        match block.body {
            BlockBody::Dense(value) => {
                let size = value.size() as u64;
                let stride = u64::from(block.width) * size;
                let (first, len) = (tile.cols.start * size, tile.width() * size);
                for row in tile.rows.clone() {
                    let at = block.payload() + row * stride + first;
                    needed.name(&self.source, at..at.saturating_add(len));
                }
            }
            _ => self.name_block(block, needed),
        }
    }

    /// Names all of the file as what a read fetches, unless it is large.
    pub(crate) fn name_all(&self, needed: &mut StoredRanges) {
        if self.source.len() <= AT_ONCE {
            needed.name(&self.source, 0..self.source.len());
        }
    }

    /// Names all of a block as what a read fetches, unless it is large.
    pub(crate) fn name_block(&self, block: &CellBlock, needed: &mut StoredRanges) {
        if block.stored() <= AT_ONCE {
            needed.name(&self.source, block.at..block.end);
        }
    }

    /// Decodes a tile into `out`, row by row, as values of type `to`. Takes [`TILE_MEMORY`].
    pub(crate) fn decode(
        &self,
        block: &CellBlock,
        tile: &Tile,
        to: ValueType,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let Some(own) = block.value() else {
            out.fill(0);
            return Ok(());
        };
        if own == to {
            return self.fill(block, tile, own, out, scratch);
        }
        let stored = scratch.take(tile.cells() * own.size() as u64)?;
        self.fill(block, tile, own, stored, scratch)?;
        convert(own, to, stored, out).map_err(|at| {
            let row = tile.rows.start + at as u64 / tile.width();
            let col = tile.cols.start + at as u64 % tile.width();
            inexact(block, (row, col), to).into()
        })
    }

    fn fill(
        &self,
        block: &CellBlock,
        tile: &Tile,
        own: ValueType,
        out: &mut [u8],
        scratch: Arena<'_>,
    ) -> Result<()> {
        match (block.body, own.size()) {
            (BlockBody::Dense(_), _) => self.dense(block, &tile.rows, &tile.cols, out, scratch),
            (_, 1) => self.scatter::<1>(block, tile, out, scratch),
            (_, 2) => self.scatter::<2>(block, tile, out, scratch),
            (_, 4) => self.scatter::<4>(block, tile, out, scratch),
            _ => self.scatter::<8>(block, tile, out, scratch),
        }
    }

    /// Puts entries of `S` bytes where they belong, zeros elsewhere: each has a place of its own.
    fn scatter<const S: usize>(
        &self,
        block: &CellBlock,
        tile: &Tile,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        out.fill(0);
        let taken = scratch.take_u64s(tile.cells().div_ceil(64))?;
        taken.fill(0);
        let (top, left, width) = (tile.rows.start as u32, tile.cols.start as u32, tile.width());
        let (cells, _) = out.as_chunks_mut::<S>();
        self.scan(block, &tile.rows, &tile.cols, scratch, &mut |batch| {
            let (values, _) = batch.values().as_chunks::<S>();
            for ((&row, &col), value) in batch.rows().iter().zip(batch.cols()).zip(values) {
                let place = u64::from(row - top) * width + u64::from(col - left);
                let (word, bit) = (&mut taken[(place / 64) as usize], 1 << (place % 64));
                if *word & bit != 0 {
                    return Err(twice(row.into(), col.into()).into());
                }
                *word |= bit;
                cells[place as usize] = *value;
            }
            Ok(())
        })
    }
}
