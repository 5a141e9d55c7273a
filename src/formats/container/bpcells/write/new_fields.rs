//! A new container whose arrays will lie in fields that are no files: planned as a new directory,
//! and told as one.
//!
//! What is stored as it is shown, and names, its keeper has already: of what is told only indices
//! and computed fields concern him. Packed words, which may be many, are encoded once more when he
//! reads them. The `version` is no field. Used by `container::hdf5`.

use std::sync::Arc;

use super::ORDER;
use super::forms::{ArrayForm, arrays_of, form_of, is_array};
use super::new_container::{NewDirectory, accept};
use super::packed_words::{NewStream, PackedWords, ToldIndex};
use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::array::lazy::computed_array;
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::packed::idx_offsets::WRAP;
use crate::container::creation::GivenDescription;
use crate::container::rewrite::Recipe;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

pub(crate) struct NewFields(pub(super) NewDirectory);

/// A field that the container will have.
pub(crate) struct NewField {
    /// Of the file that it stands for.
    pub(crate) name: String,
    /// The array that it is made of.
    pub(crate) of: &'static str,
    pub(crate) content: NewFieldContent,
}

pub(crate) enum NewFieldContent {
    /// What is told of its file, without the header.
    Told(Number),
    /// What an array is packed to.
    Words,
    /// The array as it is shown.
    Shown(Number, Arc<dyn Array>),
    Lines(Arc<dyn Array>),
    Word(String),
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

    pub(crate) fn all(&self) -> Vec<NewField> {
        let names = arrays_of(self.0.files.variant).iter();
        names.flat_map(|name| self.of_array(name)).collect()
    }

    fn of_array(&self, of: &'static str) -> Vec<NewField> {
        let field = |name: &str, content| NewField {
            name: name.to_owned(),
            of,
            content,
        };
        let shown = || self.shown(of).ok();
        match form_of(self.0.files.variant, of) {
            Some(ArrayForm::Plain(number)) => {
                let shown = shown().map(|array| NewFieldContent::Shown(number, array));
                shown
                    .map(|content| field(of, content))
                    .into_iter()
                    .collect()
            }
            Some(ArrayForm::Packed(stream) | ArrayForm::Lengths(stream)) => {
                let part = |part| {
                    let content = match part {
                        "data" => NewFieldContent::Words,
                        "idx_offsets" => NewFieldContent::Told(Number::U64),
                        _ => NewFieldContent::Told(Number::U32),
                    };
                    field(&format!("{of}_{part}"), content)
                };
                stream.parts().map(part).collect()
            }
            Some(ArrayForm::Maxima) => vec![field(of, NewFieldContent::Told(Number::U32))],
            Some(ArrayForm::Lines) => {
                let lines = shown().map(NewFieldContent::Lines);
                lines
                    .map(|content| field(of, content))
                    .into_iter()
                    .collect()
            }
            Some(ArrayForm::Word) if of == ORDER => {
                let word = self.0.order().to_owned();
                vec![field(of, NewFieldContent::Word(word))]
            }
            Some(ArrayForm::Word) | None => Vec::new(),
        }
    }

    fn shown(&self, name: &str) -> Result<Arc<dyn Array>> {
        let mut changed = self.0.changed.iter();
        let found = changed.find(|array| array.shown.name() == name);
        let none = || Error::Bug(format!("{name} is not there"));
        found.map(|array| Arc::clone(&array.shown)).ok_or_else(none)
    }

    /// The words of a packed array, as an array of another name; of its index as it was told, and
    /// of the offsets of that, if it has some.
    pub(crate) fn words(
        &self,
        of: &str,
        name: &str,
        (idx, offsets): (Arc<dyn Array>, Option<Arc<dyn Array>>),
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
        let index = ToldIndex::new(idx, offsets.as_deref(), self.0.files.wrap)?;
        let words = PackedWords::new(name, stream, index)?;
        Ok(computed_array(name, Dtype::U32, words))
    }

    /// Tells the files that a directory would have; EINVAL if the arrays do not agree.
    pub(crate) fn tell(&self, budget: &Arc<Budget>, write: &mut dyn Recipe) -> Result<()> {
        self.0.tell(budget, write)
    }
}
