//! Whether the arrays of a changed CSRMatrix agree: as many columns as values, offsets that rise
//! from 0 to their number, columns inside the matrix.
//!
//! What has not changed is not looked at, but for offsets, of which each is held against the one
//! before. Memory for a step is charged. Used by [`super::plain`] and [`super::entries`].

use std::ops::Range;
use std::sync::Arc;

use super::entry_block::ShownEntries;
use super::{COLUMNS, OFFSETS, VALUES, WrittenObject};
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::container::chunked_write::memory::at_once;
use crate::container::plain_write::dirty_bytes;
use crate::container::rewrite::{ChangedArray, Consistency};
use crate::error::Result;
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;

/// Bytes that are read at once.
const STEP: u64 = 256 << 10;

pub(crate) fn judge(
    matrix: &WrittenObject,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<Consistency> {
    let not_yet = |why: String| Ok(Consistency::NotYet(why));
    let value = matrix
        .array(VALUES)?
        .info()?
        .dtype
        .itemsize()
        .unwrap_or(1)
        .max(1);
    let values = matrix.len(VALUES, changed)? / value;
    let columns = matrix.len(COLUMNS, changed)? / 8;
    if values != columns {
        return not_yet(format!(
            "{COLUMNS} has {columns} elements, {VALUES} {values}"
        ));
    }
    if matrix.len(OFFSETS, changed)? == 0 {
        return not_yet(format!("{OFFSETS} is empty"));
    }
    if let Some(why) = offsets(matrix, changed, (columns, budget))? {
        return not_yet(why);
    }
    match outside(matrix, changed, budget)? {
        Some((at, column)) => not_yet(format!(
            "{COLUMNS}[{at}] is {column}, and there are {} columns",
            matrix.cols
        )),
        None => Ok(Consistency::Now),
    }
}

/// Why the offsets do not rise from 0 to the number of entries.
fn offsets(
    matrix: &WrittenObject,
    changed: &[ChangedArray],
    (entries, budget): (u64, &Arc<Budget>),
) -> Result<Option<String>> {
    let array = matrix.array(OFFSETS)?;
    let change = changed.iter().find(|one| one.shown.name() == OFFSETS);
    let shown = change.map_or(&**array, |change| &*change.shown);
    let len = matrix.len(OFFSETS, changed)?;
    let all = 0..len;
    // Unchanged ones rise; where they end is held against the entries.
    let seen = match change {
        Some(_) => all,
        None => len.saturating_sub(8)..len,
    };
    let (mut least, mut wrong) = (0, None);
    each(shown, seen.clone(), budget, &mut |at, offset| {
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
fn outside(
    matrix: &WrittenObject,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<Option<(u64, u64)>> {
    let Some(change) = changed.iter().find(|one| one.shown.name() == COLUMNS) else {
        return Ok(None);
    };
    let mut wrong = None;
    for run in dirty_bytes(&change.ranges, (change.visible, change.len), 8).iter() {
        each(&*change.shown, run, budget, &mut |at, column| {
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
    each(array, 0..len - len % 8, budget, &mut |_, number| {
        most = most.max(Some(number));
    })?;
    Ok(most)
}

/// Gives each 64-bit number of a range, with its own number, to `take`.
fn each(
    array: &dyn Array,
    range: Range<u64>,
    budget: &Arc<Budget>,
    take: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let lent = lent_for(array, range.clone())?;
    let hold = at_once(STEP.saturating_add(lent), budget);
    let mut space = Workspace::new(STEP, lent, hold, STEP)?;
    let mut at = range.start;
    while at < range.end {
        let len = STEP.min(range.end - at);
        let (room, scratch) = space.parts();
        let bytes = &mut room[..len as usize];
        let read = read_into(array, at, bytes, DecodeMemory::Lent(scratch));
        read.map_err(|e| e.of_array("", array.name()))?;
        for (number, at) in bytes.as_chunks().0.iter().zip(at / 8..) {
            take(at, u64::from_le_bytes(*number));
        }
        at += len;
    }
    Ok(())
}

/// The first row whose columns do not rise.
pub(super) fn falling_column(shown: &mut ShownEntries<'_>, rows: u64) -> Result<Option<u64>> {
    for row in 0..rows {
        let entries = shown.of_rows(&(row..row + 1))?;
        let mut before = None;
        for at in entries {
            let column = shown.columns.number(at)?;
            if before.is_some_and(|before| before >= column) {
                return Ok(Some(row));
            }
            before = Some(column);
        }
    }
    Ok(None)
}
