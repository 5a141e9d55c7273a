//! A container whose arrays lie in fields that are no files: changed as if they did.
//!
//! Each field is shown as the file that a directory would have, its header before its elements, and
//! the recipe is one of these files. Who keeps the fields makes of it what they are going to be, by
//! [`ELEMENTS_AT`]; of texts, which are no fields, he has what they are to be. The `version` stays.
//! Used by `container::hdf5`.

use std::sync::Arc;

use super::forms::member;
use super::{MemberFiles, VERSION, text_line};
use crate::array::lazy::{Computed, LazyPart, LazySource};
use crate::container::Container;
use crate::container::bpcells::directory::OpenedMember;
use crate::container::bpcells::fields::Field;
use crate::container::bpcells::header;
use crate::container::bpcells::matrix::StorageOrder;
use crate::container::bpcells::packed::idx_offsets::WRAP;
use crate::container::bpcells::version::Variant;
use crate::container::rewrite::{MemberNumber, Rewrite};
use crate::error::Result;
use crate::source::SourceIdentity;

/// Where the elements of a field begin in the file that it is shown as.
pub(crate) const ELEMENTS_AT: u64 = header::LEN as u64;

/// The array that says along which dimension a matrix is stored.
pub(crate) const ORDER: &str = "storage_order";

/// A field, and the name of the file that it stands for.
pub(crate) type NamedField = (String, Arc<dyn Field>);

/// How a container can be changed that has these fields, by the names of the files that they stand
/// for, in a file of this identity.
pub(crate) fn of_fields(
    container: &Container,
    variant: Variant,
    (fields, identity): (&[NamedField], SourceIdentity),
) -> Arc<dyn Rewrite> {
    let mut arrays: Vec<_> = container.written().map(Arc::clone).collect();
    let mut order = StorageOrder::Col;
    for name in [ORDER, VERSION] {
        let mut texts = container.texts.iter();
        let Some(text) = texts.find(|text| text.name == name) else {
            continue;
        };
        let line = text.content.strip_suffix(b"\n").unwrap_or(&text.content);
        order = StorageOrder::named(line).unwrap_or(order);
        arrays.push(text_line(name, line));
    }
    let members = fields.iter().map(|(name, field)| OpenedMember {
        name: name.clone(),
        source: Arc::new(field_file(field, identity)),
    });
    Arc::new(MemberFiles {
        variant,
        version: container.version.clone(),
        order,
        arrays,
        members: super::StoredMembers(members.collect()),
        wrap: WRAP,
    })
}

/// Makes the text that says along which dimension a matrix is stored an array, to be written.
pub(crate) fn take_order(container: &mut Container) {
    let mut texts = container.texts.iter();
    if let Some(at) = texts.position(|text| text.name == ORDER) {
        let text = container.texts.remove(at);
        let line = text.content.strip_suffix(b"\n").unwrap_or(&text.content);
        container.lines.push(text_line(ORDER, line));
    }
}

/// The number that the file of this name has in a recipe.
pub(crate) fn file_number(name: &str) -> Result<MemberNumber> {
    member(name)
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
fn field_file(field: &Arc<dyn Field>, identity: SourceIdentity) -> LazySource {
    let header = LazyPart::Bytes(header::magic(field.number()).to_vec());
    let elements = LazyPart::Computed(Arc::new(FieldElements(Arc::clone(field))));
    LazySource::new(identity, [header, elements])
}
