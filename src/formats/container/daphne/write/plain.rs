//! Files of the program's own form (docs/formats.md): one block, whose values lie as they are
//! shown.
//!
//! Values change where they are; with other rows or entries the header follows, and in a CSRMatrix
//! what lies behind moves. Told by [`crate::container::plain_write`]. Used by [`super`] and, for
//! new files, by `create`.

use std::sync::Arc;

use super::super::header::ObjectKind;
use super::super::program::{CSR, DENSE, POSITION};
use super::{COLUMNS, ROWS_AT, WrittenObject, change_of, too_large};
use crate::array::stored_run::StoredRun;
use crate::container::plain_write::runs::Runs;
use crate::container::plain_write::{PlainFile, PlainPart, dirty_bytes};
use crate::container::writable::ChangedArray;
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::Source;

/// Where the block has its number of rows.
const BLOCK_ROWS_AT: u64 = 35;
/// Where a CSRMatrix has the number of its entries.
const ENTRIES_AT: u64 = 45;

/// How large an object is, and the bytes of an element of each array, in their order.
pub(crate) struct PlainSize {
    pub(crate) data: ObjectKind,
    pub(crate) rows: u64,
    pub(crate) cols: u64,
    pub(crate) entries: u64,
    pub(crate) elements: Vec<u64>,
}

impl PlainSize {
    /// Where the arrays lie behind a head of this length, and where the file ends.
    pub(crate) fn places(&self, head: u64) -> Result<(Vec<Runs>, u64)> {
        let counts = match self.data {
            ObjectKind::Frame => return self.records(head.saturating_add(POSITION)),
            ObjectKind::DenseMatrix => vec![self.rows.checked_mul(self.cols)],
            // Offsets, columns and values lie in this order.
            ObjectKind::CsrMatrix => {
                let entries = Some(self.entries);
                vec![entries, entries, self.rows.checked_add(1)]
            }
        };
        let mut end = match self.data {
            ObjectKind::CsrMatrix => CSR,
            ObjectKind::DenseMatrix | ObjectKind::Frame => DENSE,
        };
        let mut runs = Vec::new();
        for (count, element) in counts.into_iter().zip(&self.elements).rev() {
            runs.insert(0, Runs::whole(end));
            let bytes = count.and_then(|count| count.checked_mul(*element));
            let behind = bytes.and_then(|bytes| end.checked_add(bytes));
            end = behind.ok_or_else(too_large)?;
        }
        Ok((runs, end))
    }

    /// Of a frame: the values of a row lie behind each other.
    fn records(&self, begin: u64) -> Result<(Vec<Runs>, u64)> {
        let (mut first, stride) = (begin, self.elements.iter().sum());
        let each = self.elements.iter().map(|run| {
            let begin = first;
            first += run;
            match *run == stride {
                true => Runs::whole(begin),
                false => Runs {
                    begin,
                    run: *run,
                    stride,
                },
            }
        });
        let runs = each.collect();
        let records = self.rows.checked_mul(stride);
        let end = records.and_then(|len| len.checked_add(begin));
        Ok((runs, end.ok_or_else(too_large)?))
    }
}

impl WrittenObject {
    /// The size with these changes, of arrays that agree.
    fn plain_size(&self, changed: &[ChangedArray]) -> Result<PlainSize> {
        let elements = self.arrays.iter().map(|array| self.element(array.name()));
        Ok(PlainSize {
            data: self.data,
            rows: self.new_rows(changed)?,
            cols: self.cols,
            entries: match self.data {
                ObjectKind::CsrMatrix => self.len(COLUMNS, changed)? / 8,
                ObjectKind::DenseMatrix | ObjectKind::Frame => 0,
            },
            elements: elements.collect::<Result<_>>()?,
        })
    }

    pub(super) fn plain_file<'a>(
        &'a self,
        source: &'a Arc<dyn Source>,
        changed: &'a [ChangedArray],
    ) -> Result<PlainFile<'a>> {
        let (old, new) = (self.plain_size(&[])?, self.plain_size(changed)?);
        let (was, (places, len)) = (old.places(self.begin)?.0, new.places(self.begin)?);
        let mut parts = Vec::new();
        let moved = places.into_iter().zip(was).zip(&new.elements);
        for (array, ((runs, was), element)) in self.arrays.iter().zip(moved) {
            let name = array.name();
            let (change, len) = (change_of(name, changed), self.len(name, changed)?);
            let dirty = match change {
                // It lies elsewhere.
                _ if runs != was => RangeSet::from(0..len),
                Some(change) => dirty_bytes(&change.ranges, (change.visible, len), *element),
                None => RangeSet::default(),
            };
            parts.push(PlainPart {
                change,
                shown: change.map_or(&**array, |change| &*change.shown),
                len,
                stored: array.info()?.bytes,
                runs,
                dirty,
                element: *element,
                to_stored: None,
                fill: &[0],
            });
        }
        Ok(PlainFile {
            start: None,
            parts,
            literals: heads(&old, &new)?,
            stored: source,
            len,
        })
    }

    /// Where an array lies, if it lies in one piece and stays where it is.
    pub(super) fn plain_run(
        &self,
        name: &str,
        changed: &[ChangedArray],
    ) -> Result<Option<StoredRun>> {
        let places = |changed| self.plain_size(changed)?.places(self.begin);
        let ((was, _), (places, _)) = (places(&[])?, places(changed)?);
        let mut all = self.arrays.iter().zip(was.into_iter().zip(places));
        let found = all.find(|(array, _)| array.name() == name);
        let Some((array, (runs, _))) = found.filter(|(_, (was, now))| was == now) else {
            return Ok(None);
        };
        Ok((runs.run == runs.stride).then_some(StoredRun {
            begin: runs.begin,
            len: array.info()?.bytes,
            turned: 1,
        }))
    }

    /// The two forms differ in the codes of types, which only the length of the file tells apart.
    pub(super) fn loses_form(&self, changed: &[ChangedArray]) -> Result<bool> {
        let (old, new) = (self.plain_size(&[])?, self.plain_size(changed)?);
        let differs = (new.rows, new.entries) != (old.rows, old.entries);
        Ok(new.rows == 0 && !self.is_told && differs)
    }
}

/// What the header and the block say of another size.
fn heads(old: &PlainSize, new: &PlainSize) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut heads = Vec::new();
    if new.rows != old.rows {
        heads.push((ROWS_AT, new.rows.to_le_bytes().to_vec()));
        if new.data != ObjectKind::Frame {
            let rows = u32::try_from(new.rows).map_err(|_| too_large())?;
            heads.push((BLOCK_ROWS_AT, rows.to_le_bytes().to_vec()));
        }
    }
    if new.entries != old.entries {
        heads.push((ENTRIES_AT, new.entries.to_le_bytes().to_vec()));
    }
    Ok(heads)
}
