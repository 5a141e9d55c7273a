//! New DAPHNE files, of raw arrays and of what an `arrays.json` says of them.
//!
//! [`object`]: the matrix or the frame that the arrays make up. [`form`]: which of the two forms it
//! gets, and how it lies in a file of that form. A new file is told as a changed one is, over one
//! without any bytes. Used by [`crate::container::creation`].

mod form;
mod labels;
mod object;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::labels::LABELS;
use super::write::{COLUMNS, OFFSETS, VALUES};
use super::{Daphne, NAME};
use crate::container::Preferences;
use crate::container::creation::{
    Creation, GivenArray, GivenContent, GivenDescription, GivenType, PackingRule,
};
use crate::container::writable::Recipe;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use object::{NewObject, value_type};

/// How blocks may be stored; which it is follows from the form and the values.
const CODECS: &[&str] = &["none", "sparse", "coo", "empty", "mixed"];

/// The group of a frame's columns.
const FRAME: &str = "columns";

impl Creation for Daphne {
    fn has_array(&self, path: &str) -> bool {
        [VALUES, COLUMNS, OFFSETS, LABELS].contains(&path) || column(path).is_some()
    }

    fn has_group(&self, path: &str) -> bool {
        path == FRAME
    }

    fn is_bytes_untyped(&self, path: &str) -> bool {
        path == VALUES || column(path).is_some()
    }

    fn packing(&self) -> PackingRule {
        PackingRule::AsDescribed
    }

    fn accepts(&self, description: &GivenDescription) -> Result<()> {
        let refuse = |why: String| Err(Error::Invalid(format!("arrays.json: {why}")));
        if description.format.as_ref().is_some_and(|name| name != NAME) {
            return refuse("it describes a container of another format".into());
        }
        for array in &description.arrays {
            let name = &array.name;
            if !self.has_array(name) {
                return refuse(format!("{name} is no array of a DAPHNE file"));
            }
            if name != LABELS && value_type(&array.dtype).is_none() {
                return refuse(format!("{name}: DAPHNE has no {}", array.dtype));
            }
        }
        description.check_keys("a DAPHNE file", &[], Some(CODECS))
    }

    fn typed(
        &self,
        description: Option<GivenDescription>,
        path: &str,
        to: &GivenType,
        bytes: u64,
    ) -> Result<GivenDescription> {
        let unknown = to
            .dtype
            .as_ref()
            .filter(|dtype| value_type(dtype).is_none());
        match unknown {
            Some(dtype) => Err(Error::Invalid(format!("{path}: DAPHNE has no {dtype}"))),
            None => description.unwrap_or_default().with_type(path, to, bytes),
        }
    }

    fn recipe(
        &self,
        content: &GivenContent,
        preferences: Preferences,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<Vec<String>> {
        if let Some(description) = &content.description {
            self.accepts(description)?;
        }
        let object = NewObject::given(content, budget)?;
        form::tell(&object, content, preferences, budget, write)?;
        Ok(Vec::new())
    }
}

/// The name of a column, out of its path.
fn column(path: &str) -> Option<&str> {
    let name = path.strip_prefix(FRAME)?.strip_prefix('/')?;
    (!name.contains('/')).then_some(name)
}

/// What is said of an array; plain bytes, if nothing is.
fn said_of(content: &GivenContent, path: &str, bytes: u64) -> GivenArray {
    let description = content.description.iter();
    let mut arrays = description.flat_map(|description| &description.arrays);
    let said = arrays.find(|array| array.name == path);
    said.cloned()
        .unwrap_or_else(|| GivenArray::of_bytes(path, bytes))
}
