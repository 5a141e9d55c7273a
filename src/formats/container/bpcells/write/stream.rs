//! A packed stream with its changes: which chunks have to be encoded, and how its files come about.
//!
//! Chunks of 128 values are encoded by themselves, so those that have not changed are copied as
//! they are stored, and only their entries in the index move. They are written by
//! [`crate::container::chunked_write`], in batches of up to a block of
//! 512. Used by `recipe`.

use std::sync::Arc;

use super::field_writer::FieldWriter;
use super::forms::StreamForm;
use super::merged::MergedArray;
use super::spaces::{CHUNK_BYTES, CHUNKS};
use crate::array::Array;
use crate::array::chunking::EvenChunks;
use crate::container::bpcells::packed::PackedStream;
use crate::container::chunked_write::dirty::dirty_chunks;
use crate::container::chunked_write::memory::EncodeMemory;
use crate::container::chunked_write::{BatchCounts, Batches, write_chunks};
use crate::container::writable::{DoneBefore, Recipe};
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::Source;

/// What is packed.
#[derive(Clone, Copy)]
pub(super) struct StreamValues<'a> {
    pub(super) shown: &'a dyn Array,
    /// Is subtracted.
    pub(super) less: Option<&'a dyn Array>,
}

pub(super) struct StreamPlan<'a> {
    pub(super) name: &'a str,
    pub(super) form: StreamForm,
    pub(super) values: StreamValues<'a>,
    /// Bytes of the values.
    pub(super) len: u64,
    /// The stream as it is, unless nothing of it stays.
    pub(super) old: Option<PackedStream>,
    /// Files that are there, by what their names end with.
    pub(super) sources: Vec<(&'static str, Arc<dyn Source>)>,
    /// Chunks to be encoded.
    pub(super) dirty: RangeSet,
    /// Words after which the index begins again.
    pub(super) wrap: u64,
    pub(super) ahead: Option<&'a dyn DoneBefore>,
}

impl StreamPlan<'_> {
    pub(super) fn values_chunking(&self) -> EvenChunks {
        EvenChunks::new(CHUNK_BYTES, self.len)
    }

    /// Plain bytes of the stream as it is.
    pub(super) fn stored_plain(&self) -> u64 {
        self.old.as_ref().map_or(0, |old| old.bytes())
    }

    pub(super) fn source(&self, part: &str) -> Option<Arc<dyn Source>> {
        let found = self.sources.iter().find(|(named, _)| *named == part);
        found.map(|(_, source)| Arc::clone(source))
    }

    /// So many threads have something to do.
    pub(super) fn lanes(&self) -> Result<u64> {
        Ok(Batches::of(&self.dirty, CHUNKS)?.count())
    }

    pub(super) fn tell(
        &self,
        memory: &mut EncodeMemory,
        write: &mut dyn Recipe,
    ) -> Result<BatchCounts> {
        let mut told = FieldWriter::begin(self, write)?;
        let counts = write_chunks(self, memory, &mut told)?;
        log::debug!("{}: {counts:?}", self.name);
        told.end()?;
        Ok(counts)
    }
}

/// The chunks of an array, which may be made of two, that do not stay as they are stored. `same` is
/// whether they are stored in the same form.
pub(super) fn dirty_of(arrays: &[&MergedArray<'_>], same: bool) -> RangeSet {
    let Some(first) = arrays.first() else {
        return RangeSet::default();
    };
    let grid = |len| EvenChunks::new(CHUNK_BYTES, len);
    // The last one is filled with its last value.
    let before = first.stored.filter(|_| same).map(grid);
    let dirty: Vec<_> = arrays.iter().map(|array| array.dirty()).collect();
    let ranges = dirty.iter().flat_map(RangeSet::iter);
    dirty_chunks(&grid(first.len), before.as_ref(), ranges)
}
