//! The arrays of a Binsparse container in a group, as they are going to be: what has to hold
//! between them, and their descriptor.
//!
//! Whatever is written is held against all rules that `verify` knows, before it is committed;
//! values by themselves break none. The descriptor follows from the lengths of the arrays, as far
//! as it does; or somebody has written another one, which the arrays have to agree with then. Used
//! by [`super`].

use std::sync::Arc;

use super::rules::{ChangedAttribute, GroupRules, change_of};
use crate::array::Array;
use crate::array::uncached::{DecodeMemory, read_into};
use crate::container::Attributes;
use crate::container::binsparse::{
    DESCRIPTOR, DescriptorText, LONGEST, Member, TEXT, ends_early, examine, followed,
};
use crate::container::hdf5::edit::NewValue;
use crate::container::rewrite::{ChangedArray, Consistency};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::memory::{Scratch, fallible};

const VALUES: &str = "values";

/// A longer one of fixed length may not fit into an object header.
const FIXED_MOST: usize = 64_000;

pub(in crate::container::hdf5) struct SparseRules {
    descriptor: Arc<Vec<u8>>,
    arrays: Vec<Arc<dyn Array>>,
    /// The group whose attribute the descriptor is. It may be a dataset, which stays as it is.
    group: Option<u64>,
}

/// The descriptor with changes of the container.
pub(super) enum NewDescriptor {
    /// As it is stored.
    Stored,
    /// It has been written.
    Written(Vec<u8>),
    /// It follows from the arrays.
    Followed(Vec<u8>),
}

impl SparseRules {
    pub(in crate::container::hdf5) fn new(
        descriptor: &Arc<Vec<u8>>,
        members: Vec<Member>,
        group: Option<u64>,
    ) -> SparseRules {
        let arrays = members.into_iter().filter_map(|member| member.array.ok());
        SparseRules {
            descriptor: Arc::clone(descriptor),
            arrays: arrays.collect(),
            group,
        }
    }

    /// The descriptor as an array, if it can be written.
    pub(super) fn line(&self) -> Option<DescriptorText> {
        self.group?;
        Some(DescriptorText(Arc::clone(&self.descriptor)))
    }

    pub(super) fn new_descriptor(&self, changes: &[&ChangedArray]) -> Result<NewDescriptor> {
        if self.group.is_none() {
            return Ok(NewDescriptor::Stored);
        }
        if let Some(written) = change_of(changes, TEXT) {
            let len = written.len.min(LONGEST as u64 + 1);
            let mut text = fallible::zeros(len, "cannot read a descriptor")?;
            let memory = DecodeMemory::Lent(Scratch::none());
            read_into(&*written.shown, 0, &mut text, memory)?;
            return Ok(NewDescriptor::Written(text));
        }
        let followed = followed(&self.descriptor, &self.members(changes))?;
        Ok(followed.map_or(NewDescriptor::Stored, NewDescriptor::Followed))
    }

    /// The arrays as they are going to be.
    fn members(&self, changes: &[&ChangedArray]) -> Vec<Member> {
        let members = self.arrays.iter().map(|stored| {
            let change = change_of(changes, stored.name());
            Member {
                name: stored.name().to_owned(),
                array: Ok(Arc::clone(change.map_or(stored, |change| &change.shown))),
            }
        });
        members.collect()
    }

    /// What the container says of itself with these changes, and its version.
    pub(super) fn examined(&self, changes: &[&ChangedArray]) -> Result<(String, Attributes)> {
        let new = self.new_descriptor(changes)?;
        let examined = examine(self.text(&new), &self.members(changes))?;
        Ok((examined.version, examined.attributes))
    }

    fn text<'a>(&'a self, new: &'a NewDescriptor) -> &'a [u8] {
        match new {
            NewDescriptor::Stored => &self.descriptor,
            NewDescriptor::Written(text) | NewDescriptor::Followed(text) => text,
        }
    }

    /// Whether only values have changed, and not their number.
    fn keeps_structure(&self, changes: &[&ChangedArray]) -> Result<bool> {
        for change in changes {
            let stored = self.arrays.iter();
            let mut stored = stored.filter(|stored| stored.name() == change.shown.name());
            let is_kept = match stored.next() {
                Some(stored) => stored.name() == VALUES && stored.info()?.bytes == change.len,
                // No array of the container, but in a group of it.
                None => change.shown.name() != TEXT,
            };
            if !is_kept {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl GroupRules for SparseRules {
    fn judge(&self, changes: &[&ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        if self.keeps_structure(changes)? {
            return Ok(Consistency::Now);
        }
        let new = self.new_descriptor(changes)?;
        if let NewDescriptor::Written(text) = &new
            && let Some(objection) = objection(text, self.descriptor.len())
        {
            return Ok(objection);
        }
        let examined = examine(self.text(&new), &self.members(changes))?;
        if let Some(fault) = examined.faults.first() {
            let is_misfit = examined.misfits && matches!(new, NewDescriptor::Written(_));
            return Ok(match is_misfit {
                true => Consistency::Unfit(fault.to_string()),
                false => Consistency::NotYet(fault.to_string()),
            });
        }
        match examined.check {
            Some(check) => first_fault(&*check, budget),
            None => Ok(Consistency::Now),
        }
    }

    fn attribute(&self, changes: &[&ChangedArray]) -> Result<Option<ChangedAttribute>> {
        let (Some(group), new) = (self.group, self.new_descriptor(changes)?) else {
            return Ok(None);
        };
        let text = match new {
            NewDescriptor::Written(text) if text == **self.descriptor => return Ok(None),
            NewDescriptor::Written(text) | NewDescriptor::Followed(text) => text,
            NewDescriptor::Stored => return Ok(None),
        };
        Ok(Some(ChangedAttribute {
            group,
            name: DESCRIPTOR.into(),
            value: NewValue::Text(text),
        }))
    }

    /// It is shown by the container itself.
    fn restated(&self, _changes: &[&ChangedArray]) -> Result<Option<(String, Attributes)>> {
        Ok(None)
    }
}

/// Why a text cannot be an attribute, whatever it says.
fn objection(text: &[u8], stored: usize) -> Option<Consistency> {
    let unfit = |why: &str| Some(Consistency::Unfit(format!("{TEXT} {why}")));
    match text {
        _ if ends_early(text) => Some(Consistency::NotYet(format!("{TEXT} ends early"))),
        _ if text.contains(&0) => unfit("has a NUL in it"),
        _ if text.len() > FIXED_MOST.max(stored) => {
            unfit(&format!("has more than {FIXED_MOST} bytes"))
        }
        _ => None,
    }
}

/// Whether a check finds nothing.
pub(super) fn first_fault(
    check: &dyn crate::container::Check,
    budget: &Arc<Budget>,
) -> Result<Consistency> {
    let mut first = None;
    check.check(budget, &mut |fault| {
        first.get_or_insert_with(|| fault.to_string());
    })?;
    Ok(first.map_or(Consistency::Now, Consistency::NotYet))
}
