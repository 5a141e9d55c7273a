//! A CSRMatrix of the specification's form: sparse blocks, COO blocks, and others that hold
//! entries.
//!
//! Where only values change the blocks keep their cutting, and those without a changed entry stay
//! as they are stored; a dense one with a change becomes a sparse one, since a value may have
//! become zero. With other columns or offsets the file becomes sparse blocks of all columns, as
//! many as its rows need. Used by [`super`].

use std::sync::Arc;

use super::super::block::table::{BlockBody, CellBlock};
use super::super::csr::read::CsrMatrix;
use super::cell_block::BlockRect;
use super::entry_block::{ElementWindow, ShownEntries};
use super::file_writer::FileWriter;
use super::{COLUMNS, OFFSETS, ROWS_AT, VALUES, WrittenObject};
use super::{change_of, consistency, of_object, too_large};
use crate::array::Info;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::plain_write::dirty_bytes;
use crate::container::rewrite::{
    Amount, Change, ChangedArray, CommitWay, Consistency, Recipe, Restated, Rewrite,
};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

/// The blocks, and where they begin.
pub(crate) struct EntryBody {
    pub(crate) matrix: Arc<CsrMatrix>,
    pub(crate) begin: u64,
}

pub(super) struct EntryFile {
    pub(super) object: WrittenObject,
    pub(super) body: EntryBody,
}

impl EntryFile {
    /// The changed entries, by their numbers, if nothing but values has changed.
    fn changed_values(&self, changed: &[ChangedArray]) -> Result<Option<RangeSet>> {
        let others = [COLUMNS, OFFSETS];
        let size = self.object.element(VALUES)?;
        let is_longer = self.object.len(VALUES, changed)? != self.object.len(VALUES, &[])?;
        if is_longer || others.iter().any(|name| change_of(name, changed).is_some()) {
            return Ok(None);
        }
        let dirty = change_of(VALUES, changed).map_or_else(RangeSet::default, |change| {
            let bytes = dirty_bytes(&change.ranges, (change.visible, change.len), size);
            let entries = bytes.iter().map(|run| run.start / size..run.end / size);
            RangeSet::from_iter(entries)
        });
        Ok(Some(dirty))
    }

    fn shown<'a>(
        &'a self,
        changed: &'a [ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<ShownEntries<'a>> {
        let window = |name| {
            let (shown, size) = (
                self.object.shown(name, changed)?,
                self.object.element(name)?,
            );
            ElementWindow::new(shown, (size, self.object.len(name, changed)?), budget)
        };
        Ok(ShownEntries {
            offsets: window(OFFSETS)?,
            columns: window(COLUMNS)?,
            values: window(VALUES)?,
            value: self.body.matrix.value,
            cols: self.object.cols,
        })
    }

    /// The same cutting; blocks with a changed entry are written anew.
    fn tell_values(
        &self,
        dirty: &RangeSet,
        mut shown: ShownEntries<'_>,
        mut write: FileWriter<'_>,
    ) -> Result<()> {
        write.keep(0..self.body.begin)?;
        for block in self.body.matrix.stored.table.iter() {
            let has_changed = match block.body {
                BlockBody::Empty => false,
                _ if block.height == 0 => false,
                _ => {
                    let entries = shown.of_rows(&block.rows())?;
                    shown.lie_in(dirty.within(entries).flatten(), &block.cols())?
                }
            };
            match has_changed {
                false => write.keep(block.at..block.end)?,
                true => shown.put_block(rect_of(&block), block.body, &mut write)?,
            }
        }
        write.end()
    }

    /// All entries anew.
    fn tell_all(
        &self,
        rows: u64,
        mut shown: ShownEntries<'_>,
        mut write: FileWriter<'_>,
    ) -> Result<()> {
        write.keep(0..ROWS_AT)?;
        write.put(&rows.to_le_bytes())?;
        write.keep(ROWS_AT + 8..self.body.begin)?;
        shown.put_all(rows, &mut write)?;
        write.end()
    }
}

fn rect_of(block: &CellBlock) -> BlockRect {
    BlockRect {
        row: block.row,
        col: block.col,
        height: block.height,
        width: block.width,
    }
}

impl Rewrite for EntryFile {
    of_object!(u64::MAX / 8);

    /// In each row columns rise: readers show them sorted, and none twice.
    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        if let Some(why) = self.object.unfinished(changed)? {
            return Ok(Consistency::NotYet(why));
        }
        let agree = consistency::judge(&self.object, changed, budget)?;
        if agree != Consistency::Now || self.changed_values(changed)?.is_some() {
            return Ok(agree);
        }
        let mut shown = self.shown(changed, budget)?;
        let rows = self.object.new_rows(changed)?;
        Ok(match consistency::falling_column(&mut shown, rows)? {
            Some(row) => {
                Consistency::NotYet(format!("the columns in {COLUMNS} of row {row} do not rise"))
            }
            None => Consistency::Now,
        })
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let stored = self.body.matrix.stored.source.len();
        let len = self.object.len(VALUES, changed)?;
        let entries = len / self.object.element(VALUES)?;
        let rows = self.object.new_rows(changed)?;
        // Until it is looked for where they lie.
        let all = entries
            .saturating_mul(12)
            .saturating_add(rows.saturating_mul(4));
        Ok(Amount {
            stored,
            changed: all,
            moves: true,
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
        let shown = self.shown(changed, budget)?;
        let write = FileWriter::begin(write, way, self.body.matrix.stored.source.len())?;
        match self.changed_values(changed)? {
            Some(dirty) => self.tell_values(&dirty, shown, write),
            None => self.tell_all(self.object.new_rows(changed)?, shown, write),
        }
    }
}
