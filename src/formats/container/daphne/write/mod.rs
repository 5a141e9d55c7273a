//! Changing DAPHNE files: what is permitted, whether the arrays agree, and how the file comes
//! about.
//!
//! - [`rewritten`]: what is done with a file, whichever form it has.
//! - [`plain`]: files of the program's own form, where values lie as they are shown.
//! - [`cells`]: a DenseMatrix or a Frame of the specification's form; [`entries`]: a CSRMatrix of
//!   that form. Both tell the blocks by [`file_writer`], as new files have them ([`block_rect`]).
//! - [`consistency`]: whether the arrays of a CSRMatrix agree.
//!
//! A file keeps the form that it has: the program reads numbers of the other one without an error,
//! and wrongly. Assumes a file without faults; others are not offered for writing. `create` tells
//! new files by the same parts.

mod block_rect;
mod cells;
pub(super) mod consistency;
mod entries;
mod file_writer;
mod plain;
mod rewritten;

use std::sync::Arc;

use super::dense::CellObject;
use super::describe::DescribedFile;
use super::header::ObjectKind;
use super::labels::WHAT_LABELS_ARE;
use super::value::ValueType;
use crate::array::dtype::Dtype;
use crate::array::{Array, Info};
use crate::container::writable::{ChangedArray, WritableContainer};
use crate::error::{Error, Result};
use crate::source::Source;

pub(super) use cells::{CellWriter, ShownCells, ShownColumn};
pub(super) use entries::{MatrixArray, MatrixArrays};
pub(super) use file_writer::FileWriter;
pub(super) use plain::PlainSize;

/// The names of the arrays of a CSRMatrix.
pub(super) const VALUES: &str = "values";
pub(super) const COLUMNS: &str = "col_idxs";
pub(super) const OFFSETS: &str = "row_offsets";

/// Where the header has the number of rows.
const ROWS_AT: u64 = 2;

/// How the values of a file lie in it: one block of the program's form, or blocks of the
/// specification's.
pub(super) enum WrittenBody {
    Plain(Arc<dyn Source>),
    Cells(Arc<CellObject>),
    Entries(Arc<dyn Source>),
}

/// A file that can be changed.
struct WrittenObject {
    data: ObjectKind,
    rows: u64,
    cols: u64,
    /// Of a matrix.
    value: ValueType,
    arrays: Vec<Arc<dyn Array>>,
    /// Bytes of the header.
    begin: u64,
    body: WrittenBody,
    /// Metadata beside the file say how many rows there are.
    has_sidecar: bool,
    /// The user says which form it has.
    is_told: bool,
}

/// How a file can be changed, if it can be. `is_told`: whether the user says which form it has.
pub(super) fn rewrite_of(
    file: &mut DescribedFile,
    (has_sidecar, is_told): (bool, bool),
) -> Option<Arc<dyn WritableContainer>> {
    let (body, header) = (file.written.take()?, &file.header);
    Some(Arc::new(WrittenObject {
        data: header.data,
        rows: header.rows,
        cols: header.cols,
        value: header.types.list.first().copied().unwrap_or(ValueType::U8),
        arrays: file.arrays.clone(),
        begin: header.len,
        body,
        has_sidecar,
        is_told,
    }))
}

impl WrittenObject {
    fn array(&self, name: &str) -> Result<&Arc<dyn Array>> {
        let mut arrays = self.arrays.iter();
        let found = arrays.find(|array| array.name() == name);
        found.ok_or_else(|| Error::Computed(format!("{name} is only read: {WHAT_LABELS_ARE}")))
    }

    fn element(&self, name: &str) -> Result<u64> {
        let size = self.array(name)?.info()?.dtype.itemsize();
        let size = size.filter(|size| *size > 0);
        size.ok_or_else(|| Error::Bug(format!("{name} has no elements")))
    }

    /// Bytes of the part of an array that belongs to a row, or to an entry; 0 if rows have none.
    fn unit(&self, name: &str) -> Result<u64> {
        let element = self.element(name)?;
        match self.data {
            ObjectKind::DenseMatrix => self.cols.checked_mul(element).ok_or_else(too_large),
            ObjectKind::CsrMatrix | ObjectKind::Frame => Ok(element),
        }
    }

    fn len(&self, name: &str, changed: &[ChangedArray]) -> Result<u64> {
        match change_of(name, changed) {
            Some(change) => Ok(change.len),
            None => Ok(self.array(name)?.info()?.bytes),
        }
    }

    /// As it is shown with these changes.
    fn shown<'a>(&'a self, name: &str, changed: &'a [ChangedArray]) -> Result<&'a dyn Array> {
        match change_of(name, changed) {
            Some(change) => Ok(&*change.shown),
            None => Ok(&**self.array(name)?),
        }
    }

    /// The number of rows with these changes, of arrays that agree.
    fn new_rows(&self, changed: &[ChangedArray]) -> Result<u64> {
        let first = self.arrays.first().map(|array| array.name());
        match (self.data, first) {
            (ObjectKind::CsrMatrix, _) => Ok((self.len(OFFSETS, changed)? / 8).saturating_sub(1)),
            (_, None) => Ok(self.rows),
            (_, Some(name)) => match self.unit(name)? {
                0 => Ok(self.rows),
                unit => Ok(self.len(name, changed)? / unit),
            },
        }
    }

    /// Whether an array may get this length, on the way to another one or not.
    fn takes_length(&self, name: &str, len: u64) -> Result<()> {
        if len == self.array(name)?.info()?.bytes {
            return Ok(());
        }
        let unit = self.unit(name)?;
        if unit == 0 {
            let why = format!("{name}: a matrix without columns has no values");
            return Err(Error::Invalid(why));
        }
        if self.has_sidecar && len > 0 {
            let what = "the metadata beside the file say how large it is";
            return Err(Error::Invalid(format!("{name}: {what}")));
        }
        let rows = match (self.data, name) {
            (ObjectKind::CsrMatrix, OFFSETS) => (len / 8).saturating_sub(1),
            (ObjectKind::DenseMatrix, _) => len.div_ceil(unit),
            _ => 0,
        };
        // The program's form counts the rows of its block in 32 bits.
        let most = match self.body {
            WrittenBody::Plain(_) => u32::MAX.into(),
            WrittenBody::Cells(_) | WrittenBody::Entries(_) => u64::MAX / 8,
        };
        match rows > most || len > i64::MAX as u64 {
            true => Err(too_large()),
            false => Ok(()),
        }
    }

    /// What an array is at this length.
    fn info_at(&self, name: &str, len: u64) -> Result<Info> {
        let stored = self.array(name)?.info()?;
        let unit = self.unit(name)?;
        if len == stored.bytes {
            return Ok(stored);
        }
        // Shown as bytes, until it has whole rows again.
        let (dtype, shape) = match unit > 0 && len.is_multiple_of(unit) {
            false => (Dtype::U8, vec![len]),
            true => {
                let mut shape = stored.shape.clone();
                if let Some(first) = shape.first_mut() {
                    *first = len / unit;
                }
                (stored.dtype.clone(), shape)
            }
        };
        Ok(Info {
            dtype,
            shape,
            bytes: len,
            ..stored
        })
    }

    /// Why arrays of these lengths make no object yet.
    fn unfinished(&self, changed: &[ChangedArray]) -> Result<Option<String>> {
        for change in changed {
            let (name, len) = (change.shown.name(), change.len);
            let unit = self.unit(name)?;
            if unit > 0 && !len.is_multiple_of(unit) {
                let what = match self.data {
                    ObjectKind::DenseMatrix => "a row",
                    _ => "an element",
                };
                return Ok(Some(format!("{name} ends within {what} of {unit} bytes")));
            }
        }
        if self.data == ObjectKind::Frame {
            let mut before = None;
            for array in &self.arrays {
                let name = array.name();
                let rows = self.len(name, changed)? / self.element(name)?;
                if let Some((other, others)) = before.filter(|(_, others)| *others != rows) {
                    return Ok(Some(format!("{other} has {others} rows, {name} {rows}")));
                }
                before = Some((name, rows));
            }
        }
        Ok(None)
    }
}

fn change_of<'a>(name: &str, changed: &'a [ChangedArray]) -> Option<&'a ChangedArray> {
    changed.iter().find(|array| array.shown.name() == name)
}

fn too_large() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io("a DAPHNE file cannot be so large", cause)
}
