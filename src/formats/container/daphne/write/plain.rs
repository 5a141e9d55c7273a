//! Files of the program's own form (docs/formats.md): one block, whose values lie as they are
//! shown.
//!
//! Values change where they are; with other rows or entries the header follows, and in a CSRMatrix
//! what lies behind moves. Told by [`crate::container::plain_write`]. Used by
//! [`super::super::program`].

use std::sync::Arc;

use super::super::program::{CSR, DENSE};
use super::{COLUMNS, OFFSETS, ROWS_AT, VALUES, WrittenObject};
use super::{change_of, consistency, of_object, too_large};
use crate::array::Info;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::plain_write::runs::Runs;
use crate::container::plain_write::{PlainFile, PlainPart, dirty_bytes};
use crate::container::rewrite::{
    Amount, Change, ChangedArray, CommitWay, Consistency, Recipe, Restated, Rewrite,
};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::Source;

/// Where the block has its number of rows.
const BLOCK_ROWS_AT: u64 = 35;
/// Where a CSRMatrix has the number of its entries.
const ENTRIES_AT: u64 = 45;

/// A block's rows are counted in 32 bits.
const MOST_ROWS: u64 = u32::MAX as u64;

/// The file, and what follows its head.
pub(crate) struct PlainBody {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) layout: PlainLayout,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum PlainLayout {
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

pub(super) struct PlainMatrix {
    pub(super) object: WrittenObject,
    pub(super) body: PlainBody,
}

/// How large the file is going to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NewSize {
    rows: u64,
    entries: u64,
}

impl PlainMatrix {
    /// The number of rows and of entries with these changes, of arrays that agree.
    fn size(&self, changed: &[ChangedArray]) -> Result<NewSize> {
        let entries = match self.body.layout {
            PlainLayout::Csr => self.object.len(COLUMNS, changed)? / 8,
            PlainLayout::Dense { .. } | PlainLayout::Frame { .. } => 0,
        };
        let rows = self.object.new_rows(changed)?;
        Ok(NewSize { rows, entries })
    }

    /// Where an array begins in a file of this size.
    fn runs(&self, name: &str, size: NewSize) -> Result<Runs> {
        Ok(match &self.body.layout {
            PlainLayout::Dense { .. } => Runs::whole(DENSE),
            PlainLayout::Csr => {
                let columns = CSR.saturating_add(size.rows.saturating_add(1).saturating_mul(8));
                Runs::whole(match name {
                    OFFSETS => CSR,
                    COLUMNS => columns,
                    _ => columns.saturating_add(size.entries.saturating_mul(8)),
                })
            }
            PlainLayout::Frame { begin, record } => {
                let mut first = *begin;
                for array in self
                    .object
                    .arrays
                    .iter()
                    .take_while(|array| array.name() != name)
                {
                    first = first.saturating_add(self.object.element(array.name())?);
                }
                match self.object.element(name)? {
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
        let (begin, row) = match &self.body.layout {
            PlainLayout::Dense { row } => (DENSE, *row),
            PlainLayout::Frame { begin, record } => (*begin, *record),
            PlainLayout::Csr => {
                let value = self.object.element(VALUES)?;
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
        for array in &self.object.arrays {
            let name = array.name();
            let (change, len) = (change_of(name, changed), self.object.len(name, changed)?);
            let (runs, element) = (self.runs(name, new)?, self.object.element(name)?);
            let dirty = match change {
                // It lies elsewhere.
                _ if runs != self.runs(name, old)? => RangeSet::from(0..len),
                Some(change) => dirty_bytes(&change.ranges, (change.visible, len), element),
                None => RangeSet::default(),
            };
            parts.push(PlainPart {
                shown: change.map_or(&**array, |change| &*change.shown),
                len,
                stored: array.info()?.bytes,
                runs,
                dirty,
                element,
                to_stored: None,
                fill: &[0],
            });
        }
        Ok(PlainFile {
            start: None,
            parts,
            literals: self.heads(old, new)?,
            stored: &self.body.source,
            len: self.file_len(new)?,
        })
    }

    /// What the header and the block say of another size.
    fn heads(&self, old: NewSize, new: NewSize) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut heads = Vec::new();
        if new.rows != old.rows {
            heads.push((ROWS_AT, new.rows.to_le_bytes().to_vec()));
            if !matches!(self.body.layout, PlainLayout::Frame { .. }) {
                let rows = u32::try_from(new.rows).map_err(|_| too_large())?;
                heads.push((BLOCK_ROWS_AT, rows.to_le_bytes().to_vec()));
            }
        }
        if new.entries != old.entries {
            heads.push((ENTRIES_AT, new.entries.to_le_bytes().to_vec()));
        }
        Ok(heads)
    }

    /// Why arrays of these lengths make no file yet.
    fn unfinished(&self, changed: &[ChangedArray]) -> Result<Option<String>> {
        if let Some(why) = self.object.unfinished(changed)? {
            return Ok(Some(why));
        }
        let (old, new) = (self.size(&[])?, self.size(changed)?);
        // The two forms differ in the codes of types, which only the length of the file tells
        // apart.
        let is_empty = new.rows == 0 && !self.object.is_told && new != old;
        Ok(is_empty.then(|| "without rows a file does not say which form it has".to_owned()))
    }
}

impl Rewrite for PlainMatrix {
    of_object!(MOST_ROWS);

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        if let Some(why) = self.unfinished(changed)? {
            return Ok(Consistency::NotYet(why));
        }
        match &self.body.layout {
            PlainLayout::Csr => consistency::judge(&self.object, changed, budget),
            PlainLayout::Dense { .. } | PlainLayout::Frame { .. } => Ok(Consistency::Now),
        }
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let (stored, changed) = (self.body.source.len(), self.plan(changed)?.changed());
        Ok(Amount {
            stored,
            changed,
            grown: changed.saturating_sub(stored),
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
        self.plan(changed)?.tell(way, budget, write)
    }
}
