//! The group of a Binsparse container: its descriptor, its arrays, and what has to hold between
//! them. Used by `assemble`.

use std::sync::Arc;

use super::{Draft, attributes};
use crate::container::binsparse;
use crate::container::hdf5::index::GroupEntry;
use crate::container::hdf5::write::SparseRules;
use crate::error::{Fault, Result};

pub(super) struct BinsparseGroup {
    descriptor: Option<Vec<u8>>,
    /// The token of the group, if the descriptor is an attribute of it.
    attribute_of: Option<u64>,
    /// Datasets of the group itself.
    pub(super) members: Vec<binsparse::Member>,
}

impl BinsparseGroup {
    /// `descriptor`: none if it is no text.
    pub(super) fn new(group: &GroupEntry, descriptor: Option<Vec<u8>>) -> BinsparseGroup {
        let attribute = attributes::find(&group.attributes, binsparse::DESCRIPTOR.as_bytes());
        BinsparseGroup {
            descriptor,
            attribute_of: attribute.map(|_| group.token),
            members: Vec::new(),
        }
    }
}

impl Draft {
    /// Whether no descriptor says how long its arrays are that stays as it is.
    pub(super) fn has_lengths(&self) -> bool {
        let binsparse = self.binsparse.as_ref();
        binsparse.is_none_or(|group| group.attribute_of.is_some())
    }

    /// Checks the rules of a Binsparse container, once all its arrays are there.
    pub(super) fn examine(&mut self) -> Result<()> {
        let Some(group) = self.binsparse.take() else {
            return Ok(());
        };
        let Some(text) = group.descriptor else {
            let fault = Fault::new("the attribute 'binsparse' is no text");
            let faults = &mut self.container.faults;
            faults.push(fault.expected("a descriptor of Binsparse"));
            return Ok(());
        };
        let text = Arc::new(text);
        let examined = binsparse::examine(&text, &group.members)?;
        self.sparse = Some(SparseRules::new(&text, group.members, group.attribute_of));
        examined.put_into(&mut self.container, text);
        Ok(())
    }
}
