//! AnnData's sparse matrices and dataframes in groups: what has to hold between their arrays.
//!
//! `csr_matrix` and `csc_matrix`: as many `data` as `indices`, `indptr` that rises from 0 to their
//! number, and indices inside of the `shape`, in any order. That attribute follows on the axis of
//! `indptr`. `dataframe`: columns of one length, its index among them; the codes of a categorical
//! column are numbers of its categories, or -1. What has not changed is not checked. Groups are
//! found by `assemble`. Used by [`super`].

use std::sync::Arc;

use super::rules::{ChangedAttribute, CountValues, GroupRules};
use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::array::sequential::{Sequential, SequentialReaders};
use crate::container::Attributes;
use crate::container::binsparse::compressed;
use crate::container::hdf5::edit::NewValue;
use crate::container::writable::{ChangedArray, Consistency, change_of};
use crate::error::Result;
use crate::memory::budget::Budget;

const SHAPE: &str = "shape";

/// Codes that are looked at together.
const STEP: usize = 4 << 10;

/// A sparse matrix.
pub(crate) struct CompressedMatrix {
    /// Of its group in the container, and the token of that.
    pub(crate) path: String,
    pub(crate) group: u64,
    /// The dimension that `indptr` runs along: 0 of rows.
    pub(crate) major: usize,
    pub(crate) shape: [u64; 2],
    pub(crate) data: Arc<dyn Array>,
    pub(crate) indices: Arc<dyn Array>,
    pub(crate) indptr: Arc<dyn Array>,
}

/// An array as it is going to be.
fn changed<'a>(array: &'a Arc<dyn Array>, changes: &[&'a ChangedArray]) -> &'a Arc<dyn Array> {
    let change = change_of(changes, array.name());
    change.map_or(array, |change| &change.shown)
}

fn has_changed(array: &Arc<dyn Array>, changes: &[&ChangedArray]) -> bool {
    change_of(changes, array.name()).is_some()
}

/// Values of a column as it is going to be: those of text that changes are counted.
fn rows(array: &Arc<dyn Array>, changes: &[&ChangedArray], count: &CountValues<'_>) -> Result<u64> {
    match change_of(changes, array.name()) {
        Some(change) if array.info()?.dtype == Dtype::Text => count(change),
        Some(change) => len(&change.shown),
        None => len(array),
    }
}

/// Along the first dimension.
fn len(array: &Arc<dyn Array>) -> Result<u64> {
    Ok(array.info()?.shape.first().copied().unwrap_or(0))
}

impl CompressedMatrix {
    /// The shape with these changes.
    fn shape(&self, changes: &[&ChangedArray]) -> Result<[u64; 2]> {
        let mut shape = self.shape;
        if has_changed(&self.indptr, changes) {
            shape[self.major] = len(changed(&self.indptr, changes))?.saturating_sub(1);
        }
        Ok(shape)
    }
}

impl GroupRules for CompressedMatrix {
    fn judge(
        &self,
        changes: &[&ChangedArray],
        _count: &CountValues<'_>,
        budget: &Arc<Budget>,
    ) -> Result<Consistency> {
        let is_as_long = match change_of(changes, self.data.name()) {
            Some(change) => change.len == self.data.info()?.bytes,
            None => true,
        };
        let mut pointing = [&self.indices, &self.indptr].into_iter();
        if is_as_long && !pointing.any(|array| has_changed(array, changes)) {
            return Ok(Consistency::Now);
        }
        let (data, indices) = (
            changed(&self.data, changes),
            changed(&self.indices, changes),
        );
        let (values, places) = (len(data)?, len(indices)?);
        if values != places {
            return Ok(Consistency::NotYet(format!(
                "{} has {values} values, and {} has {places}",
                data.name(),
                indices.name()
            )));
        }
        let indptr = changed(&self.indptr, changes);
        if len(indptr)? == 0 {
            return Ok(Consistency::NotYet(format!("{} is empty", indptr.name())));
        }
        let minor = self.shape[1 - self.major];
        Consistency::checked(&*compressed(indptr, indices, minor)?, budget)
    }

    fn attribute(&self, changes: &[&ChangedArray]) -> Result<Option<ChangedAttribute>> {
        let shape = self.shape(changes)?;
        Ok((shape != self.shape).then(|| ChangedAttribute {
            group: self.group,
            name: SHAPE.into(),
            value: NewValue::Numbers(shape.to_vec()),
        }))
    }

    fn restated(&self, changes: &[&ChangedArray]) -> Result<Option<(String, Attributes)>> {
        let shape = self.shape(changes)?;
        let restated = || {
            let mut attributes = Attributes::new();
            attributes.insert(SHAPE.into(), shape.to_vec().into());
            (self.path.clone(), attributes)
        };
        Ok((shape != self.shape).then(restated))
    }
}

/// A dataframe.
pub(crate) struct Dataframe {
    /// All arrays with an element for each row.
    pub(crate) columns: Vec<Arc<dyn Array>>,
    pub(crate) categorical: Vec<CategoricalColumn>,
}

pub(crate) struct CategoricalColumn {
    pub(crate) codes: Arc<dyn Array>,
    pub(crate) categories: Arc<dyn Array>,
}

impl Dataframe {
    /// Two columns that have not the same length.
    fn different(
        &self,
        changes: &[&ChangedArray],
        count: &CountValues<'_>,
    ) -> Result<Option<String>> {
        let mut first = None;
        for column in &self.columns {
            let rows = rows(column, changes, count)?;
            let (name, expected) = first.get_or_insert_with(|| (column.name(), rows));
            if rows != *expected {
                return Ok(Some(format!(
                    "{} has {rows} rows, and {name} has {expected}",
                    column.name()
                )));
            }
        }
        Ok(None)
    }
}

impl GroupRules for Dataframe {
    fn judge(
        &self,
        changes: &[&ChangedArray],
        count: &CountValues<'_>,
        budget: &Arc<Budget>,
    ) -> Result<Consistency> {
        if self
            .columns
            .iter()
            .any(|column| has_changed(column, changes))
            && let Some(why) = self.different(changes, count)?
        {
            return Ok(Consistency::NotYet(why));
        }
        for column in &self.categorical {
            let parts = [&column.codes, &column.categories];
            if parts.iter().any(|part| has_changed(part, changes))
                && let Some(why) = column.objection(changes, count, budget)?
            {
                return Ok(Consistency::NotYet(why));
            }
        }
        Ok(Consistency::Now)
    }
}

impl CategoricalColumn {
    /// The first code of which there is no category.
    fn objection(
        &self,
        changes: &[&ChangedArray],
        count: &CountValues<'_>,
        budget: &Arc<Budget>,
    ) -> Result<Option<String>> {
        const NONE: u64 = u64::MAX;
        let codes = changed(&self.codes, changes);
        let count = rows(&self.categories, changes, count)?;
        let mut reader = Sequential::new(Arc::clone(codes), &SequentialReaders::new(budget))?;
        let mut read = [0; STEP];
        let mut row = 0;
        loop {
            let n = reader.read(&mut read)?;
            let codes_read = &read[..n];
            let is_outside = |code: &u64| *code >= count && *code != NONE;
            if let Some(at) = codes_read.iter().position(is_outside) {
                return Ok(Some(format!(
                    "{}: element {} is {}, and there are {count} categories",
                    codes.name(),
                    row + at,
                    codes_read[at] as i64
                )));
            }
            if n == 0 {
                return Ok(None);
            }
            row += n;
        }
    }
}
