//! The arrays of a Binsparse container in a group: what has to hold between them, as they are going
//! to be.
//!
//! Their descriptor says how many values there are, so lengths stay. Whatever is written to indices
//! and pointers is held against all rules that `verify` knows, before it is committed; values by
//! themselves break none. Used by [`super`].

use std::sync::Arc;

use crate::array::Array;
use crate::container::binsparse::{Member, examine};
use crate::container::rewrite::ChangedArray;
use crate::error::Result;
use crate::memory::budget::Budget;

const VALUES: &str = "values";

pub(in crate::container::hdf5) struct SparseRules {
    descriptor: Arc<Vec<u8>>,
    arrays: Vec<Arc<dyn Array>>,
}

impl SparseRules {
    pub(in crate::container::hdf5) fn new(
        descriptor: &Arc<Vec<u8>>,
        members: Vec<Member>,
    ) -> SparseRules {
        let arrays = members.into_iter().filter_map(|member| member.array.ok());
        SparseRules {
            descriptor: Arc::clone(descriptor),
            arrays: arrays.collect(),
        }
    }

    /// The first rule that the arrays break with these changes.
    pub(super) fn objection(
        &self,
        changes: &[&ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Option<String>> {
        if changes.iter().all(|change| change.shown.name() == VALUES) {
            return Ok(None);
        }
        let members = self.arrays.iter().map(|stored| {
            let is_it = |change: &&&ChangedArray| change.shown.name() == stored.name();
            let shown = changes.iter().find(is_it).map(|change| &change.shown);
            Member {
                name: stored.name().to_owned(),
                array: Ok(Arc::clone(shown.unwrap_or(stored))),
            }
        });
        let examined = examine(&self.descriptor, &members.collect::<Vec<_>>())?;
        if let Some(fault) = examined.faults.first() {
            return Ok(Some(fault.to_string()));
        }
        let mut first = None;
        if let Some(check) = examined.check {
            check.check(budget, &mut |fault| {
                first.get_or_insert_with(|| fault.to_string());
            })?;
        }
        Ok(first)
    }
}
