//! How a file of either form is changed: what is permitted, what the arrays are at other lengths,
//! and how the file comes about.
//!
//! Used by `container::writable`, as the object's [`WritableContainer`].

use std::sync::Arc;

use super::super::block::table::BlockBody;
use super::super::dense::CellObject;
use super::super::header::ObjectKind;
use super::super::value::ValueType;
use super::cells::{CellWriter, ChangedCells, ShownCells, ShownColumn};
use super::entries::{MatrixArray, MatrixArrays};
use super::file_writer::FileWriter;
use super::{COLUMNS, OFFSETS, ROWS_AT, VALUES, WrittenBody, WrittenObject};
use super::{change_of, consistency, too_large};
use crate::array::stored_run::StoredRun;
use crate::array::{Array, Info};
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::plain_write::dirty_bytes;
use crate::container::writable::{
    Amount, Change, ChangedArray, CommitWay, Consistency, Recipe, Restated, WritableContainer,
};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

/// Blocks that store few of their cells may have so many that to tell all of them would not end.
const MOST_CELLS: u64 = 1 << 34;

impl WrittenObject {
    /// The bytes of an array that have changed: of whole elements.
    fn dirty(&self, name: &str, changed: &[ChangedArray], element: u64) -> RangeSet {
        let Some(change) = change_of(name, changed) else {
            return RangeSet::default();
        };
        dirty_bytes(&change.ranges, (change.visible, change.len), element)
    }

    fn changed_cells<'a>(
        &'a self,
        cells: &'a CellObject,
        changed: &[ChangedArray],
    ) -> ChangedCells<'a> {
        let of = |(array, value): (&Arc<dyn Array>, &ValueType)| {
            let size = value.size() as u64;
            let bytes = self.dirty(array.name(), changed, size);
            let elements = bytes
                .iter()
                .map(|run| run.start / size..run.end.div_ceil(size));
            RangeSet::from_iter(elements)
        };
        ChangedCells {
            cells,
            dirty: self.arrays.iter().zip(&cells.types.list).map(of).collect(),
            is_matrix: self.data == ObjectKind::DenseMatrix,
        }
    }

    fn shown_cells<'a>(
        &'a self,
        cells: &CellObject,
        changed: &'a [ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<ShownCells<'a>> {
        let mut arrays = Vec::new();
        for (array, value) in self.arrays.iter().zip(&cells.types.list) {
            let name = array.name();
            arrays.push(ShownColumn {
                shown: self.shown(name, changed)?,
                change: change_of(name, changed),
                value: *value,
                len: self.len(name, changed)?,
            });
        }
        let is_matrix = self.data == ObjectKind::DenseMatrix;
        ShownCells::new(arrays, (self.cols, is_matrix), budget)
    }

    fn matrix<'a>(&'a self, changed: &'a [ChangedArray]) -> Result<MatrixArrays<'a>> {
        let array = |name| -> Result<MatrixArray<'a>> {
            Ok(MatrixArray {
                shown: self.shown(name, changed)?,
                len: self.len(name, changed)?,
                dirty: self.dirty(name, changed, self.element(name)?),
            })
        };
        Ok(MatrixArrays {
            values: array(VALUES)?,
            columns: array(COLUMNS)?,
            offsets: array(OFFSETS)?,
            value: self.value,
            cols: self.cols,
        })
    }

    /// The file as far as its head.
    fn begin<'w>(
        &self,
        old_len: u64,
        rows: u64,
        way: CommitWay,
        write: &'w mut dyn Recipe,
    ) -> Result<FileWriter<'w>> {
        let mut write = FileWriter::begin(write, way, old_len)?;
        write.keep(0..ROWS_AT)?;
        match rows == self.rows {
            true => write.keep(ROWS_AT..ROWS_AT + 8)?,
            false => write.put(&rows.to_le_bytes())?,
        }
        write.keep(ROWS_AT + 8..self.begin)?;
        Ok(write)
    }

    /// Why cells cannot be told anew where they have to be.
    fn immense(
        &self,
        cells: &CellObject,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Option<String>> {
        let (blocks, rows) = (cells.stored.table.iter(), self.new_rows(changed)?);
        let few = blocks.filter(|block| !matches!(block.body, BlockBody::Dense(_)));
        let left = few.map(|block| {
            let height = block.rows().end.min(rows).saturating_sub(block.row);
            height.saturating_mul(block.width.into())
        });
        let few = left.fold(0, u64::saturating_add);
        if few <= MOST_CELLS {
            return Ok(None);
        }
        let changes = self.changed_cells(cells, changed);
        let is_kept = changes.are_dense(rows)
            && changes.are_held(rows, &mut self.shown_cells(cells, changed, budget)?)?;
        let why = format!("{few} cells of blocks that are not dense would have to be encoded anew");
        Ok((!is_kept).then_some(why))
    }

    fn amount_of_cells(&self, cells: &CellObject, changed: &[ChangedArray]) -> Result<Amount> {
        let changes = self.changed_cells(cells, changed);
        let (rows, stored) = (self.new_rows(changed)?, cells.stored.source.len());
        if !changes.are_own(rows) && !changes.is_one_block() {
            let mut anew = 0u64;
            for array in &self.arrays {
                anew = anew.saturating_add(self.len(array.name(), changed)?);
            }
            return Ok(told_anew(stored, anew));
        }
        let counts = changes.dirty.iter().map(RangeSet::len);
        Ok(Amount {
            stored,
            changed: counts.fold(0, u64::saturating_add).saturating_mul(8),
            ..Amount::default()
        })
    }
}

fn told_anew(stored: u64, changed: u64) -> Amount {
    Amount {
        stored,
        changed,
        grown: changed.saturating_sub(stored),
        moves: true,
        ..Amount::default()
    }
}

impl WritableContainer for WrittenObject {
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
        let bytes = self.array(array.name)?.info()?.bytes;
        match change {
            Change::Write { len: 0, .. } => Ok(()),
            Change::Write { offset, len } => match offset.checked_add(len) {
                Some(end) if end <= bytes => Ok(()),
                Some(end) => self.takes_length(array.name, end),
                None => Err(too_large()),
            },
            Change::SetLen(len) | Change::Truncate(len) => self.takes_length(array.name, len),
        }
    }

    fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info> {
        self.info_at(array.name, len)
    }

    fn stored_run(
        &self,
        array: ArrayAddress<'_>,
        changed: &[ChangedArray],
    ) -> Result<Option<StoredRun>> {
        match &self.body {
            WrittenBody::Plain(_) => self.plain_run(array.name, changed),
            WrittenBody::Cells(cells) if self.new_rows(changed)? == self.rows => {
                Ok(self.changed_cells(cells, &[]).run())
            }
            WrittenBody::Cells(_) | WrittenBody::Entries(_) => Ok(None),
        }
    }

    fn restate(
        &self,
        _container: ContainerNumber,
        changed: &[ChangedArray],
        _budget: &Arc<Budget>,
    ) -> Result<Restated> {
        let mut restated = Restated::default();
        for array in changed {
            let name = array.shown.name();
            let info = self.info_at(name, array.len)?;
            restated.arrays.insert(name.to_owned(), info);
        }
        if self.unfinished(changed)?.is_none() {
            let rows = self.new_rows(changed)?;
            restated.attributes.insert("rows".into(), rows.into());
        }
        Ok(restated)
    }

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        if let Some(why) = self.unfinished(changed)? {
            return Ok(Consistency::NotYet(why));
        }
        match &self.body {
            WrittenBody::Plain(_) if self.loses_form(changed)? => {
                let why = "without rows a file does not say which form it has";
                Ok(Consistency::NotYet(why.into()))
            }
            WrittenBody::Plain(_) if self.data != ObjectKind::CsrMatrix => Ok(Consistency::Now),
            WrittenBody::Plain(_) => consistency::judge(&self.matrix(changed)?, false, budget),
            WrittenBody::Entries(_) => consistency::judge(&self.matrix(changed)?, true, budget),
            WrittenBody::Cells(cells) => {
                let why = self.immense(cells, changed, budget)?;
                Ok(why.map_or(Consistency::Now, Consistency::Unfit))
            }
        }
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        match &self.body {
            WrittenBody::Plain(source) => {
                let (stored, changed) = (source.len(), self.plain_file(source, changed)?.changed());
                Ok(Amount {
                    moves: false,
                    ..told_anew(stored, changed)
                })
            }
            WrittenBody::Cells(cells) => self.amount_of_cells(cells, changed),
            WrittenBody::Entries(source) => {
                let matrix = self.matrix(changed)?;
                let entry = 4 + self.value.size() as u64;
                let counts = matrix.rows().saturating_mul(4);
                let all = matrix.entries().saturating_mul(entry);
                Ok(told_anew(source.len(), all.saturating_add(counts)))
            }
        }
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let rows = self.new_rows(changed)?;
        match &self.body {
            WrittenBody::Plain(source) => {
                self.plain_file(source, changed)?.tell(way, budget, write)
            }
            WrittenBody::Entries(source) => {
                let write = self.begin(source.len(), rows, way, write)?;
                self.matrix(changed)?.tell(budget, write)
            }
            WrittenBody::Cells(cells) => {
                let told = CellWriter {
                    shown: self.shown_cells(cells, changed, budget)?,
                    old: Some(self.changed_cells(cells, changed)),
                    write: self.begin(cells.stored.source.len(), rows, way, write)?,
                };
                told.tell_changed(rows)
            }
        }
    }
}
