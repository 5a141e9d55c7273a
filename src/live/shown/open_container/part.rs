//! The container of a file, or one in a group of it, with the texts that are told of it.
//!
//! Used by [`super`].

use std::sync::{Arc, OnceLock};

use crate::container::Container;
use crate::error::Fault;

/// The container, or one in a group of it.
pub(super) struct OpenPart {
    pub(super) container: Arc<Container>,
    pub(super) arrays_json: OnceLock<Arc<Vec<u8>>>,
    /// Faults found while opening and while describing the arrays; asking costs describing them
    /// all.
    pub(super) error_txt: OnceLock<Arc<Vec<u8>>>,
}

impl OpenPart {
    pub(super) fn new((_, container): (Arc<str>, Arc<Container>)) -> Self {
        OpenPart {
            container,
            arrays_json: OnceLock::new(),
            error_txt: OnceLock::new(),
        }
    }

    pub(super) fn faults(&self) -> Arc<Vec<u8>> {
        let described = self
            .container
            .all_arrays()
            .into_iter()
            .filter_map(|located| match located.array.check_structure() {
                Err(error) => located.locate(error).fault(),
                Ok(()) => None,
            });
        let faults = self.container.all_faults().into_iter().chain(described);
        let lines = faults.map(|fault| format!("{}\n", within(fault)));
        Arc::from(lines.collect::<String>().into_bytes())
    }
}

/// A line of `error.txt` lies in the container that it speaks of.
fn within(mut fault: Fault) -> Fault {
    fault.container = None;
    fault
}
