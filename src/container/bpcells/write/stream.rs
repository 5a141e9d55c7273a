//! A packed stream with its changes: which chunks have to be encoded, and how its files come about.
//!
//! Chunks of 128 values are encoded by themselves, so those that have not changed are copied as they are stored, and only
//! their entries in the index move. Blocks of 512 chunks are worked on by several threads and told in order. Used by
//! `recipe`.

use std::ops::Range;
use std::sync::Arc;

use super::batches::Batches;
use super::blocks::BlockEncoder;
use super::forms::StreamForm;
use super::merged::MergedArray;
use super::spaces::{CHUNK_BYTES, CHUNKS, lent};
use super::told_stream::ToldStream;
use crate::array::Array;
use crate::container::bpcells::packed::PackedStream;
use crate::container::numbers::Numbers;
use crate::container::rewrite::{EncodedAhead, Recipe};
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::pipeline::in_order;
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
    pub(super) dirty: Numbers,
    /// Words after which the index begins again.
    pub(super) wrap: u64,
    pub(super) ahead: Option<&'a dyn EncodedAhead>,
}

impl StreamPlan<'_> {
    pub(super) fn chunks(&self) -> u64 {
        self.len.div_ceil(CHUNK_BYTES)
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
        Ok(Batches::of(&self.dirty)?.count())
    }

    /// What reading them takes.
    pub(super) fn lent(&self) -> Result<u64> {
        let mut most = 0;
        for block in Batches::of(&self.dirty)?.all() {
            // What lies between the changed chunks of a block is read with them.
            let start = block.saturating_mul(CHUNKS);
            let mut runs = self.dirty.within(start..start.saturating_add(CHUNKS));
            let Some(first) = runs.next() else {
                continue;
            };
            let last = runs.last().map_or(first.end, |last| last.end);
            let end = last.saturating_mul(CHUNK_BYTES).min(self.len);
            let bytes = first.start.saturating_mul(CHUNK_BYTES).min(end)..end;
            most = most.max(lent(self.values.shown, bytes.clone())?);
            if let Some(less) = self.values.less {
                most = most.max(lent(less, bytes)?);
            }
        }
        Ok(most)
    }

    pub(super) fn tell(&self, spaces: &mut [Workspace], write: &mut dyn Recipe) -> Result<()> {
        let batches = Batches::of(&self.dirty)?;
        let count = usize::try_from(batches.count())
            .map_err(|_| Error::Bug("there are too many blocks".into()))?;
        let encoder = BlockEncoder { plan: self };
        let mut told = ToldStream::begin(self, write)?;
        in_order(
            spaces.iter_mut().collect(),
            count,
            |space, batch| encoder.encode_all(batches.blocks(batch as u64), space),
            |batch, space, ends| {
                let (out, _) = space.parts();
                let mut start = 0;
                for (block, end) in batches.blocks(batch as u64).zip(ends) {
                    told.block(block, &out[start..end])?;
                    start = end;
                }
                Ok(())
            },
        )?;
        told.end()
    }
}

/// The chunks of an array, which may be made of two, that do not stay as they are stored. `same` is whether they are stored
/// in the same form.
pub(super) fn dirty_chunks(arrays: &[&MergedArray<'_>], same: bool) -> Numbers {
    let Some(first) = arrays.first() else {
        return Numbers::default();
    };
    let after = first.len.div_ceil(CHUNK_BYTES);
    let Some(stored) = first.stored.filter(|_| same) else {
        return Numbers::of(std::iter::once(0..after).collect());
    };
    let chunks = |run: Range<u64>| run.start / CHUNK_BYTES..run.end.div_ceil(CHUNK_BYTES);
    let dirty = arrays.iter().map(|array| array.dirty());
    let mut ranges: Vec<_> = dirty
        .flat_map(|dirty| dirty.runs().map(chunks).collect::<Vec<_>>())
        .collect();
    if stored != first.len {
        // The last one is filled with its last value.
        let before = stored.div_ceil(CHUNK_BYTES);
        ranges.push(before.saturating_sub(1)..before);
        ranges.push(after.saturating_sub(1)..after);
    }
    ranges
        .iter_mut()
        .for_each(|run| run.end = run.end.min(after));
    Numbers::of(ranges)
}
