//! A container whose arrays lie in fields that are no files: changed as if they did.
//!
//! Each field is shown as the file that a directory would have, its header before its elements, and
//! the recipe is one of these files, of which [`told`](super::told) makes what the fields are going
//! to be. Of texts, which are no fields, their keeper has what they are to be. The `version` stays.
//! Used by `container::hdf5`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MemberFiles;
use super::told::ToldMembers;
use crate::array::lazy::{Computed, LazyPart, LazySource};
use crate::container::Container;
use crate::container::bpcells::fields::Field;
use crate::container::bpcells::header;
use crate::container::bpcells::version::Variant;
use crate::container::inside::ContainerNumber;
use crate::container::writable::{ChangedArray, CommitWay, WritableContainer};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::source::Source;

/// A field, and the name of the file that it stands for.
pub(crate) type NamedField = (String, Arc<dyn Field>);

impl MemberFiles {
    /// Those of a container that has these fields.
    pub(crate) fn of_fields(
        container: &Container,
        variant: Variant,
        fields: Vec<NamedField>,
    ) -> MemberFiles {
        let members = fields.into_iter();
        let members = members.map(|(name, field)| (name, field_file(field)));
        MemberFiles::new(container, variant, members.collect())
    }

    /// What becomes of the fields, by the names of their files: of those that are `kept`.
    pub(crate) fn changed_fields(
        &self,
        (container, changed): (ContainerNumber, &[ChangedArray]),
        kept: &dyn Fn(&str) -> bool,
        budget: &Arc<Budget>,
    ) -> Result<BTreeMap<&'static str, ChangedArray>> {
        let mut told = ToldMembers::new(&self.members, kept, budget);
        self.recipe(changed, CommitWay::Replaced, budget, &mut told)?;
        let (files, changed) = told.into_files();
        let changes = changed.into_iter().map(|(name, ranges)| {
            let shown = files.numbers(name)?;
            let len = shown.info()?.bytes;
            let before = self.members.source(name).map_or(0, |file| file.len());
            let visible = before.saturating_sub(header::LEN as u64).min(len);
            let change = ChangedArray {
                container,
                shown,
                len,
                ranges,
                visible,
                done_before: None,
            };
            Ok((name, change))
        });
        changes.collect()
    }
}

/// The elements of a field.
struct FieldElements(Arc<dyn Field>);

impl Computed for FieldElements {
    fn len(&self) -> u64 {
        self.0.len().saturating_mul(self.0.number().width())
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(at, out)
    }
}

/// A field as a file: its header before its elements.
fn field_file(field: Arc<dyn Field>) -> Arc<dyn Source> {
    let header = LazyPart::of(header::magic(field.number()).to_vec(), None);
    let elements = LazyPart::Computed(Arc::new(FieldElements(field)));
    Arc::new(LazySource::new([header, elements]))
}
