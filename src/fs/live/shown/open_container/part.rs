//! The container of a file, or one in a group of it, with the texts that are told of it.
//!
//! Used by [`super`].

use std::sync::{Arc, OnceLock};

use crate::container::Container;
use crate::container::describe::{TextsToRead, ToldText};
use crate::error::{Fault, Result};
use crate::sync::Mutex;

/// The container, or one in a group of it.
pub(super) struct OpenPart {
    pub(super) container: Arc<Container>,
    pub(super) arrays_json: KeptDescription<Vec<u8>>,
    /// Faults found while opening and while describing the arrays; asking costs describing them
    /// all.
    pub(super) error_txt: OnceLock<Arc<Vec<u8>>>,
}

/// A description that is kept once it has been told: what is whole replaces what is not.
pub(super) struct KeptDescription<T>(Mutex<Option<ToldText<Arc<T>>>>);

impl<T> Default for KeptDescription<T> {
    fn default() -> Self {
        KeptDescription(Mutex::default())
    }
}

impl<T> KeptDescription<T> {
    /// Two may tell it at once; both tell the same.
    pub(super) fn get(
        &self,
        read: TextsToRead,
        tell: impl FnOnce() -> Result<ToldText<T>>,
    ) -> Result<ToldText<Arc<T>>> {
        let lock = || self.0.lock();
        if let Some(known) = &*lock()
            && (known.is_whole || read == TextsToRead::Few)
        {
            return Ok(known.clone());
        }
        let told = tell()?.map(Arc::new);
        let mut known = lock();
        match &*known {
            Some(known) if known.is_whole => Ok(known.clone()),
            _ => Ok(known.insert(told).clone()),
        }
    }
}

impl OpenPart {
    pub(super) fn new((_, container): (Arc<str>, Arc<Container>)) -> Self {
        OpenPart {
            container,
            arrays_json: KeptDescription::default(),
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
