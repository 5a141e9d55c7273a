//! Full checks of the blocks of a DenseMatrix or a Frame: which cells to read, and what reading
//! tiles would repeat without end.
//!
//! A sparse block of a hundred bytes may decode to 2^64 cells, and a block over many columns would
//! be read once for each. Here every block is passed over once: counts, indices, places that come
//! twice, and whether each value fits its column. The memory is a few constants.

use std::ops::Range;
use std::sync::Arc;

use super::super::block::scan::{BATCH_VALUES, EntryBatch, SCAN_MEMORY};
use super::super::block::sorted::{EntryRect, SortedEntries, convert_batch, sorting_memory};
use super::super::block::table::{BlockBody, CellBlock};
use super::super::block::{in_block, inexact};
use super::super::convert::convert;
use super::super::strided;
use super::super::value::ValueType;
use super::DenseView;
use crate::array::{Array, BlockId, Piece};
use crate::container::Check;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::memory::scratch::Region;
use crate::memory::{Arena, room};

/// Entries that are sorted at once: 24 bytes each.
const SORTED: u64 = 1 << 20;
/// Stored bytes of a dense block that are looked at together.
const ROWS: u64 = 1 << 20;
/// Bytes of a visited piece.
const STEP: u64 = 8 << 20;

/// Visits the dense cells that are stored for this array alone. Sparse blocks may decode to any
/// number of tiles of nothing; [`CellCheck`] looks at their entries.
pub(super) fn survey(cells: &DenseView, visit: &mut dyn FnMut(Piece)) {
    if cells.bytes == 0 {
        return;
    }
    cells.blocks(|block| {
        let shown = cells.shown(&block);
        let alone = shown.end - shown.start == u64::from(block.width);
        match block.body {
            BlockBody::Dense(_) if cells.direct(&block) => survey_direct(cells, &block, visit),
            BlockBody::Dense(_) if alone => survey_tiles(cells, &block, visit),
            _ => {}
        }
    });
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

/// The full check of a view of cells.
pub(crate) struct CellCheck(pub(crate) Arc<DenseView>);

impl Check for CellCheck {
    /// Checks every block that begins in the first column of the view; a frame's other columns do
    /// the rest.
    fn check(&self, budget: &Arc<Budget>, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let (view, mut failed) = (&*self.0, Ok(()));
        view.blocks(|block| {
            let first = view.width() != 1 || block.col == view.cols.start;
            if !first || failed.is_err() {
                return;
            }
            match check_block(view, &block, budget) {
                Err(Error::Fault(fault)) => report(fault.array(view.name())),
                other => failed = other,
            }
        });
        failed
    }
}

fn check_block(view: &DenseView, block: &CellBlock, budget: &Arc<Budget>) -> Result<()> {
    match block.body {
        BlockBody::Empty => Ok(()),
        BlockBody::Dense(own) => dense(view, block, own, budget),
        BlockBody::Sparse(_) | BlockBody::Coo(_) => entries(view, block, budget),
    }
}

/// Runs `with` on so much scratch memory, which is charged.
fn with_scratch<T>(
    budget: &Arc<Budget>,
    bytes: u64,
    with: impl FnOnce(Arena<'_>) -> Result<T>,
) -> Result<T> {
    let _charge = budget.reserve(bytes);
    with(Region::default().scratch(bytes)?)
}

fn entries(view: &DenseView, block: &CellBlock, budget: &Arc<Budget>) -> Result<()> {
    let all = |len: u32| 0..u64::from(len);
    let (rows, cols) = (all(block.height), all(block.width));
    let memory = room(BATCH_VALUES) + SCAN_MEMORY;
    let ascends = with_scratch(budget, memory, |mut scratch| {
        let (mut before, mut ascends) = (None, true);
        let converted = scratch.take(BATCH_VALUES)?;
        let stored = &view.object.stored;
        stored.scan(block, &rows, &cols, scratch, &mut |batch| {
            for place in batch.rows().iter().zip(batch.cols()) {
                let place = Some((*place.0, *place.1));
                ascends &= before < place;
                before = place;
            }
            convertible(view, block, batch, converted)
        })?;
        Ok(ascends)
    })?;
    match ascends {
        true => Ok(()),
        false => with_scratch(budget, sorting_memory(SORTED), |scratch| {
            places(view, block, scratch)
        }),
    }
}

/// Whether no place comes twice among entries in any order.
fn places(view: &DenseView, block: &CellBlock, scratch: Arena<'_>) -> Result<()> {
    let sorted = SortedEntries {
        stored: &view.object.stored,
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
    let checked = sorted.visit(part, &(0..u64::MAX), scratch, &mut |_, _| Ok(()));
    checked.map_err(|e| e.map_fault(|f| in_block(f, block)))
}

fn convertible(
    view: &DenseView,
    block: &CellBlock,
    batch: &EntryBatch<'_>,
    out: &mut [u8],
) -> Result<()> {
    if block.width == 1 || view.object.types.list.len() == 1 {
        return convert_batch(block, batch, view.object.target(block, 0), out);
    }
    let own = block.value().map_or(1, ValueType::size);
    let places = batch.rows().iter().zip(batch.cols());
    for ((&row, &col), value) in places.zip(batch.values().chunks_exact(own)) {
        fits(view, block, (row.into(), col.into()), value)?;
    }
    Ok(())
}

fn fits(view: &DenseView, block: &CellBlock, (row, col): (u64, u64), value: &[u8]) -> Result<()> {
    let to = view.object.target(block, col);
    let own = block.value().unwrap_or(to);
    convert(own, to, value, &mut [0; 8][..to.size()])
        .map_err(|_| inexact(block, (row, col), to).into())
}

/// A dense block over several columns; one of the matrix, or over one column, is decoded by tiles.
fn dense(view: &DenseView, block: &CellBlock, own: ValueType, budget: &Arc<Budget>) -> Result<()> {
    let (width, size) = (u64::from(block.width), own.size() as u64);
    let same = |col: u64| view.object.target(block, col) == own;
    if view.object.types.list.len() == 1 || width == 1 || (0..width).all(same) {
        return Ok(());
    }
    // Converted, values have 8 bytes at most.
    let step = (ROWS / (width * 8)).max(1);
    let most = room(step * width * 8);
    with_scratch(budget, 3 * most + strided::MEMORY, |mut scratch| {
        for top in (0..u64::from(block.height)).step_by(step as usize) {
            let rows = top..(top + step).min(block.height.into());
            let mut scratch = scratch.lend();
            let raw = scratch.take((rows.end - rows.start) * width * size)?;
            let stored = &view.object.stored;
            stored.dense(block, &rows, &(0..width), raw, scratch.lend())?;
            let mut col = 0;
            while col < width {
                let to = view.object.target(block, col);
                let is_other = |col: &u64| view.object.target(block, *col) != to;
                let cols = col..(col..width).find(is_other).unwrap_or(width);
                col = cols.end;
                if to != own {
                    columns(block, (rows.start, &cols), to, raw, scratch.lend())?;
                }
            }
        }
        Ok(())
    })
}

/// Whether a type holds the values of columns side by side, in whole rows of a dense block from
/// `top` on.
fn columns(
    block: &CellBlock,
    (top, cols): (u64, &Range<u64>),
    to: ValueType,
    raw: &[u8],
    mut scratch: Arena<'_>,
) -> Result<()> {
    let own = block.value().unwrap_or(to);
    let (width, size) = (cols.end - cols.start, own.size());
    let row_len = block.width as usize * size;
    let count = (raw.len() / row_len) as u64 * width;
    let packed = scratch.take(count * size as u64)?;
    let out = scratch.take(count * to.size() as u64)?;
    let first = cols.start as usize * size;
    strided::pack(&raw[first..], row_len, width as usize * size, packed);
    convert(own, to, packed, out).map_err(|at| {
        let (row, col) = (top + at as u64 / width, cols.start + at as u64 % width);
        inexact(block, (row, col), to).into()
    })
}
