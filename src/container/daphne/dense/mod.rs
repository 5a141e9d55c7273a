//! Cells of an object as an array: `values` of a DenseMatrix (all columns), or one column of a Frame.
//!
//! The object is a partition into rectangles of any kind. A run of cells that is stored as it is shown, or
//! that nobody stored, is direct; other blocks are cut into tiles, numbered by the place of their first cell
//! in the array. A damaged block harms only its own cells.

mod check;
mod row_band;
mod tile;

use std::ops::Range;
use std::sync::Arc;

use super::block::BlockFile;
use super::block::table::{BlockBody, CellBlock};
use super::block::tree::BlockTree;
use super::value::ValueType;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::error::{Fault, Result};
use crate::memory::Scratch;
use crate::source::Fetch;
use row_band::{CellRun, RowBand};
use tile::TileGrid;

/// Stored runs from this length on are read straight.
const LONG_RUN: u64 = 4 << 10;
/// Ranges of one fetch.
const RANGES: usize = 256;

/// A DenseMatrix or a Frame.
pub(super) struct CellObject {
    pub(super) stored: BlockFile,
    pub(super) index: BlockTree,
    pub(super) rows: u64,
    pub(super) cols: u64,
    /// Types of the columns; a matrix has one for all.
    pub(super) types: Vec<ValueType>,
}

impl CellObject {
    fn value(&self, col: u64) -> ValueType {
        let first = self.types.first().copied().unwrap_or(ValueType::U8);
        let own = usize::try_from(col)
            .ok()
            .and_then(|col| self.types.get(col));
        own.copied()
            .filter(|_| self.types.len() > 1)
            .unwrap_or(first)
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

    fn push_strip(&self, strip: &RowBand, range: &Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        if strip.blocks.iter().all(|block| self.direct(block)) {
            push_direct(&self.bytes_of(&strip.places(self.width())), range, out);
            return Ok(());
        }
        strip.runs(self, |run| {
            if self.direct(run.block) {
                push_direct(&self.bytes_of(&run.places), range, out);
            } else {
                self.push_tiles(&run, range, out);
            }
            Ok(())
        })
    }

    /// Bytes of cells, by their numbers in the array.
    pub(super) fn bytes_of(&self, places: &Range<u64>) -> Range<u64> {
        places.start * self.size()..places.end * self.size()
    }

    fn push_tiles(&self, run: &CellRun<'_>, range: &Range<u64>, out: &mut Vec<Piece>) {
        let grid = self.grid(run.block);
        let mut place = run.places.start;
        while place < run.places.end {
            let (row, col) = self.within(run.block, place);
            let tile = grid.tile(row, col);
            // To the end of the row's part in the tile, or of the tile if it holds whole rows.
            let whole = tile.width() == self.width();
            let last = if whole { tile.rows.end - 1 } else { row };
            let stop = self.place(run.block, last, tile.cols.end - 1) + 1;
            let stop = stop.min(run.places.end);
            let bytes = self.bytes_of(&(place..stop));
            let bytes = bytes.start.max(range.start)..bytes.end.min(range.end);
            if bytes.start < bytes.end {
                let cell = (row - tile.rows.start) * tile.width() + (col - tile.cols.start);
                out.push(Piece::Block {
                    id: BlockId(self.place(run.block, tile.rows.start, tile.cols.start)),
                    block_len: tile.cells() * self.size(),
                    skip: cell * self.size() + (bytes.start - place * self.size()),
                    take: bytes.end - bytes.start,
                });
            }
            place = stop;
        }
    }

    /// Where a cell lies in its block.
    fn within(&self, block: &CellBlock, place: u64) -> (u64, u64) {
        let (row, col) = (place / self.width(), place % self.width());
        (row - block.row, self.cols.start + col - block.col)
    }

    /// The strips that hold a range of bytes.
    fn strips(
        &self,
        range: &Range<u64>,
        visit: &mut dyn FnMut(&RowBand) -> Result<()>,
    ) -> Result<()> {
        let places = range.start / self.size()..range.end.div_ceil(self.size());
        RowBand::each(self, places, visit)
    }

    /// The blocks that hold cells of the array.
    pub(super) fn blocks(&self) -> Vec<CellBlock> {
        let mut found = Vec::new();
        let table = &self.object.stored.table;
        let rows = 0..self.object.rows;
        self.object.index.find(table, &rows, &self.cols, &mut found);
        found
    }
}

/// Appends a part of `range`, to the last piece if it goes on there.
pub(super) fn push_direct(bytes: &Range<u64>, range: &Range<u64>, out: &mut Vec<Piece>) {
    let start = bytes.start.max(range.start);
    let len = bytes.end.min(range.end).saturating_sub(start);
    match out.last_mut() {
        _ if len == 0 => {}
        Some(Piece::Direct { at, take }) if *at + *take == start => *take += len,
        _ => out.push(Piece::Direct {
            at: start,
            take: len,
        }),
    }
}

impl Array for DenseView {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let (mut stored_bytes, mut blocks, mut codec) = (0, 0, None);
        for block in self.blocks() {
            let shown = self.shown(&block);
            let share = u128::from(block.stored()) * u128::from(shown.end - shown.start);
            stored_bytes += (share / u128::from(block.width.max(1))) as u64;
            blocks += 1;
            let own = super::block::table::codec(block.body);
            codec = match codec {
                None => Some(own),
                Some(other) if other == own => codec,
                Some(_) => Some("mixed"),
            };
        }
        Ok(Info {
            dtype: self.value.dtype(),
            shape: self.shape.clone(),
            order: Order::C,
            bytes: self.bytes,
            stored_bytes,
            blocks,
            codec: codec.unwrap_or("none").into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let range = range.start..range.end.min(self.bytes);
        if range.start >= range.end {
            return Ok(());
        }
        self.strips(&range, &mut |strip| self.push_strip(strip, &range, out))
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        BlockFile::tile_scratch()
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
        let no_tile = || Fault::new("no tile begins at this cell").found(block.0);
        if block.0.saturating_mul(self.size()) >= self.bytes {
            return Err(no_tile().into());
        }
        let place = block.0;
        let (row, col) = (place / self.width(), self.cols.start + place % self.width());
        let mut found = Vec::new();
        let CellObject { stored, index, .. } = &*self.object;
        index.find(&stored.table, &(row..row + 1), &(col..col + 1), &mut found);
        let stored_block = found.first().ok_or_else(no_tile)?;
        let (row, col) = self.within(stored_block, place);
        let tile = self.grid(stored_block).tile(row, col);
        let starts = tile.rows.start == row && tile.cols.start == col;
        if !starts || tile.cells() * self.size() != out.len() as u64 {
            return Err(no_tile().block(stored_block.number.into()).into());
        }
        stored.decode(stored_block, &tile, self.value, out)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let range = at..at.saturating_add(out.len() as u64).min(self.bytes);
        let mut rest = out;
        let mut ranges: Vec<Fetch<'_>> = Vec::new();
        let source = &*self.object.stored.source;
        self.strips(&range, &mut |strip| {
            strip.runs(self, |run| {
                let bytes = self.bytes_of(&run.places);
                let bytes = bytes.start.max(range.start)..bytes.end.min(range.end);
                let len = bytes.end.saturating_sub(bytes.start) as usize;
                let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
                rest = after;
                match run.block.body {
                    _ if len == 0 => {}
                    BlockBody::Empty => part.fill(0),
                    BlockBody::Dense(value) if value == self.value => {
                        let skip = bytes.start - run.places.start * self.size();
                        let (row, col) = self.within(run.block, run.places.start);
                        let cell = row * u64::from(run.block.width) + col;
                        let offset = run.block.payload() + cell * self.size() + skip;
                        ranges.push(Fetch { offset, buf: part });
                    }
                    _ => return Err(run.block.fault("these cells are not plainly stored").into()),
                }
                if ranges.len() >= RANGES {
                    source.fetch(&mut ranges)?;
                    ranges.clear();
                }
                Ok(())
            })
        })?;
        source.fetch(&mut ranges)
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        check::survey(self, visit);
        Ok(())
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        check::cells(self, report)
    }
}
