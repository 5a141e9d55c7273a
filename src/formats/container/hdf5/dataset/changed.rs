//! An array of which a commit changes values and nothing else: another one, of the file that the
//! commit makes. Used by `write::successor`.

use std::sync::Arc;

use super::{DatasetArray, Storage};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::error::Result;
use crate::source::Source;

/// How values are stored once they have changed.
pub(crate) struct ChangedStorage {
    /// Of a chunked dataset.
    pub(crate) table: Option<ChunkTable>,
    /// Bytes, and the bits of filters that some chunk went through; none if they stay.
    pub(crate) sizes: Option<(u64, u32)>,
}

impl DatasetArray {
    /// The array after a commit, of the file as it is going to be; none if it has to be opened for
    /// that.
    pub(crate) fn changed(
        &self,
        change: &ChangedStorage,
        future: &Arc<dyn Source>,
    ) -> Result<Option<DatasetArray>> {
        let applied = change.sizes.map(|(_, applied)| applied);
        let storage = match (&self.storage, &change.table) {
            (Storage::Chunked(chunked), Some(table)) => {
                let now = chunked.changed(future, table.clone(), applied)?;
                Storage::Chunked(Box::new(now))
            }
            (Storage::Unchunked(whole), None) => match whole.of_file(future) {
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
            storage,
        }))
    }
}
