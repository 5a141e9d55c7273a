//! Files of the program's own form (docs/formats.md): one block, whose values lie as they are shown.
//!
//! Values change where they are; with other rows or entries the header follows, and in a CSRMatrix
//! what lies behind moves. Told by [`crate::container::plain_write`]. Used by
//! [`super::super::program`].

use std::sync::Arc;

use super::super::program::{CSR, DENSE};
use super::consistency;
use crate::array::chunking::{ChunkId, Chunking};
use crate::array::dtype::Dtype;
use crate::array::{Array, Info};
use crate::container::Container;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::numbers::Numbers;
use crate::container::plain_write::runs::Runs;
use crate::container::plain_write::{PlainFile, PlainPart, dirty_bytes};
use crate::container::rewrite::{
    Amount, Change, ChangedArray, CommitWay, Consistency, Recipe, Restated, Rewrite,
};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::Source;

/// Where the header has the number of rows, and the block its own.
const ROWS_AT: u64 = 2;
const BLOCK_ROWS_AT: u64 = 35;
/// Where a CSRMatrix has the number of its entries.
const ENTRIES_AT: u64 = 45;

/// A block's rows are counted in 32 bits.
const MOST_ROWS: u64 = u32::MAX as u64;

/// What follows the head of a file.
#[derive(Debug, Clone)]
pub(in super::super) enum PlainBody {
    /// Rows of so many bytes.
    Dense {
        row: u64,
    },
    Csr,
    /// Records, in which the value of each column lies behind those of the columns before.
    Frame {
        begin: u64,
        record: u64,
    },
}

/// The names of the arrays of a CSRMatrix.
pub(super) const VALUES: &str = "values";
pub(super) const COLUMNS: &str = "col_idxs";
pub(super) const OFFSETS: &str = "row_offsets";

pub(super) struct PlainMatrix {
    source: Arc<dyn Source>,
    pub(super) rows: u64,
    pub(super) cols: u64,
    body: PlainBody,
    pub(super) arrays: Vec<Arc<dyn Array>>,
    /// Metadata beside the file say how many rows there are.
    has_sidecar: bool,
    /// Something else than the file says which form it has.
    is_told: bool,
}

/// Lets a file of this form be written. `is_told`: whether something beside the file says that it
/// has this form.
pub(in super::super) fn offer(
    container: &mut Container,
    source: &Arc<dyn Source>,
    (rows, cols): (u64, u64),
    body: PlainBody,
    (has_sidecar, is_told): (bool, bool),
) {
    if !container.faults.is_empty() {
        return;
    }
    container.rewrite = Some(Arc::new(PlainMatrix {
        source: Arc::clone(source),
        rows,
        cols,
        body,
        arrays: container.arrays.clone(),
        has_sidecar,
        is_told,
    }));
}

/// How large the file is going to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NewSize {
    rows: u64,
    entries: u64,
}

impl PlainMatrix {
    pub(super) fn array(&self, name: &str) -> Result<&Arc<dyn Array>> {
        let mut arrays = self.arrays.iter();
        let found = arrays.find(|array| array.name() == name);
        found.ok_or_else(|| Error::Computed(format!("{name} follows from the arrays")))
    }

    /// Bytes of the part of an array that belongs to a row, or to an entry.
    fn unit(&self, name: &str) -> Result<u64> {
        match &self.body {
            PlainBody::Dense { row } => Ok(*row),
            PlainBody::Csr | PlainBody::Frame { .. } => self.element(name),
        }
    }

    fn element(&self, name: &str) -> Result<u64> {
        let info = self.array(name)?.info()?;
        Ok(info.dtype.itemsize().unwrap_or(1).max(1))
    }

    pub(super) fn len(&self, name: &str, changed: &[ChangedArray]) -> Result<u64> {
        match change_of(name, changed) {
            Some(change) => Ok(change.len),
            None => Ok(self.array(name)?.info()?.bytes),
        }
    }

    /// The number of rows and of entries with these changes, of arrays that agree.
    fn size(&self, changed: &[ChangedArray]) -> Result<NewSize> {
        let first = self.arrays.first().map(|array| array.name());
        let rows = match (&self.body, first) {
            (PlainBody::Csr, _) => (self.len(OFFSETS, changed)? / 8).saturating_sub(1),
            (_, None) => self.rows,
            (_, Some(name)) => match self.unit(name)? {
                0 => self.rows,
                unit => self.len(name, changed)? / unit,
            },
        };
        let entries = match &self.body {
            PlainBody::Csr => self.len(COLUMNS, changed)? / 8,
            _ => 0,
        };
        Ok(NewSize { rows, entries })
    }

    /// Where an array begins in a file of this size.
    fn runs(&self, name: &str, size: NewSize) -> Result<Runs> {
        Ok(match &self.body {
            PlainBody::Dense { .. } => Runs::whole(DENSE),
            PlainBody::Csr => {
                let columns = CSR.saturating_add(size.rows.saturating_add(1).saturating_mul(8));
                Runs::whole(match name {
                    OFFSETS => CSR,
                    COLUMNS => columns,
                    _ => columns.saturating_add(size.entries.saturating_mul(8)),
                })
            }
            PlainBody::Frame { begin, record } => {
                let mut first = *begin;
                for array in self.arrays.iter().take_while(|array| array.name() != name) {
                    first = first.saturating_add(self.element(array.name())?);
                }
                match self.element(name)? {
                    run if run == *record => Runs::whole(first),
                    run => Runs {
                        begin: first,
                        run,
                        stride: *record,
                    },
                }
            }
        })
    }

    fn file_len(&self, size: NewSize) -> Result<u64> {
        let (begin, row) = match &self.body {
            PlainBody::Dense { row } => (DENSE, *row),
            PlainBody::Frame { begin, record } => (*begin, *record),
            PlainBody::Csr => {
                let value = self.element(VALUES)?;
                let values = self.runs(VALUES, size)?.begin;
                let entries = size.entries.checked_mul(value);
                let end = entries.and_then(|entries| values.checked_add(entries));
                return end.ok_or_else(too_large);
            }
        };
        let rows = size.rows.checked_mul(row);
        rows.and_then(|rows| begin.checked_add(rows))
            .ok_or_else(too_large)
    }

    fn plan<'a>(&'a self, changed: &'a [ChangedArray]) -> Result<PlainFile<'a>> {
        let (old, new) = (self.size(&[])?, self.size(changed)?);
        let mut parts = Vec::new();
        for array in &self.arrays {
            let name = array.name();
            let (change, len) = (change_of(name, changed), self.len(name, changed)?);
            let (runs, element) = (self.runs(name, new)?, self.element(name)?);
            let dirty = match change {
                // It lies elsewhere.
                _ if runs != self.runs(name, old)? => {
                    Numbers::of(std::iter::once(0..len).collect())
                }
                Some(change) => dirty_bytes(&change.ranges, (change.visible, len), element),
                None => Numbers::default(),
            };
            parts.push(PlainPart {
                shown: change.map_or(&**array, |change| &*change.shown),
                len,
                runs,
                dirty,
                element,
                to_stored: None,
                fill: &[0],
            });
        }
        Ok(PlainFile {
            parts,
            literals: self.heads(old, new)?,
            stored: &self.source,
            len: self.file_len(new)?,
        })
    }

    /// What the header and the block say of another size.
    fn heads(&self, old: NewSize, new: NewSize) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut heads = Vec::new();
        if new.rows != old.rows {
            heads.push((ROWS_AT, new.rows.to_le_bytes().to_vec()));
            if !matches!(self.body, PlainBody::Frame { .. }) {
                let rows = u32::try_from(new.rows).map_err(|_| too_large())?;
                heads.push((BLOCK_ROWS_AT, rows.to_le_bytes().to_vec()));
            }
        }
        if new.entries != old.entries {
            heads.push((ENTRIES_AT, new.entries.to_le_bytes().to_vec()));
        }
        Ok(heads)
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
        let is_csr = matches!(self.body, PlainBody::Csr);
        if self.has_sidecar && (!is_csr || name == OFFSETS) && len > 0 {
            let what = "the metadata beside the file say how many rows there are";
            return Err(Error::Invalid(format!("{name}: {what}")));
        }
        let rows = match (&self.body, name) {
            (PlainBody::Csr, OFFSETS) => (len / 8).saturating_sub(1),
            (PlainBody::Dense { .. }, _) => len.div_ceil(unit),
            _ => 0,
        };
        match rows > MOST_ROWS || len > i64::MAX as u64 {
            true => Err(too_large()),
            false => Ok(()),
        }
    }

    /// Why arrays of these lengths make no file yet.
    fn unfinished(&self, changed: &[ChangedArray]) -> Result<Option<String>> {
        for change in changed {
            let (name, len) = (change.shown.name(), change.len);
            let unit = self.unit(name)?;
            if unit > 0 && !len.is_multiple_of(unit) {
                let what = match &self.body {
                    PlainBody::Dense { .. } => "a row",
                    _ => "an element",
                };
                return Ok(Some(format!("{name} ends within {what} of {unit} bytes")));
            }
        }
        if let PlainBody::Frame { .. } = &self.body {
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
        let (old, new) = (self.size(&[])?, self.size(changed)?);
        // The two forms differ in the codes of types, which only the length of the file tells
        // apart.
        let is_empty = new.rows == 0 && !self.is_told && new != old;
        Ok(is_empty.then(|| "without rows a file does not say which form it has".to_owned()))
    }
}

fn change_of<'a>(name: &str, changed: &'a [ChangedArray]) -> Option<&'a ChangedArray> {
    changed.iter().find(|array| array.shown.name() == name)
}

fn too_large() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io("a DAPHNE file cannot be so large", cause)
}

impl Rewrite for PlainMatrix {
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
        let stored = self.array(array.name)?.info()?;
        let unit = self.unit(array.name)?;
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
        if self.unfinished(changed)?.is_none() {
            let rows = self.size(changed)?.rows;
            restated.attributes.insert("rows".into(), rows.into());
        }
        Ok(restated)
    }

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        if let Some(why) = self.unfinished(changed)? {
            return Ok(Consistency::NotYet(why));
        }
        match &self.body {
            PlainBody::Csr => consistency::judge(self, changed, budget),
            PlainBody::Dense { .. } | PlainBody::Frame { .. } => Ok(Consistency::Now),
        }
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        Ok(Amount {
            stored: self.source.len(),
            changed: self.plan(changed)?.changed(),
            moves: false,
            encoded: 0,
            guessed: false,
        })
    }

    fn blocks_ahead(&self, _array: ArrayAddress<'_>, _len: u64) -> Option<Arc<dyn Chunking>> {
        None
    }

    fn encode_block(
        &self,
        _changed: &ChangedArray,
        _block: ChunkId,
        _budget: &Arc<Budget>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        if changed.is_empty() {
            return Err(Fault::new("there is nothing to be changed").into());
        }
        self.plan(changed)?.tell(way, budget, write)
    }
}
