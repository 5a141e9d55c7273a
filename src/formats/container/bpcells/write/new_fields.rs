//! A new container whose arrays will lie in fields that are no files: planned as a new directory,
//! and told as one.
//!
//! What is stored as it is shown, and names, its keeper has already: of what is told only indices
//! and computed fields are kept. Packed words, which may be many, are encoded once more when he
//! reads them. The `version` is no field. Used by `container::hdf5`.

use std::sync::Arc;

use super::forms::{ArrayForm, arrays_of, form_of, is_array};
use super::new_container::{NewDirectory, accept};
use super::packed_words::{NewStream, PackedWords, ToldIndex};
use super::stored::StoredMembers;
use super::told::ToldMembers;
use super::{END_MAX, ORDER, VERSION, text_line};
use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::array::lazy::computed_array;
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::packed::idx_offsets::WRAP;
use crate::container::creation::GivenDescription;
use crate::container::inside::join;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

pub(crate) struct NewFields(pub(super) NewDirectory);

/// A field that the container will have.
pub(crate) struct NewField {
    /// Of the file that it stands for.
    pub(crate) name: String,
    /// The array that it is made of.
    pub(crate) of: &'static str,
    /// None for lines of text.
    pub(crate) number: Option<Number>,
    pub(crate) array: Arc<dyn Array>,
}

/// Whether `name` is a file of BPCells' own that holds no array as it is shown.
pub(crate) fn is_stored_alone(name: &str) -> bool {
    crate::container::bpcells::MEMBERS.contains(&name) && !is_array(name)
}

impl NewFields {
    /// Of these arrays; EINVAL if they or their description cannot be those of a container.
    pub(crate) fn given(
        arrays: &[Arc<dyn Array>],
        description: &GivenDescription,
    ) -> Result<NewFields> {
        let new = NewDirectory::given(arrays, Some(description), WRAP)?;
        let variant = Some(new.files.variant);
        let mut described = description.arrays.iter();
        described.try_for_each(|array| accept(array, variant))?;
        Ok(NewFields(new))
    }

    pub(crate) fn version(&self) -> &str {
        &self.0.files.version
    }

    /// All of them, in order, of a container at this path; EINVAL if the arrays do not agree.
    pub(crate) fn all(&self, path: &str, budget: &Arc<Budget>) -> Result<Vec<NewField>> {
        let told = self.told(budget)?;
        let mut fields = Vec::new();
        for of in arrays_of(self.0.files.variant) {
            let form = form_of(self.0.files.variant, of).filter(|_| *of != VERSION);
            for (name, number) in form.map_or_else(Vec::new, |form| form.files(of)) {
                let array = match (told.source(&name), number) {
                    (Some(_), _) => told.numbers(&name)?,
                    (None, Some(_)) if name != *of => self.words(of, &join(path, &name), &told)?,
                    _ if *of == ORDER => text_line(ORDER, self.0.files.order.name().as_bytes()),
                    _ => self.shown(of)?,
                };
                fields.push(NewField {
                    name,
                    of,
                    number,
                    array,
                });
            }
        }
        Ok(fields)
    }

    /// What nobody has but who is told.
    pub(super) fn told(&self, budget: &Arc<Budget>) -> Result<StoredMembers> {
        let is_index = |name: &str| is_stored_alone(name) && !name.ends_with("_data");
        let kept = |name: &str| name == END_MAX || is_index(name);
        let mut told = ToldMembers::new(&self.0.files.members, &kept, budget);
        self.0.tell(budget, &mut told)?;
        Ok(told.into_files().0)
    }

    fn shown(&self, name: &str) -> Result<Arc<dyn Array>> {
        let mut changed = self.0.changed.iter();
        let found = changed.find(|array| array.shown.name() == name);
        let none = || Error::Bug(format!("{name} is not there"));
        found.map(|array| Arc::clone(&array.shown)).ok_or_else(none)
    }

    /// The words of a packed array, as an array of this name; of its index as it was told.
    pub(super) fn words(
        &self,
        of: &str,
        name: &str,
        told: &StoredMembers,
    ) -> Result<Arc<dyn Array>> {
        let values = self.shown(of)?;
        let (form, less) = match form_of(self.0.files.variant, of) {
            Some(ArrayForm::Packed(form)) => (form, None),
            Some(ArrayForm::Lengths(form)) => (form, Some(self.shown("start")?)),
            _ => return Err(Error::Bug(format!("{of} is not packed"))),
        };
        let stream = NewStream {
            transform: form.transform,
            len: values.info()?.bytes,
            values,
            less,
        };
        let index = ToldIndex::open(told, of, (form, stream.chunks()), self.0.files.wrap)?;
        let words = PackedWords::new(name, stream, index)?;
        Ok(computed_array(name, Dtype::U32, words))
    }
}
