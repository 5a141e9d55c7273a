//! What new files have in common with changed ones: heads of blocks, and sparse blocks of entries.
//!
//! Used by [`super::super::create`].

use std::sync::Arc;

use super::super::value::ValueType;
use super::cell_block::{BlockRect, DENSE};
use super::consistency::falling_column;
use super::entry_block::{ElementWindow, ShownEntries};
use super::file_writer::FileWriter;
use super::{COLUMNS, WrittenObject};
use crate::array::Array;
use crate::container::daphne::header::ObjectKind;
use crate::container::rewrite::{CommitWay, Recipe};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

impl WrittenObject {
    /// One that is not in a file yet, of this many rows and columns.
    pub(crate) fn not_stored(
        data: ObjectKind,
        (rows, cols): (u64, u64),
        arrays: Vec<Arc<dyn Array>>,
    ) -> WrittenObject {
        WrittenObject {
            data,
            rows,
            cols,
            arrays,
            labels: None,
            has_sidecar: false,
            is_told: false,
        }
    }
}

/// Position and header of a dense block, with its value type.
pub(crate) fn dense_head(
    (row, col): (u64, u64),
    (height, width): (u32, u32),
    value: ValueType,
) -> Vec<u8> {
    let rect = BlockRect {
        row,
        col,
        height,
        width,
    };
    rect.typed_head(DENSE, value)
}

/// The entries of a matrix: its arrays with their lengths.
pub(crate) struct NewEntries<'a> {
    pub(crate) values: (&'a dyn Array, ValueType, u64),
    pub(crate) columns: (&'a dyn Array, u64),
    pub(crate) offsets: (&'a dyn Array, u64),
    pub(crate) rows: u64,
    pub(crate) cols: u64,
}

/// Tells a file of sparse blocks behind a head. Columns have to rise in each row.
pub(crate) fn put_sparse(
    head: &[u8],
    entries: NewEntries<'_>,
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<()> {
    let (values, value, len) = entries.values;
    let size = value.size() as u64;
    let numbers = |(array, len)| ElementWindow::new(array, (8, len), budget);
    let mut shown = ShownEntries {
        offsets: numbers(entries.offsets)?,
        columns: numbers(entries.columns)?,
        values: ElementWindow::new(values, (size, len), budget)?,
        value,
        cols: entries.cols,
    };
    if let Some(row) = falling_column(&mut shown, entries.rows)? {
        let why = format!("the columns in {COLUMNS} of row {row} do not rise");
        return Err(Error::Invalid(why));
    }
    let mut write = FileWriter::begin(write, CommitWay::Replaced, 0)?;
    write.put(head)?;
    shown.put_all(entries.rows, &mut write)?;
    write.end()
}
