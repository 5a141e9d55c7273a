//! What is known of a file before a container is made of it: by an opening, which has asked a
//! worker, or by the commit that makes the file. Used by [`super`], [`super::assemble`] and
//! [`super::write`].

use std::sync::Arc;

use super::assemble;
use super::dataset::ChunkTables;
use super::index::{DatasetEntry, FileIndex, StorageLayout};
use super::left::LeftInFile;
use super::worker::{self, IndexAnswer};
use crate::container::Container;
use crate::error::Result;
use crate::memory::budget::{Budget, Hold};
use crate::memory::set_aside;
use crate::source::switched::SwitchedSource;

pub(super) struct KnownFile {
    pub(super) file: Arc<SwitchedSource>,
    /// Its structure, as a worker has answered.
    pub(super) answer: Arc<IndexAnswer>,
    pub(super) tables: ChunkTables,
    pub(super) left: Arc<LeftInFile>,
}

impl KnownFile {
    /// Makes the container, out of the structure, and its charge.
    pub(super) fn container(
        &self,
        (index, charged): (FileIndex, Hold),
        budget: &Arc<Budget>,
    ) -> Result<Container> {
        // Until it is made; the keeper of the container charges what it takes then.
        let made = charged.bytes().saturating_mul(worker::MADE);
        let _made = budget.keep(made)?;
        set_aside(made, "cannot open an HDF5 file", || {
            assemble::container(self, &index, budget)
        })?
    }

    /// By which an array is read whose values a commit may change one by one, or where they lie.
    pub(super) fn own_source(&self, dataset: &DatasetEntry) -> Option<Arc<SwitchedSource>> {
        let is_followed = matches!(
            dataset.layout,
            StorageLayout::Chunked { .. } | StorageLayout::Contiguous { .. }
        );
        let own = || Arc::new(SwitchedSource::following(&self.file));
        (is_followed && !dataset.element.is_text()).then(own)
    }
}
