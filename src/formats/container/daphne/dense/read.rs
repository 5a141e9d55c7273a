//! Reading cells: how a range is cut into direct runs and tiles, and getting both.

use std::ops::Range;

use super::super::block::table::BlockBody;
use super::super::strided::Fetches;
use super::row_band::{CellRun, RowBand};
use super::tile::TILE_MEMORY;
use super::{DenseView, check};
use crate::array::{Array, BlockId, Info, Piece};
use crate::error::{Error, Result};
use crate::memory::Arena;
use crate::source::StoredRanges;

impl DenseView {
    fn push_band(
        &self,
        band: &RowBand<'_>,
        range: &Range<u64>,
        out: &mut Vec<Piece>,
    ) -> Result<()> {
        if band.blocks().all(|block| self.direct(&block)) {
            push_direct(&self.bytes_of(&band.places()), range, out);
            return Ok(());
        }
        band.runs(|run| {
            if self.direct(&run.block) {
                push_direct(&self.bytes_of(&run.places), range, out);
            } else {
                self.push_tiles(&run, range, out);
            }
            Ok(())
        })
    }

    fn push_tiles(&self, run: &CellRun, range: &Range<u64>, out: &mut Vec<Piece>) {
        let grid = self.grid(&run.block);
        let mut place = run.places.start;
        while place < run.places.end {
            let (row, col) = self.within(&run.block, place);
            let tile = grid.tile(row, col);
            // To the end of the row's part in the tile, or of the tile if it holds whole rows.
            let whole = tile.width() == self.width();
            let last = if whole { tile.rows.end - 1 } else { row };
            let stop = self.place(&run.block, last, tile.cols.end - 1) + 1;
            let stop = stop.min(run.places.end);
            let bytes = self.bytes_of(&(place..stop));
            let bytes = bytes.start.max(range.start)..bytes.end.min(range.end);
            if bytes.start < bytes.end {
                let cell = (row - tile.rows.start) * tile.width() + (col - tile.cols.start);
                out.push(Piece::Block {
                    id: BlockId(self.place(&run.block, tile.rows.start, tile.cols.start)),
                    block_len: tile.cells() * self.size(),
                    skip: cell * self.size() + (bytes.start - place * self.size()),
                    take: bytes.end - bytes.start,
                });
            }
            place = stop;
        }
    }

    /// Visits the runs of direct bytes of a range: where each is stored, if it is not zeros, and
    /// its length.
    fn direct_runs<'v>(
        &self,
        range: &Range<u64>,
        visit: &mut (dyn FnMut(Option<u64>, usize) -> Result<()> + 'v),
    ) -> Result<()> {
        self.bands(range, &mut |band| {
            band.runs(|run| {
                let bytes = self.bytes_of(&run.places);
                let bytes = bytes.start.max(range.start)..bytes.end.min(range.end);
                let len = bytes.end.saturating_sub(bytes.start) as usize;
                match run.block.body {
                    _ if len == 0 => Ok(()),
                    BlockBody::Empty => visit(None, len),
                    BlockBody::Dense(value) if value == self.value => {
                        let skip = bytes.start - run.places.start * self.size();
                        let (row, col) = self.within(&run.block, run.places.start);
                        let cell = row * u64::from(run.block.width) + col;
                        visit(Some(run.block.payload() + cell * self.size() + skip), len)
                    }
                    _ => {
                        let number = run.block.number;
                        Err(Error::Bug(format!(
                            "block {number} is read as it is stored"
                        )))
                    }
                }
            })
        })
    }

    /// Visits the bands that hold a range of bytes.
    fn bands(
        &self,
        range: &Range<u64>,
        visit: &mut dyn FnMut(&RowBand<'_>) -> Result<()>,
    ) -> Result<()> {
        let places = range.start / self.size()..range.end.div_ceil(self.size());
        RowBand::each(self, places, visit)
    }
}

/// Appends a part of `range`, to the last piece if it goes on there.
pub(crate) fn push_direct(bytes: &Range<u64>, range: &Range<u64>, out: &mut Vec<Piece>) {
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
        Ok(self.describe())
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let range = range.start..range.end.min(self.bytes);
        if range.start >= range.end {
            return Ok(());
        }
        self.bands(&range, &mut |band| self.push_band(band, &range, out))
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        match *piece {
            Piece::Block { id, .. } => {
                let (row, col) = (id.0 / self.width(), self.cols.start + id.0 % self.width());
                if let Some(block) = self.object.block_at(row, col) {
                    let (row, col) = self.within(&block, id.0);
                    let tile = self.grid(&block).tile(row, col);
                    self.object.stored.name(&block, &tile, needed);
                }
            }
            Piece::Direct { at, take } => {
                let range = at..at.saturating_add(take).min(self.bytes);
                self.direct_runs(&range, &mut |offset, len| {
                    if let Some(at) = offset {
                        let source = &self.object.stored.source;
                        needed.name(source, at..at.saturating_add(len as u64));
                    }
                    Ok(())
                })?;
            }
        }
        Ok(false)
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        TILE_MEMORY
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let place = block.0;
        let no_tile = || Error::Bug(format!("no tile of {} begins at cell {place}", self.name));
        if place.saturating_mul(self.size()) >= self.bytes {
            return Err(no_tile());
        }
        let (row, col) = (place / self.width(), self.cols.start + place % self.width());
        let block = self.object.block_at(row, col).ok_or_else(no_tile)?;
        let (row, col) = self.within(&block, place);
        let tile = self.grid(&block).tile(row, col);
        let starts = tile.rows.start == row && tile.cols.start == col;
        if !starts || tile.cells() * self.size() != out.len() as u64 {
            return Err(no_tile());
        }
        let stored = &self.object.stored;
        stored.decode(&block, &tile, self.value, out, scratch)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let range = at..at.saturating_add(out.len() as u64).min(self.bytes);
        let mut rest = out;
        let mut fetches = Fetches::new(&*self.object.stored.source);
        self.direct_runs(&range, &mut |offset, len| {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            match offset {
                Some(offset) => fetches.push(offset, part),
                None => {
                    part.fill(0);
                    Ok(())
                }
            }
        })?;
        fetches.finish()
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        check::survey(self, visit);
        Ok(())
    }
}
