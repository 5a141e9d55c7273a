//! The files of a container as they were opened, for its commit, or as they are going to be.
//!
//! Streams are opened once more from the open files: a commit needs their parts, a reader of the
//! container does not. Used by `merged` and `recipe`, and by those who read what is [`told`].
//!
//! [`told`]: super::told

use std::sync::Arc;

use super::forms::StreamForm;
use crate::array::Array;
use crate::container::bpcells::directory::{MemberSources, numeric};
use crate::container::bpcells::fields::{Field, Fields, Number};
use crate::container::bpcells::header;
use crate::container::bpcells::packed::PackedStream;
use crate::container::bpcells::plain::PlainArray;
use crate::error::{Error, Fault, Result};
use crate::source::Source;

pub(super) struct StoredMembers(pub(super) MemberSources);

impl StoredMembers {
    /// The file of this name, if the container has it.
    pub(super) fn source(&self, name: &str) -> Option<&Arc<dyn Source>> {
        self.0.get(name)
    }

    /// The array of the numbers in a file, which are what its header says.
    pub(super) fn numbers(&self, name: &str) -> Result<Arc<dyn Array>> {
        let mut head = [0; header::LEN];
        if let Some(source) = self.source(name) {
            source.fetch_one(0, &mut head)?;
        }
        let no_header = || Error::Bug(format!("{name} has no header"));
        let field = self.field(name, header::number(&head).ok_or_else(no_header)?)?;
        let len = field.len();
        Ok(Arc::new(PlainArray::new(name, field, len)?))
    }

    /// A stream of so many values.
    pub(super) fn stream(
        &self,
        name: &str,
        form: StreamForm,
        len: u64,
        wrap: u64,
    ) -> Result<PackedStream> {
        let (transform, generation) = (form.transform, form.generation);
        PackedStream::open_wrapping(self, name, transform, len, generation, wrap)
            .map_err(|e| e.map_fault(|fault| fault.array(name)))
    }
}

impl Fields for StoredMembers {
    fn field(&self, name: &str, number: Number) -> Result<Arc<dyn Field>> {
        let missing = || Error::from(Fault::new("the file is missing").file(name));
        let source = self.source(name).ok_or_else(missing)?;
        numeric(name, Arc::clone(source), number)
    }

    fn names(&self, name: &str) -> Result<Arc<dyn Array>> {
        Err(Error::Bug(format!("{name} is open already")))
    }

    fn first_line(&self, name: &str) -> Result<Vec<u8>> {
        Err(Error::Bug(format!("{name} was read already")))
    }
}
