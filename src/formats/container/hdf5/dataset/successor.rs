//! An array of which a commit changes values and nothing else: another one, which goes on with the
//! file that the commit makes, while the old one is bound to the file before. Used by
//! `write::successor`.

use std::sync::Arc;

use super::{DatasetArray, Storage};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::index::StorageLayout;
use crate::error::Result;
use crate::source::Source;
use crate::source::bound::BoundSource;

/// How values are stored once they have changed.
pub(crate) struct ChangedStorage {
    /// Of a chunked dataset.
    pub(crate) table: Option<ChunkTable>,
    /// Bytes, and the bits of filters that some chunk went through; none if they stay.
    pub(crate) sizes: Option<(u64, u32)>,
}

/// Whether values of this layout may be changed where they lie, or one by one.
pub(super) fn is_followed(layout: &StorageLayout) -> bool {
    matches!(
        layout,
        StorageLayout::Chunked { .. } | StorageLayout::Contiguous { .. }
    )
}

impl DatasetArray {
    /// What its bytes are read through.
    pub(crate) fn own(&self) -> Option<&Arc<BoundSource>> {
        self.own.as_ref()
    }

    /// The array after a commit, bound to the file as it is going to be; none if it has to be
    /// opened for that.
    pub(crate) fn succeeded(
        &self,
        change: &ChangedStorage,
        future: &Arc<dyn Source>,
    ) -> Result<Option<DatasetArray>> {
        let Some(before) = &self.own else {
            return Ok(None);
        };
        let own = Arc::new(BoundSource::new(Arc::clone(before.file())));
        own.bind(Some(Arc::clone(future)));
        let source = Arc::clone(&own) as Arc<dyn Source>;
        let applied = change.sizes.map(|(_, applied)| applied);
        let storage = match (&self.storage, &change.table) {
            (Storage::Chunked(chunked), Some(table)) => {
                let now = chunked.succeeded(&source, table.clone(), applied)?;
                Storage::Chunked(Box::new(now))
            }
            (Storage::Unchunked(whole), None) => match whole.of_file(&source) {
                Some(whole) => Storage::Unchunked(whole),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(DatasetArray {
            name: self.name.clone(),
            dtype: self.dtype.clone(),
            shape: self.shape.clone(),
            bytes: self.bytes,
            stored_bytes: change.sizes.map_or(self.stored_bytes, |(bytes, _)| bytes),
            own: Some(own),
            storage,
        }))
    }
}
