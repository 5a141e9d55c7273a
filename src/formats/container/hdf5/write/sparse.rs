//! A Binsparse container in a group: its arrays keep the rules of the format, and its descriptor,
//! an attribute of the group, follows. Used by [`super`].

use std::sync::Arc;

use super::rules::{ChangedAttribute, CountValues, GroupRules};
use crate::container::binsparse::{DESCRIPTOR, Member, SparseArrays};
use crate::container::hdf5::edit::NewValue;
use crate::container::writable::{ChangedArray, Consistency};
use crate::error::Result;
use crate::memory::budget::Budget;

/// A longer descriptor of fixed length may not fit into an object header.
const FIXED_MOST: usize = 64_000;

pub(crate) struct SparseRules {
    pub(super) arrays: SparseArrays,
    /// The group whose attribute the descriptor is. It may be a dataset, which stays as it is.
    group: Option<u64>,
}

impl SparseRules {
    pub(crate) fn new(
        descriptor: &Arc<Vec<u8>>,
        members: Vec<Member>,
        group: Option<u64>,
    ) -> SparseRules {
        SparseRules {
            arrays: SparseArrays::new(descriptor, members, group.is_some()),
            group,
        }
    }

    /// Why a text cannot be an attribute, whatever it says.
    fn objection(&self, text: &[u8]) -> Option<String> {
        match text {
            _ if text.contains(&0) => Some("has a NUL in it".into()),
            _ if text.len() > FIXED_MOST.max(self.arrays.descriptor_len()) => {
                Some(format!("has more than {FIXED_MOST} bytes"))
            }
            _ => None,
        }
    }
}

impl GroupRules for SparseRules {
    fn judge(
        &self,
        changes: &[&ChangedArray],
        _count: &CountValues<'_>,
        budget: &Arc<Budget>,
    ) -> Result<Consistency> {
        let objection = |text: &[u8]| self.objection(text);
        self.arrays.judge(changes, objection, budget)
    }

    fn attribute(&self, changes: &[&ChangedArray]) -> Result<Option<ChangedAttribute>> {
        let (Some(group), Some(text)) = (self.group, self.arrays.changed_text(changes)?) else {
            return Ok(None);
        };
        Ok(Some(ChangedAttribute {
            group,
            name: DESCRIPTOR.into(),
            value: NewValue::Text(text),
        }))
    }
}
