//! A DenseMatrix or a Frame of the specification's form: blocks of any type and any cutting.
//!
//! Blocks in which nothing has changed stay as they are stored, of a dense one all bands but those
//! that have changed. Rows that are cut off are cut off their blocks; rows that come lengthen the
//! last block, if that is a dense one that ends where the file does, or are blocks of their own.
//! Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::super::block::table::{BlockBody, CellBlock};
use super::super::dense::CellObject;
use super::super::header::ObjectKind;
use super::super::value::ValueType;
use super::cell_block::{BlockRect, DENSE, ShownCells};
use super::file_writer::FileWriter;
use super::{ROWS_AT, WrittenObject, change_of, of_object, too_large};
use crate::array::{Array, Info};
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::plain_write::dirty_bytes;
use crate::container::rewrite::{
    Amount, Change, ChangedArray, CommitWay, Consistency, Recipe, Restated, Rewrite,
};
use crate::error::{Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

/// A block that stores few of its cells may have so many that to look at all of them would not end.
const MOST_CELLS: u64 = 1 << 34;

/// The blocks, and where they begin.
pub(crate) struct CellBody {
    pub(crate) cells: Arc<CellObject>,
    pub(crate) begin: u64,
}

pub(super) struct CellFile {
    pub(super) object: WrittenObject,
    pub(super) body: CellBody,
}

/// The cells that have changed.
struct DirtyCells {
    /// By their numbers, of each array.
    of_arrays: Vec<RangeSet>,
    cols: u64,
    is_matrix: bool,
}

impl DirtyCells {
    fn touch(&self, rows: &Range<u64>, cols: &Range<u64>) -> bool {
        if self.is_matrix {
            let all = self.of_arrays.first();
            return all.is_some_and(|all| self.touch_matrix(all, rows, cols));
        }
        let own = cols.start as usize..cols.end as usize;
        let own = self.of_arrays.get(own).unwrap_or_default();
        own.iter()
            .any(|column| column.within(rows.clone()).next().is_some())
    }

    fn touch_matrix(&self, all: &RangeSet, rows: &Range<u64>, cols: &Range<u64>) -> bool {
        let width = self.cols.max(1);
        let cells = rows.start.saturating_mul(width)..rows.end.saturating_mul(width);
        all.within(cells).any(|run| {
            let (first, last) = (run.start / width, (run.end - 1) / width);
            let from = |at: u64| at % width < cols.end;
            let to = |at: u64| at % width >= cols.start;
            match last - first {
                0 => from(run.start) && to(run.end - 1),
                1 => from(run.start) || to(run.end - 1),
                _ => true,
            }
        })
    }
}

impl CellFile {
    fn is_matrix(&self) -> bool {
        self.object.data == ObjectKind::DenseMatrix
    }

    fn types(&self) -> &[ValueType] {
        &self.body.cells.types.list
    }

    /// The arrays with their value types.
    fn typed(&self) -> impl Iterator<Item = (&Arc<dyn Array>, ValueType)> {
        self.object.arrays.iter().zip(self.types().iter().copied())
    }

    fn dirty(&self, changed: &[ChangedArray]) -> DirtyCells {
        let of = |(array, value): (&Arc<dyn Array>, ValueType)| {
            let Some(change) = change_of(array.name(), changed) else {
                return RangeSet::default();
            };
            let size = value.size() as u64;
            let bytes = dirty_bytes(&change.ranges, (change.visible, change.len), size);
            let cells = bytes
                .iter()
                .map(|run| run.start / size..run.end.div_ceil(size));
            RangeSet::from_iter(cells)
        };
        DirtyCells {
            of_arrays: self.typed().map(of).collect(),
            cols: self.object.cols,
            is_matrix: self.is_matrix(),
        }
    }

    fn shown<'a>(
        &'a self,
        changed: &'a [ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<ShownCells<'a>> {
        let mut arrays = Vec::new();
        for (array, value) in self.typed() {
            let name = array.name();
            let shown = self.object.shown(name, changed)?;
            arrays.push((shown, value, self.object.len(name, changed)?));
        }
        ShownCells::new(arrays, (self.object.cols, self.is_matrix()), budget)
    }

    /// Whether rows that come can lengthen a block: the last one of the file.
    fn can_grow(&self, block: &CellBlock, len: u64) -> bool {
        let is_one = self.is_matrix() || self.object.cols == 1;
        is_one
            && block.end == len
            && block.rows().end == self.object.rows
            && block.col == 0
            && u64::from(block.width) == self.object.cols
            && block.body == BlockBody::Dense(self.types()[0])
    }
}

/// A file that is being told.
struct CellWriter<'a, 'w> {
    file: &'a CellFile,
    changed: &'a [ChangedArray],
    budget: &'a Arc<Budget>,
    dirty: DirtyCells,
    shown: ShownCells<'a>,
    write: FileWriter<'w>,
    /// Rows that there are going to be.
    rows: u64,
}

impl CellWriter<'_, '_> {
    fn tell(mut self) -> Result<()> {
        let (file, old_rows) = (self.file, self.file.object.rows);
        let table = &file.body.cells.stored.table;
        let len = file.body.cells.stored.source.len();
        self.head()?;
        let mut told = old_rows.min(self.rows);
        for block in table.iter() {
            let is_left = block.rows().end.min(self.rows) > block.row;
            if self.rows > old_rows && file.can_grow(&block, len) {
                told = self.grown(&block)?;
            } else if is_left || old_rows == self.rows {
                self.block(&block)?;
            }
        }
        self.new_blocks(told)?;
        self.write.end()
    }

    fn head(&mut self) -> Result<()> {
        let (object, mut kept) = (&self.file.object, 0);
        if self.rows != object.rows {
            self.write.keep(0..ROWS_AT)?;
            self.write.put(&self.rows.to_le_bytes())?;
            kept = ROWS_AT + 8;
        }
        let begin = self.file.body.begin;
        if let Some((labels, change)) = object.changed_labels(self.changed) {
            self.write.keep(kept..labels.at)?;
            labels.put(change, self.budget, &mut self.write)?;
            kept = begin;
        }
        self.write.keep(kept..begin)
    }

    /// A block of which some rows stay, or all.
    fn block(&mut self, block: &CellBlock) -> Result<()> {
        let rows = block.row..block.rows().end.min(self.rows);
        let is_cut = rows.end < block.rows().end;
        if !is_cut && !self.dirty.touch(&rows, &block.cols()) {
            return self.write.keep(block.at..block.end);
        }
        let rect = BlockRect {
            row: block.row,
            col: block.col,
            height: (rows.end - rows.start) as u32,
            width: block.width,
        };
        match block.body {
            BlockBody::Dense(value) if self.is_held(rect, value)? => self.dense(block, rect, value),
            body => self.shown.put_block(rect, body, &mut self.write),
        }
    }

    /// Whether the value type of a dense block holds what has changed in it.
    fn is_held(&mut self, rect: BlockRect, value: ValueType) -> Result<bool> {
        for (rows, cols) in rect.bands() {
            if self.dirty.touch(&rows, &cols) && self.shown.band((&rows, &cols), value)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A dense block: bands in which nothing has changed stay.
    fn dense(&mut self, block: &CellBlock, rect: BlockRect, value: ValueType) -> Result<()> {
        match rect.height == block.height {
            true => self.write.keep(block.at..block.payload())?,
            false => self.write.put(&rect.typed_head(DENSE, value))?,
        }
        self.dense_rows(block, rect, value)
    }

    fn dense_rows(&mut self, block: &CellBlock, rect: BlockRect, value: ValueType) -> Result<()> {
        let (width, size) = (u64::from(block.width), value.size() as u64);
        for (rows, cols) in rect.bands() {
            if self.dirty.touch(&rows, &cols) {
                let cells = self.shown.band((&rows, &cols), value)?;
                let cells = cells.ok_or_else(|| Fault::new("values have changed meanwhile"))?;
                self.write.put(cells)?;
                continue;
            }
            let place = |row: u64, col: u64| (row - block.row) * width + col - block.col;
            let (first, last) = (
                place(rows.start, cols.start),
                place(rows.end - 1, cols.end - 1) + 1,
            );
            let at = block.payload();
            self.write.keep(at + first * size..at + last * size)?;
        }
        Ok(())
    }

    /// The last block, with as many more rows as it can count. Says where it ends.
    fn grown(&mut self, block: &CellBlock) -> Result<u64> {
        let end = self.rows.min(block.row.saturating_add(u32::MAX.into()));
        let rect = BlockRect {
            row: block.row,
            col: block.col,
            height: (end - block.row) as u32,
            width: block.width,
        };
        let old = BlockRect {
            height: block.height,
            ..rect
        };
        let value = self.file.types()[0];
        self.write.put(&rect.typed_head(DENSE, value))?;
        self.dense_rows(block, old, value)?;
        let more = BlockRect {
            row: block.rows().end,
            height: rect.height - block.height,
            ..rect
        };
        for (rows, cols) in more.bands() {
            let cells = self.shown.band((&rows, &cols), value)?;
            let cells = cells.ok_or_else(|| Fault::new("values have changed meanwhile"))?;
            self.write.put(cells)?;
        }
        Ok(end)
    }

    /// Rows that no block has yet.
    fn new_blocks(&mut self, from: u64) -> Result<()> {
        const MOST: u64 = u32::MAX as u64;
        let cols = self.file.object.cols;
        // Columns of a frame have types of their own.
        let step = if self.file.is_matrix() { MOST } else { 1 };
        let mut row = from;
        while row < self.rows {
            let height = (self.rows - row).min(MOST);
            let mut col = 0;
            while col < cols {
                let width = (cols - col).min(step);
                let rect = BlockRect {
                    row,
                    col,
                    height: height as u32,
                    width: width as u32,
                };
                self.shown
                    .put_block(rect, BlockBody::Empty, &mut self.write)?;
                col += width;
            }
            row += height;
        }
        Ok(())
    }
}

impl Rewrite for CellFile {
    of_object!(u64::MAX);

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        if let Some(why) = self.object.unfinished(changed)? {
            return Ok(Consistency::NotYet(why));
        }
        if let Some((labels, change)) = self.object.changed_labels(changed) {
            let judged = labels.judge(change, budget)?;
            if judged != Consistency::Now {
                return Ok(judged);
            }
        }
        let dirty = self.dirty(changed);
        let is_too_large = |block: &CellBlock| {
            let is_dense = matches!(block.body, BlockBody::Dense(_));
            !is_dense && block.area() > MOST_CELLS && dirty.touch(&block.rows(), &block.cols())
        };
        let mut blocks = self.body.cells.stored.table.iter();
        Ok(match blocks.find(is_too_large) {
            Some(block) => Consistency::Unfit(format!(
                "block {} has {} cells, and would have to be encoded anew",
                block.number,
                block.area()
            )),
            None => Consistency::Now,
        })
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let (dirty, rows) = (self.dirty(changed), self.object.new_rows(changed)?);
        let stored = &self.body.cells.stored;
        let counts = dirty.of_arrays.iter().map(RangeSet::len);
        let mut bytes = counts.fold(0, u64::saturating_add).saturating_mul(8);
        let mut moves = rows < self.object.rows;
        if let Some((labels, change)) = self.object.changed_labels(changed) {
            let told = labels.stored(change);
            bytes = bytes.saturating_add(told);
            moves |= told != self.body.begin.saturating_sub(labels.at);
        }
        for block in stored.table.iter() {
            let is_dense = matches!(block.body, BlockBody::Dense(_));
            if !is_dense && dirty.touch(&block.rows(), &block.cols()) {
                (bytes, moves) = (bytes.saturating_add(block.stored()), true);
            }
        }
        Ok(Amount {
            stored: stored.source.len(),
            changed: bytes,
            moves,
            ..Amount::default()
        })
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let told = CellWriter {
            file: self,
            changed,
            budget,
            dirty: self.dirty(changed),
            shown: self.shown(changed, budget)?,
            write: FileWriter::begin(write, way, self.body.cells.stored.source.len())?,
            rows: self.object.new_rows(changed)?,
        };
        told.tell()
    }
}
