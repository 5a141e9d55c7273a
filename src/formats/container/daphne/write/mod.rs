//! Changing DAPHNE files: what is permitted, whether the arrays agree, and how the file comes
//! about.
//!
//! - [`plain`]: files of the program's own form, where values lie as they are shown.
//! - [`cells`]: a DenseMatrix or a Frame of the specification's form; [`cell_block`]: one block of
//!   it. [`entries`]: a CSRMatrix of that form; [`entry_block`]: one block. Both tell the file
//!   from its start to its end by [`file_writer`], and keep blocks in which nothing has changed.
//! - [`labels`]: the labels of a Frame of that form, which are a part of its header.
//! - [`consistency`]: whether the arrays of a CSRMatrix agree. [`new_file`]: what new files share
//!   with changed ones.
//!
//! A file keeps the form that it has: the program reads numbers of the other one without an error,
//! and wrongly. Assumes a file without faults; others are not offered for writing.

mod cell_block;
mod cells;
pub(super) mod consistency;
mod entries;
mod entry_block;
mod file_writer;
mod labels;
mod new_file;
mod plain;

use std::sync::Arc;

use super::describe::{DescribedFile, ShownLabels};
use super::header::ObjectKind;
use crate::array::dtype::Dtype;
use crate::array::{Array, Info};
use crate::container::rewrite::{ChangedArray, Rewrite};
use crate::error::{Error, Result};

use labels::WrittenLabels;

pub(super) use cells::CellBody;
pub(super) use entries::EntryBody;
pub(super) use new_file::{NewEntries, dense_head, put_sparse};
pub(super) use plain::{PlainBody, PlainLayout};

/// The names of the arrays of a CSRMatrix.
const VALUES: &str = "values";
const COLUMNS: &str = "col_idxs";
const OFFSETS: &str = "row_offsets";

/// Where the header has the number of rows.
const ROWS_AT: u64 = 2;

/// How the values of a file lie in it.
pub(super) enum WrittenBody {
    Plain(PlainBody),
    Cells(CellBody),
    Entries(EntryBody),
}

/// What all writers of a file know.
pub(super) struct WrittenObject {
    data: ObjectKind,
    rows: u64,
    cols: u64,
    arrays: Vec<Arc<dyn Array>>,
    /// Of a frame that says them.
    labels: Option<WrittenLabels>,
    /// Metadata beside the file say how many rows there are.
    has_sidecar: bool,
    /// The user says which form it has.
    is_told: bool,
}

/// How a file can be changed, if it can be. `is_told`: whether the user says which form it has.
pub(super) fn rewrite_of(
    file: &mut DescribedFile,
    (has_sidecar, is_told): (bool, bool),
) -> Option<Arc<dyn Rewrite>> {
    let body = file.written.take()?;
    let object = WrittenObject {
        data: file.header.data,
        rows: file.header.rows,
        cols: file.header.cols,
        arrays: file.arrays.clone(),
        labels: file.labels.as_ref().and_then(|labels| match labels {
            ShownLabels::Stored { lines, at } => Some(WrittenLabels {
                lines: Arc::clone(lines),
                at: *at,
                columns: file.header.cols,
                has_sidecar,
            }),
            ShownLabels::Made(_) => None,
        }),
        has_sidecar,
        is_told,
    };
    Some(match body {
        WrittenBody::Plain(body) => Arc::new(plain::PlainMatrix { object, body }),
        WrittenBody::Cells(body) => Arc::new(cells::CellFile { object, body }),
        WrittenBody::Entries(body) => Arc::new(entries::EntryFile { object, body }),
    })
}

impl WrittenObject {
    fn array(&self, name: &str) -> Result<&Arc<dyn Array>> {
        let mut arrays = self.arrays.iter();
        let found = arrays.find(|array| array.name() == name);
        found.ok_or_else(|| Error::Computed(format!("{name} follows from the arrays")))
    }

    /// The labels, if that is their name.
    fn labels_at(&self, name: &str) -> Option<&WrittenLabels> {
        self.labels.as_ref().filter(|labels| labels.name() == name)
    }

    /// The labels with their change, if they have changed.
    fn changed_labels<'a>(
        &'a self,
        changed: &'a [ChangedArray],
    ) -> Option<(&'a WrittenLabels, &'a ChangedArray)> {
        let labels = self.labels.as_ref()?;
        Some((labels, change_of(labels.name(), changed)?))
    }

    fn element(&self, name: &str) -> Result<u64> {
        let size = self.array(name)?.info()?.dtype.itemsize();
        size.filter(|size| *size > 0)
            .ok_or_else(|| Error::Computed(format!("{name} follows from the arrays")))
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

    /// Whether an array may get this length, on the way to another one or not. `most`: rows that
    /// the form can count.
    fn takes_length(&self, name: &str, len: u64, most: u64) -> Result<()> {
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
        match rows > most || len > i64::MAX as u64 {
            true => Err(too_large()),
            false => Ok(()),
        }
    }

    /// What an array is at this length.
    fn info(&self, name: &str, len: u64) -> Result<Info> {
        if let Some(labels) = self.labels_at(name) {
            return labels.info(len);
        }
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
        let is_array = |change: &&ChangedArray| self.labels_at(change.shown.name()).is_none();
        for change in changed.iter().filter(is_array) {
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

/// The parts of [`Rewrite`] that are alike for all bodies. `most`: rows that the form can count.
macro_rules! of_object {
    ($most:expr) => {
        fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
            if let Some(labels) = self.object.labels_at(array.name) {
                return labels.permits(change);
            }
            let bytes = self.object.array(array.name)?.info()?.bytes;
            self.object.element(array.name)?;
            match change {
                Change::Write { len: 0, .. } => Ok(()),
                Change::Write { offset, len } => match offset.checked_add(len) {
                    Some(end) if end <= bytes => Ok(()),
                    Some(end) => self.object.takes_length(array.name, end, $most),
                    None => Err(too_large()),
                },
                Change::SetLen(len) | Change::Truncate(len) => {
                    self.object.takes_length(array.name, len, $most)
                }
            }
        }

        fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info> {
            self.object.info(array.name, len)
        }

        fn names_entries(&self, array: ArrayAddress<'_>) -> bool {
            self.object.labels_at(array.name).is_some()
        }

        fn restate(
            &self,
            _container: ContainerNumber,
            changed: &[ChangedArray],
            _budget: &Arc<Budget>,
        ) -> Result<Restated> {
            let mut restated = Restated::default();
            for array in changed {
                let info = self.info(array.address(), array.len)?;
                restated.arrays.insert(array.shown.name().to_owned(), info);
            }
            if self.object.unfinished(changed)?.is_none() {
                let rows = self.object.new_rows(changed)?;
                restated.attributes.insert("rows".into(), rows.into());
            }
            Ok(restated)
        }
    };
}
use of_object;
