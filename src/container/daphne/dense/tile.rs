//! A rectangle of one block's cells, decoded: the bounded unit in which blocks are read and cached.
//!
//! Every kind of block first becomes a dense tile of its own value type, which is then converted as a whole,
//! so there is one conversion for all of them. Used by `cells`.

use std::cell::RefCell;
use std::ops::Range;

use super::super::block::scan::EntryBatch;
use super::super::block::table::{BlockBody, CellBlock};
use super::super::block::{BlockFile, inexact, twice};
use super::super::convert::convert;
use super::super::value::ValueType;
use crate::error::Result;

/// Decoded bytes of a tile, by the wider of its two value types.
const TILE: u64 = 1 << 20;
/// Stored bytes that reading a column of a dense block may pass over for one tile.
const PASSED: u64 = 8 << 20;

thread_local! {
    /// A tile of the block's own value type.
    static OWN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The cells of a tile that have an entry, a bit each.
    static TAKEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A part of a block: rows and columns within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Tile {
    pub(in super::super) rows: Range<u64>,
    pub(in super::super) cols: Range<u64>,
}

impl Tile {
    pub(in super::super) fn width(&self) -> u64 {
        self.cols.end - self.cols.start
    }

    pub(in super::super) fn cells(&self) -> u64 {
        (self.rows.end - self.rows.start) * self.width()
    }
}

/// How the columns `cols` of a block are cut into tiles.
#[derive(Debug, Clone)]
pub(in super::super) struct TileGrid {
    rows: u64,
    cols: Range<u64>,
    height: u64,
    width: u64,
}

impl TileGrid {
    /// `cols` count within the block and are not empty.
    pub(in super::super) fn new(block: &CellBlock, cols: Range<u64>, to: ValueType) -> TileGrid {
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
    pub(in super::super) fn tile(&self, row: u64, col: u64) -> Tile {
        let top = row - row % self.height;
        let skip = col - self.cols.start;
        let left = self.cols.start + (skip - skip % self.width);
        Tile {
            rows: top..(top + self.height).min(self.rows),
            cols: left..(left + self.width).min(self.cols.end),
        }
    }
}

impl BlockFile {
    /// Decodes a tile into `out`, row by row, as values of type `to`.
    pub(in super::super) fn decode(
        &self,
        block: &CellBlock,
        tile: &Tile,
        to: ValueType,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(own) = block.value() else {
            out.fill(0);
            return Ok(());
        };
        if own == to {
            return self.fill(block, tile, own, out);
        }
        let len = tile.cells() as usize * own.size();
        OWN.with_borrow_mut(|buf| {
            buf.resize(len.max(buf.len()), 0);
            self.fill(block, tile, own, &mut buf[..len])?;
            convert(own, to, &buf[..len], out).map_err(|at| {
                let row = tile.rows.start + at as u64 / tile.width();
                let col = tile.cols.start + at as u64 % tile.width();
                inexact(block, (row, col), to).into()
            })
        })
    }

    fn fill(&self, block: &CellBlock, tile: &Tile, own: ValueType, out: &mut [u8]) -> Result<()> {
        match (block.body, own.size()) {
            (BlockBody::Dense(_), _) => self.dense(block, &tile.rows, &tile.cols, out),
            (_, 1) => self.scatter::<1>(block, tile, out),
            (_, 2) => self.scatter::<2>(block, tile, out),
            (_, 4) => self.scatter::<4>(block, tile, out),
            _ => self.scatter::<8>(block, tile, out),
        }
    }

    /// Puts entries of `S` bytes where they belong, zeros elsewhere.
    fn scatter<const S: usize>(
        &self,
        block: &CellBlock,
        tile: &Tile,
        out: &mut [u8],
    ) -> Result<()> {
        out.fill(0);
        let (top, left, width) = (tile.rows.start as u32, tile.cols.start as u32, tile.width());
        let (cells, _) = out.as_chunks_mut::<S>();
        // Places that ascend cannot come twice.
        let (mut before, mut ascends) = (None, true);
        self.scan(block, &tile.rows, &tile.cols, &mut |batch| {
            let (values, _) = batch.values.as_chunks::<S>();
            for ((&row, &col), value) in batch.rows.iter().zip(&batch.cols).zip(values) {
                let place = u64::from(row - top) * width + u64::from(col - left);
                ascends &= before < Some(place);
                before = Some(place);
                cells[place as usize] = *value;
            }
            Ok(())
        })?;
        if ascends {
            return Ok(());
        }
        self.check_places(block, tile)
    }

    /// Whether every entry of a tile has a place of its own.
    fn check_places(&self, block: &CellBlock, tile: &Tile) -> Result<()> {
        TAKEN.with_borrow_mut(|taken| {
            taken.clear();
            taken.resize(tile.cells().div_ceil(64) as usize, 0);
            let (top, left, width) = (tile.rows.start, tile.cols.start, tile.width());
            self.scan(block, &tile.rows, &tile.cols, &mut |batch: &EntryBatch| {
                for (&row, &col) in batch.rows.iter().zip(&batch.cols) {
                    let place = (u64::from(row) - top) * width + (u64::from(col) - left);
                    let (word, bit) = (&mut taken[(place / 64) as usize], 1 << (place % 64));
                    if *word & bit != 0 {
                        return Err(twice(row.into(), col.into()).into());
                    }
                    *word |= bit;
                }
                Ok(())
            })
        })
    }

    /// Memory that decoding a tile takes beside its output.
    pub(in super::super) fn tile_scratch() -> u64 {
        TILE + TILE / 8
    }
}
