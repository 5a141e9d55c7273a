//! What has to hold between the arrays of a group, and what its attributes say of them.
//!
//! Attributes follow: a commit that changes the arrays changes them, too, and nothing else of the
//! group. Used by [`super`].

use std::sync::Arc;

use crate::container::Attributes;
use crate::container::hdf5::edit::{EditStep, NewValue};
use crate::container::hdf5::index::AttributeValue;
use crate::container::writable::{ChangedArray, Consistency};
use crate::error::Result;
use crate::memory::budget::Budget;

/// How many values a text is going to have.
pub(crate) type CountValues<'a> = dyn Fn(&ChangedArray) -> Result<u64> + 'a;

pub(crate) trait GroupRules: Send + Sync {
    /// Whether the arrays agree with these changes. Each of them can be stored by itself. `count`:
    /// values of a text that changes.
    fn judge(
        &self,
        changes: &[&ChangedArray],
        count: &CountValues<'_>,
        budget: &Arc<Budget>,
    ) -> Result<Consistency>;

    /// The attribute that says something else with these changes.
    fn attribute(&self, _changes: &[&ChangedArray]) -> Result<Option<ChangedAttribute>> {
        Ok(None)
    }

    /// What is shown of that, by the path of the group in its container; none where the container
    /// shows it by itself.
    fn restated(&self, _changes: &[&ChangedArray]) -> Result<Option<(String, Attributes)>> {
        Ok(None)
    }
}

/// An attribute of a group that gets another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedAttribute {
    /// The token of the group.
    pub(super) group: u64,
    pub(super) name: Vec<u8>,
    pub(super) value: NewValue,
}

impl ChangedAttribute {
    pub(super) fn step(&self) -> EditStep {
        EditStep::Attribute {
            object: self.group,
            name: self.name.clone(),
            value: self.value.clone(),
        }
    }

    /// About how many bytes change.
    pub(super) fn len(&self) -> u64 {
        match &self.value {
            NewValue::Text(text) => text.len() as u64,
            NewValue::Numbers(numbers) => 8 * numbers.len() as u64,
        }
    }

    /// As an index of the file has it.
    pub(super) fn indexed(&self) -> AttributeValue {
        match &self.value {
            NewValue::Text(text) => AttributeValue::Text(text.clone()),
            NewValue::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                AttributeValue::Json(format!("[{}]", numbers.join(",")))
            }
        }
    }
}
