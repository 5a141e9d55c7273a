//! Whether the arrays of a CSRMatrix agree: as many columns as values, offsets that rise from 0 to
//! their number, columns inside the matrix, and in the specification's form columns that rise in
//! each row.
//!
//! What has not changed is not looked at, but for offsets, of which each is held against the one
//! before. Memory for a step is charged. Used by [`super`] and, for new files, by `create`.

use std::sync::Arc;

use super::entries::{ElementWindow, MatrixArrays};
use super::{COLUMNS, OFFSETS, VALUES};
use crate::array::Array;
use crate::container::writable::Consistency;
use crate::error::Result;
use crate::memory::budget::Budget;

/// `rises`: whether columns have to rise in each row.
pub(crate) fn judge(
    matrix: &MatrixArrays<'_>,
    rises: bool,
    budget: &Arc<Budget>,
) -> Result<Consistency> {
    let not_yet = |why: String| Ok(Consistency::NotYet(why));
    let (values, columns) = (matrix.entries(), matrix.columns.len / 8);
    if values != columns {
        return not_yet(format!(
            "{COLUMNS} has {columns} elements, {VALUES} {values}"
        ));
    }
    if matrix.offsets.len == 0 {
        return not_yet(format!("{OFFSETS} is empty"));
    }
    if let Some(why) = offsets(matrix, budget)? {
        return not_yet(why);
    }
    if let Some((at, column)) = outside(matrix, budget)? {
        let cols = matrix.cols;
        return not_yet(format!(
            "{COLUMNS}[{at}] is {column}, and there are {cols} columns"
        ));
    }
    match rises.then(|| falling_column(matrix, budget)) {
        Some(row) => match row? {
            Some(row) => not_yet(format!("the columns in {COLUMNS} of row {row} do not rise")),
            None => Ok(Consistency::Now),
        },
        None => Ok(Consistency::Now),
    }
}

/// Why the offsets do not rise from 0 to the number of entries.
fn offsets(matrix: &MatrixArrays<'_>, budget: &Arc<Budget>) -> Result<Option<String>> {
    let (all, entries) = (0..matrix.offsets.len / 8, matrix.entries());
    // Unchanged ones rise; where they end is held against the entries.
    let seen = match matrix.offsets.dirty.is_empty() {
        false => all,
        true => all.end.saturating_sub(1)..all.end,
    };
    let (mut least, mut wrong) = (0, None);
    let mut window = matrix.offsets.window(8, budget)?;
    window.each(seen, &mut |at, offset| {
        let is_first = at == 0 && offset != 0;
        if wrong.is_none() && (offset < least || offset > entries || is_first) {
            let most = if is_first { 0 } else { entries };
            wrong = Some(format!(
                "{OFFSETS}[{at}] is {offset}, not {least} to {most}"
            ));
        }
        least = offset;
    })?;
    let ends = format!("{OFFSETS} ends with {least}, and there are {entries} entries");
    Ok(wrong.or_else(|| (least != entries).then_some(ends)))
}

/// A changed column outside of the matrix.
fn outside(matrix: &MatrixArrays<'_>, budget: &Arc<Budget>) -> Result<Option<(u64, u64)>> {
    let mut wrong = None;
    let mut window = matrix.columns.window(8, budget)?;
    for run in matrix.columns.dirty.iter() {
        window.each(run.start / 8..run.end / 8, &mut |at, column| {
            if column >= matrix.cols {
                wrong.get_or_insert((at, column));
            }
        })?;
    }
    Ok(wrong)
}

/// The largest number of an array of this length; none if there is none.
pub(crate) fn largest(array: &dyn Array, len: u64, budget: &Arc<Budget>) -> Result<Option<u64>> {
    let mut most = None;
    let mut window = ElementWindow::new(array, (8, len), budget)?;
    window.each(0..len / 8, &mut |_, number| most = most.max(Some(number)))?;
    Ok(most)
}

/// The first row whose columns do not rise, unless none has changed: readers show them sorted, and
/// none twice.
fn falling_column(matrix: &MatrixArrays<'_>, budget: &Arc<Budget>) -> Result<Option<u64>> {
    if matrix.columns.dirty.is_empty() && matrix.offsets.dirty.is_empty() {
        return Ok(None);
    }
    let mut offsets = matrix.offsets.window(8, budget)?;
    let mut columns = matrix.columns.window(8, budget)?;
    for row in 0..matrix.rows() {
        let (mut least, mut falls) = (0, false);
        let entries = offsets.number(row)?..offsets.number(row + 1)?;
        columns.each(entries, &mut |_, column| {
            falls |= column < least;
            least = column.saturating_add(1);
        })?;
        if falls {
            return Ok(Some(row));
        }
    }
    Ok(None)
}
