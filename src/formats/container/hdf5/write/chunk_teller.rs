//! Puts encoded chunks where they go. Used by [`super::chunks`].

use std::ops::Range;
use std::sync::Arc;

use super::chunks::ChangedChunks;
use super::edit_recipe::{EditRecipe, PutTo};
use crate::container::chunked_write::{ChunkWriter, EncodedBatch};
use crate::container::hdf5::edit::StoredChunk;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;

pub(super) struct ChunkTeller<'a, 'f, 'w> {
    pub(super) plan: &'a ChangedChunks<'a>,
    pub(super) budget: &'a Arc<Budget>,
    pub(super) recipe: &'a mut EditRecipe<'f, 'w>,
}

impl ChunkWriter for ChunkTeller<'_, '_, '_> {
    fn keep(&mut self, _chunks: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn put(&mut self, chunks: Range<u64>, batch: &EncodedBatch<'_>) -> Result<()> {
        let (mask, bytes) = batch.bytes.split_first_chunk().ok_or_else(|| {
            let fault = Fault::new("a chunk was encoded to nothing");
            Error::from(fault.block(chunks.start))
        })?;
        let chunk = StoredChunk {
            number: chunks.start,
            len: bytes.len() as u64,
            mask: u32::from_le_bytes(*mask),
            remask: false,
        };
        #[cfg(test)]
        let chunk = StoredChunk {
            mask: chunk.mask ^ TURNED.get(),
            ..chunk
        };
        let encoding = (self.plan.dataset.token, chunk.mask);
        if !self.plan.is_plain(chunk.number)
            && self.recipe.tried.is_new(encoding)
            && self.plan.read_back(&chunk, bytes, self.budget)?
        {
            self.recipe.tried.add(encoding, chunk.number);
        }
        let padding = self.plan.place.padding.filter(|_| self.plan.changes_few());
        // What no filter is to decode is as long as chunks are: libhdf5 reads no other.
        let padding = padding.filter(|_| !self.plan.is_plain(chunk.number));
        let to = PutTo {
            pads: padding.is_some_and(|bit| chunk.mask & bit == 0),
            token: self.plan.dataset.token,
            is_filtered: self.plan.place.has_filters,
            // Another extent may have moved or cut what is stored.
            stays: self.plan.dims == self.plan.dataset.dims,
            before: self.plan.before(chunk.number)?,
        };
        self.recipe.put_chunk(&to, chunk, bytes)
    }
}

#[cfg(test)]
thread_local! {
    /// Filters of which chunks say something else than what was done.
    pub(super) static TURNED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}
