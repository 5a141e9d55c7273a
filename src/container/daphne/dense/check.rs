//! Full checks of the blocks of a DenseMatrix or a Frame: which cells to read, and what reading tiles would
//! repeat without end.
//!
//! A sparse block of a hundred bytes may decode to 2^64 cells, and a block over many columns would be read
//! once for each. Here every block is passed over once: counts, indices, places that come twice, and
//! whether each value fits its column. A CSRMatrix shows all its entries but for blocks that claim none.

use std::ops::Range;

use super::super::block::inexact;
use super::super::block::scan::EntryBatch;
use super::super::block::sorted::{EntryRect, SortedEntries, convert_batch};
use super::super::block::table::{BlockBody, CellBlock};
use super::super::convert::convert;
use super::super::value::ValueType;
use super::DenseView;
use crate::array::{BlockId, Piece};
use crate::error::{Error, Fault, Result};

/// Entries that are sorted at once: 24 bytes each.
const SORTED: u64 = 1 << 20;
/// Stored bytes of a dense block that are looked at together.
const ROWS: u64 = 1 << 20;
/// Bytes of a visited piece.
const STEP: u64 = 8 << 20;

/// Visits the dense cells that are stored for this array alone. Sparse blocks may decode to any number of
/// tiles of nothing; [`cells`] looks at their entries.
pub(in super::super) fn survey(cells: &DenseView, visit: &mut dyn FnMut(Piece)) {
    if cells.bytes == 0 {
        return;
    }
    for block in cells.blocks() {
        let shown = cells.shown(&block);
        let alone = shown.end - shown.start == u64::from(block.width);
        match block.body {
            BlockBody::Dense(_) if cells.direct(&block) => survey_direct(cells, &block, visit),
            BlockBody::Dense(_) if alone => survey_tiles(cells, &block, visit),
            _ => {}
        }
    }
}

/// Visits the stored cells of a block that are no tiles.
fn survey_direct(cells: &DenseView, block: &CellBlock, visit: &mut dyn FnMut(Piece)) {
    let shown = cells.shown(block);
    let whole = shown.end - shown.start == cells.width();
    let height = u64::from(block.height);
    let runs = if whole { 1 } else { height };
    for row in 0..runs {
        let last = if whole { height - 1 } else { row };
        let start = cells.place(block, row, shown.start);
        let bytes = cells.bytes_of(&(start..cells.place(block, last, shown.end - 1) + 1));
        let mut at = bytes.start;
        while at < bytes.end {
            let take = STEP.min(bytes.end - at);
            visit(Piece::Direct { at, take });
            at += take;
        }
    }
}

/// Visits every tile of a dense block.
fn survey_tiles(cells: &DenseView, block: &CellBlock, visit: &mut dyn FnMut(Piece)) {
    let (grid, shown) = (cells.grid(block), cells.shown(block));
    let (mut row, mut col) = (0, shown.start);
    while row < u64::from(block.height) {
        let tile = grid.tile(row, col);
        let take = tile.cells() * cells.size();
        visit(Piece::Block {
            id: BlockId(cells.place(block, row, col)),
            block_len: take,
            skip: 0,
            take,
        });
        col = tile.cols.end;
        if col == shown.end {
            (row, col) = (tile.rows.end, shown.start);
        }
    }
}

/// Checks every block that begins in the first column of the array; a frame's other columns do the rest.
pub(in super::super) fn cells(cells: &DenseView, report: &mut dyn FnMut(Fault)) -> Result<()> {
    for block in cells.blocks() {
        let first = cells.width() != 1 || block.col == cells.cols.start;
        if !first {
            continue;
        }
        let checked = match block.body {
            BlockBody::Empty => Ok(()),
            BlockBody::Dense(own) => dense(cells, &block, own),
            BlockBody::Sparse(_) | BlockBody::Coo(_) => entries(cells, &block),
        };
        match checked {
            Err(Error::Fault(fault)) => report(*fault),
            other => other?,
        }
    }
    Ok(())
}

fn entries(cells: &DenseView, block: &CellBlock) -> Result<()> {
    let all = |len: u32| 0..u64::from(len);
    let (mut before, mut ascends) = (None, true);
    let mut converted = Vec::new();
    let stored = &cells.object.stored;
    stored.scan(block, &all(block.height), &all(block.width), &mut |batch| {
        for place in batch.rows.iter().zip(&batch.cols) {
            let place = Some((*place.0, *place.1));
            ascends &= before < place;
            before = place;
        }
        convertible(cells, block, batch, &mut converted)
    })?;
    if ascends {
        Ok(())
    } else {
        places(cells, block)
    }
}

/// Whether no place comes twice among entries in any order.
fn places(cells: &DenseView, block: &CellBlock) -> Result<()> {
    let region = SortedEntries {
        stored: &cells.object.stored,
        blocks: &[block.number],
        to: None,
        most: SORTED,
    };
    let part = EntryRect {
        rows: block.rows(),
        cols: block.cols(),
        first: 0,
        entries: block.entries(),
    };
    let checked = region.visit(part, &(0..u64::MAX), &mut |_, _| Ok(()));
    checked.map_err(|e| e.map_fault(|f| super::super::block::in_block(f, block)))
}

fn convertible(
    cells: &DenseView,
    block: &CellBlock,
    batch: &EntryBatch,
    out: &mut Vec<u8>,
) -> Result<()> {
    if block.width == 1 || cells.object.types.len() == 1 {
        return convert_batch(block, batch, cells.object.target(block, 0), out);
    }
    let own = block.value().map_or(1, ValueType::size);
    let places = batch.rows.iter().zip(&batch.cols);
    for ((&row, &col), value) in places.zip(batch.values.chunks_exact(own)) {
        fits(cells, block, (row.into(), col.into()), value)?;
    }
    Ok(())
}

fn fits(cells: &DenseView, block: &CellBlock, (row, col): (u64, u64), value: &[u8]) -> Result<()> {
    let to = cells.object.target(block, col);
    let own = block.value().unwrap_or(to);
    convert(own, to, value, &mut [0; 8][..to.size()])
        .map_err(|_| inexact(block, (row, col), to).into())
}

/// A dense block over several columns; one of the matrix, or over one column, is decoded by tiles.
fn dense(cells: &DenseView, block: &CellBlock, own: ValueType) -> Result<()> {
    let width = u64::from(block.width);
    let other = |col: &u64| cells.object.target(block, *col) != own;
    let cols: Vec<u64> = (0..width).filter(other).collect();
    if cells.object.types.len() == 1 || width == 1 || cols.is_empty() {
        return Ok(());
    }
    let step = (ROWS / (width * own.size() as u64)).max(1);
    let (mut raw, mut column, mut converted) = (Vec::new(), Vec::new(), Vec::new());
    for top in (0..u64::from(block.height)).step_by(step as usize) {
        let rows: Range<u64> = top..(top + step).min(block.height.into());
        raw.resize(
            (rows.end - rows.start) as usize * block.width as usize * own.size(),
            0,
        );
        let stored = &cells.object.stored;
        stored.dense(block, &rows, &(0..width), &mut raw)?;
        for &col in &cols {
            column.clear();
            for row in raw.chunks_exact(block.width as usize * own.size()) {
                column.extend_from_slice(&row[col as usize * own.size()..][..own.size()]);
            }
            let to = cells.object.target(block, col);
            converted.resize(column.len() / own.size() * to.size(), 0);
            convert(own, to, &column, &mut converted)
                .map_err(|at| inexact(block, (top + at as u64, col), to))?;
        }
    }
    Ok(())
}
