//! The arrays of a container as they are going to be: what has to hold between them, and their
//! descriptor.
//!
//! Whatever is written is held against all rules that `verify` knows, before it is committed;
//! values by themselves break none. The descriptor follows from the lengths of the arrays, as far
//! as it does; or somebody has written another one, which the arrays have to agree with then. Used
//! by the formats in whose files Binsparse containers lie.

use std::sync::Arc;

use super::{DescriptorText, LONGEST, Member, TEXT, ends_early, examine, followed, is_member};
use crate::array::Array;
use crate::array::held::HeldArray;
use crate::array::uncached::{DecodeMemory, read_into};
use crate::container::Attributes;
use crate::container::writable::{ChangedArray, Consistency, change_of};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::memory::{Arena, fallible};

const VALUES: &str = "values";

pub(crate) struct SparseArrays {
    descriptor: Arc<Vec<u8>>,
    arrays: Vec<Arc<dyn Array>>,
    /// The descriptor can be another one, too.
    follows: bool,
}

/// The descriptor with changes of the container.
pub(crate) enum NewDescriptor {
    /// As it is stored.
    Stored,
    /// It has been written.
    Written(Vec<u8>),
    /// It follows from the arrays.
    Followed(Vec<u8>),
}

impl SparseArrays {
    pub(crate) fn new(
        descriptor: &Arc<Vec<u8>>,
        members: Vec<Member>,
        follows: bool,
    ) -> SparseArrays {
        let arrays = members.into_iter().filter_map(|member| member.array.ok());
        SparseArrays {
            descriptor: Arc::clone(descriptor),
            arrays: arrays.collect(),
            follows,
        }
    }

    /// The changed arrays of a container whose descriptor is as it is for good.
    pub(crate) fn without_descriptor(self) -> SparseArrays {
        SparseArrays {
            follows: false,
            ..self
        }
    }

    /// The descriptor as an array, if it can be written.
    pub(crate) fn line(&self) -> Option<HeldArray<DescriptorText>> {
        let text = || DescriptorText(Arc::clone(&self.descriptor));
        self.follows.then(|| HeldArray::text(TEXT, text()))
    }

    pub(crate) fn new_descriptor(&self, changes: &[&ChangedArray]) -> Result<NewDescriptor> {
        if !self.follows {
            return Ok(NewDescriptor::Stored);
        }
        if let Some(written) = change_of(changes, TEXT) {
            let len = written.len.min(LONGEST as u64 + 1);
            let mut text = fallible::zeros(len, "cannot read a descriptor")?;
            let memory = DecodeMemory::Lent(Arena::none());
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
    pub(crate) fn examined(&self, changes: &[&ChangedArray]) -> Result<(String, Attributes)> {
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
                Some(stored) if stored.name() == VALUES => stored.info()?.bytes == change.len,
                Some(stored) => !is_member(stored.name()),
                // No array of the container, but in a group of it.
                None => change.shown.name() != TEXT,
            };
            if !is_kept {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The text that is to be stored; none if it is the same.
    pub(crate) fn changed_text(&self, changes: &[&ChangedArray]) -> Result<Option<Vec<u8>>> {
        Ok(match self.new_descriptor(changes)? {
            NewDescriptor::Stored => None,
            NewDescriptor::Written(text) if text == **self.descriptor => None,
            NewDescriptor::Written(text) | NewDescriptor::Followed(text) => Some(text),
        })
    }

    /// The descriptor, if it follows from changes of the arrays and is another one.
    pub(crate) fn followed(&self, changes: &[&ChangedArray]) -> Result<Option<Vec<u8>>> {
        Ok(match self.new_descriptor(changes)? {
            NewDescriptor::Followed(text) => Some(text),
            NewDescriptor::Stored | NewDescriptor::Written(_) => None,
        })
    }

    /// Bytes of the descriptor as it is stored.
    pub(crate) fn descriptor_len(&self) -> usize {
        self.descriptor.len()
    }

    /// Whether the arrays agree with these changes. A descriptor that somebody has written may be
    /// unfit by what `objection` says of its text.
    pub(crate) fn judge(
        &self,
        changes: &[&ChangedArray],
        objection: impl Fn(&[u8]) -> Option<String>,
        budget: &Arc<Budget>,
    ) -> Result<Consistency> {
        if self.keeps_structure(changes)? {
            return Ok(Consistency::Now);
        }
        let new = self.new_descriptor(changes)?;
        if let NewDescriptor::Written(text) = &new {
            if ends_early(text) {
                return Ok(Consistency::NotYet(format!("{TEXT} ends early")));
            }
            if let Some(why) = objection(text) {
                return Ok(Consistency::Unfit(format!("{TEXT} {why}")));
            }
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
            Some(check) => Consistency::checked(&*check, budget),
            None => Ok(Consistency::Now),
        }
    }
}
