//! The chunks of a dataset that have changed: which they are, what they hold, how they are stored.
//!
//! A chunk is encoded from its stored form: shown bytes of the array in their places, the fill
//! value outside of it. It goes through the dataset's own filters; where one of them has no encoder
//! it is stored as it is, and says so. [`crate::container::chunked_write`] does what is common to
//! all formats. Used by [`super::dataset`].

use std::sync::Arc;

use super::chunk_teller::ChunkTeller;
use super::dataset::WrittenDataset;
use super::edit_recipe::EditRecipe;
use super::padding::padding;
use crate::array::Array;
use crate::array::BlockId;
use crate::array::chunking::{ChunkId, Chunking, EvenChunks};
use crate::array::grid::ChunkGrid;
use crate::array::uncached::{DecodeMemory, PlacedRange, gather, lent};
use crate::codec::filters::{FilterEncoder, Pipeline};
use crate::container::chunked_write::memory::{EncodeMemory, EncodeNeeds};
use crate::container::chunked_write::{Batch, ChunkedArray, encode_alone, write_chunks};
use crate::container::hdf5::dataset::chunked::{Chunked, filter_pipeline};
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::{ChunkEntry, DatasetEntry, StorageLayout};
use crate::container::writable::{Amount, ChangedArray, DoneBefore};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::{Arena, room};
use crate::range_set::RangeSet;

/// So many chunks are few.
const FEW: u64 = 64;

/// Before an encoded chunk: its filter mask.
const MASK: usize = 4;

/// How a dataset is cut into chunks.
pub(crate) struct ChunkedPlace {
    chunk: Vec<u64>,
    pub(super) first_most: u64,
    early: bool,
    plain_edges: bool,
    pub(super) has_filters: bool,
    pub(super) pipeline: Pipeline,
    encoder: FilterEncoder,
    /// The bit of the last filter, if zeros may follow what it makes.
    pub(super) padding: Option<u32>,
    /// Bytes of a chunk, as stored.
    pub(super) stored: u64,
}

impl ChunkedPlace {
    pub(super) fn of(dataset: &DatasetEntry, element: &Element) -> Option<ChunkedPlace> {
        let StorageLayout::Chunked {
            chunk,
            first_most,
            early,
            plain_edges,
            ..
        } = &dataset.layout
        else {
            return None;
        };
        let dims = dataset.dims.as_deref()?;
        let grid = ChunkGrid::new(dims, chunk, element.stored).ok()?;
        let pipeline = filter_pipeline(&dataset.filters, grid.chunk_bytes()).ok()?;
        Some(ChunkedPlace {
            chunk: chunk.clone(),
            first_most: *first_most,
            early: *early,
            plain_edges: *plain_edges,
            has_filters: !dataset.filters.is_empty(),
            encoder: pipeline.encoder(),
            pipeline,
            padding: padding(&dataset.filters),
            stored: grid.chunk_bytes(),
        })
    }

    /// Whether chunks are stored in another form than they are shown in.
    pub(super) fn is_encoded(&self) -> bool {
        self.has_filters && self.encoder.unfiltered().is_none()
    }

    /// Why chunks that change skip their filters, if they do.
    pub(super) fn unfiltered(&self) -> Option<&str> {
        self.encoder.unfiltered()
    }

    /// The chunks of the array as it is shown.
    pub(super) fn shown_grid(&self, dims: &[u64], element: &Element) -> Option<ChunkGrid> {
        ChunkGrid::new(dims, &self.chunk, element.shown).ok()
    }

    /// Places along the first dimension whose chunks do not stick out of it.
    pub(super) fn whole_rows(&self, dims: &[u64]) -> u64 {
        let first = dims.first().zip(self.chunk.first());
        first.map_or(0, |(dim, chunk)| dim / (*chunk).max(1))
    }

    /// Chunks along each dimension.
    fn counts(&self, dims: &[u64]) -> impl Iterator<Item = u64> {
        let axes = dims.iter().zip(&self.chunk);
        axes.map(|(dim, len)| dim.div_ceil((*len).max(1)))
    }

    /// Chunks at one place of the first dimension.
    fn row(&self, dims: &[u64]) -> u64 {
        let inner = self.counts(dims).skip(1);
        inner.fold(1, u64::saturating_mul)
    }

    /// Chunks of the grid that are there no more with other dimensions.
    pub(super) fn cut_chunks(&self, dataset: &WrittenDataset, dims: Vec<u64>) -> u64 {
        let rows = |dims: &[u64]| self.counts(dims).next().unwrap_or(0);
        let cut = rows(&dataset.dims).saturating_sub(rows(&dims));
        cut.saturating_mul(self.row(&dims))
    }

    /// What the chunks take that are cut off is free.
    pub(super) fn free_cut(
        &self,
        dataset: &WrittenDataset,
        dims: &[u64],
        recipe: &mut EditRecipe<'_, '_>,
    ) -> Result<()> {
        let Some(chunked) = dataset.array.chunked() else {
            return Ok(());
        };
        let rows = self.counts(dims).next().unwrap_or(0);
        let first = rows.saturating_mul(self.row(dims));
        let stored = chunked.stored_chunks()?.into_iter();
        for chunk in stored.filter(|chunk| chunk.number >= first) {
            // The implicit index has a place for every chunk that the dataset may ever get.
            match self.early && !self.has_filters {
                true => recipe.vacate(&chunk),
                false => recipe.free(&chunk),
            }
        }
        Ok(())
    }

    pub(super) fn add_amount(
        &self,
        dataset: &WrittenDataset,
        change: &ChangedArray,
        amount: &mut Amount,
    ) -> Result<()> {
        let plan = ChangedChunks::new(dataset, self, change)?;
        let (mut stored, mut before) = (0u64, 0u64);
        for number in plan.dirty.iter().flatten() {
            if let Some(chunk) = plan.before(number)? {
                stored = stored.saturating_add(chunk.size);
                before += 1;
            }
        }
        let new = (plan.dirty.len() - before).saturating_mul(self.stored);
        let encoded = plan.dirty.len().saturating_mul(self.stored);
        let plain = before.saturating_mul(self.stored);
        amount.changed = amount.changed.saturating_add(stored).saturating_add(new);
        if self.has_filters {
            amount.encoded = amount.encoded.saturating_add(encoded);
            amount.guessed |= Amount::is_guess(plain, encoded);
        }
        Ok(())
    }

    pub(super) fn put(
        &self,
        dataset: &WrittenDataset,
        change: &ChangedArray,
        (budget, recipe): (&Arc<Budget>, &mut EditRecipe<'_, '_>),
    ) -> Result<()> {
        let plan = ChangedChunks::new(dataset, self, change)?;
        if plan.dirty.is_empty() {
            return Ok(());
        }
        let mut memory = EncodeMemory::for_array(&plan, plan.dirty.len(), budget)?;
        let mut teller = ChunkTeller {
            plan: &plan,
            budget,
            recipe,
        };
        let counts = write_chunks(&plan, &mut memory, &mut teller)?;
        // What goes wrong there is told of this dataset.
        teller.recipe.place_gathered()?;
        log::debug!("{}: {counts:?}", dataset.name());
        Ok(())
    }
}

/// Encodes a chunk of which all bytes have been written.
pub(super) fn encode_whole(
    (dataset, place): (&WrittenDataset, &ChunkedPlace),
    change: &ChangedArray,
    (number, budget): (u64, &Arc<Budget>),
) -> Result<Option<Vec<u8>>> {
    let mut plan = ChangedChunks::of_none(dataset, place, change)?;
    plan.dirty = RangeSet::from(number..number.saturating_add(1));
    encode_alone(&plan, budget)
}

/// The chunks of a dataset as it is going to be.
pub(super) struct ChangedChunks<'a> {
    pub(super) dataset: &'a WrittenDataset,
    pub(super) place: &'a ChunkedPlace,
    change: &'a ChangedArray,
    shown: ChunkGrid,
    pub(super) dims: Vec<u64>,
    /// Numbers from here on are new.
    chunks_before: u64,
    dirty: RangeSet,
}

impl<'a> ChangedChunks<'a> {
    fn new(
        dataset: &'a WrittenDataset,
        place: &'a ChunkedPlace,
        change: &'a ChangedArray,
    ) -> Result<ChangedChunks<'a>> {
        let mut plan = ChangedChunks::of_none(dataset, place, change)?;
        plan.dirty = plan.changed_chunks();
        Ok(plan)
    }

    /// The chunks of a dataset, before it is known which of them change.
    fn of_none(
        dataset: &'a WrittenDataset,
        place: &'a ChunkedPlace,
        change: &'a ChangedArray,
    ) -> Result<ChangedChunks<'a>> {
        let dims = dataset.dims_at(change.len);
        let grid = |dims: &[u64]| {
            let grid = ChunkGrid::new(dims, &place.chunk, dataset.element.shown);
            grid.map_err(Error::Invalid)
        };
        let (shown, before) = (grid(&dims)?, grid(&dataset.dims)?);
        Ok(ChangedChunks {
            dataset,
            place,
            change,
            shown,
            dims,
            chunks_before: before.chunks(),
            dirty: RangeSet::default(),
        })
    }

    /// Those that hold something else, and those that the edge has moved into or out of: what they
    /// hold outside of the dataset must be the fill value.
    fn changed_chunks(&self) -> RangeSet {
        let (change, before) = (self.change, self.dataset.bytes);
        let mut dirty = Vec::new();
        let written = change.ranges.iter();
        for range in written {
            dirty.extend(self.shown.touched(range.start..range.end.min(change.len)));
        }
        // Zeros are what is there where the fill value is zero, and where nothing is stored.
        let made_up = match (&self.dataset.fill, self.place.early) {
            (None, false) => change.len.min(before),
            _ => change.len,
        };
        dirty.extend(self.shown.touched(change.visible..made_up));
        let (first, old) = (self.dims.first(), self.dataset.dims.first());
        if let (Some(&new), Some(&old), Some(&chunk)) = (first, old, self.place.chunk.first())
            && new != old
        {
            let row = self.place.row(&self.dims);
            let cut = [new, old].into_iter().filter(|dim| dim % chunk.max(1) != 0);
            for dim in cut.filter(|&dim| dim <= new) {
                let at = (dim / chunk.max(1)).saturating_mul(row);
                dirty.push(at..at.saturating_add(row).min(self.shown.chunks()));
            }
        }
        RangeSet::from_iter(dirty)
    }

    fn chunked(&self) -> Option<&Chunked> {
        self.dataset.array.chunked()
    }

    /// A chunk as it is stored now.
    pub(super) fn before(&self, number: u64) -> Result<Option<ChunkEntry>> {
        match self.chunked() {
            Some(chunked) if number < self.chunks_before => chunked.stored_chunk(number),
            _ => Ok(None),
        }
    }

    /// Few chunks change, or most stay: where many are new none gets room that it does not need.
    pub(super) fn changes_few(&self) -> bool {
        let changed = self.dirty.len();
        changed <= FEW || changed < self.shown.chunks() / 2
    }

    /// Whether a chunk is stored without filters by the rules of its dataset.
    pub(super) fn is_plain(&self, number: u64) -> bool {
        !self.place.has_filters || self.place.plain_edges && self.shown.is_partial(number)
    }

    /// Whether shown bytes are stored as they are, whatever they are.
    fn is_same(&self) -> bool {
        let element = &self.dataset.element;
        element.cast.is_same() && !element.refuses()
    }

    /// The ranges of the array that a chunk holds, where they lie in its shown form.
    fn ranges(&self, number: u64) -> Vec<PlacedRange> {
        let mut ranges = Vec::new();
        self.shown.chunk_runs(number, &mut |run| {
            ranges.push(PlacedRange {
                from: run.at..run.at + run.take,
                to: run.skip as usize,
            });
        });
        ranges
    }

    /// What a chunk is made of before the shown bytes are put into it.
    fn read_base(&self, number: u64, plain: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.dataset.put_fill(plain);
        if self.dataset.is_lossless() {
            return Ok(());
        }
        if let (Some(before), Some(chunked)) = (self.before(number)?, self.chunked()) {
            let len = chunked.decode_stored(&before, plain, scratch)?;
            self.dataset.put_fill(&mut plain[len..]);
        }
        Ok(())
    }

    /// What a chunk is to hold, as it is before it goes through filters.
    pub(super) fn read_chunk(
        &self,
        number: u64,
        plain: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let (ranges, array) = (self.ranges(number), &*self.change.shown);
        self.read_base(number, plain, scratch.lend())?;
        if self.is_same() {
            return gather(array, &ranges, plain, DecodeMemory::Lent(scratch));
        }
        let shown = scratch.take(self.shown.chunk_bytes())?;
        gather(array, &ranges, shown, DecodeMemory::Lent(scratch))?;
        let (from, to) = (self.dataset.element.stored, self.dataset.element.shown);
        for range in ranges {
            let len = (range.from.end - range.from.start) as usize;
            let first = range.to as u64 / to * from;
            let stored = &mut plain[first as usize..][..(len as u64 / to * from) as usize];
            self.dataset
                .store(range.from.start, &shown[range.to..][..len], stored)?;
        }
        Ok(())
    }

    /// Memory for reading any of the changed chunks.
    pub(super) fn reading(&self) -> u64 {
        let array = &self.dataset.array;
        let mut decode = 0;
        for number in self.dirty.within(0..self.chunks_before).flatten() {
            decode = array.scratch(BlockId(number)).max(decode);
        }
        let block = lent(self.shown.chunk_bytes(), decode);
        match self.is_same() {
            true => block,
            // The shown bytes, before they are stored.
            false => block.saturating_add(room(self.shown.chunk_bytes())),
        }
    }
}

impl ChunkedArray for ChangedChunks<'_> {
    /// Whether the chunk goes through no filter.
    type Settings = bool;

    fn chunking(&self) -> impl Chunking {
        // Each is as long as all are when they are encoded.
        EvenChunks::counted(self.place.stored, u64::MAX, self.shown.chunks())
    }

    fn dirty(&self) -> &RangeSet {
        &self.dirty
    }

    fn needs(&self, _threads: usize) -> Result<EncodeNeeds> {
        let encoder = &self.place.encoder;
        Ok(EncodeNeeds {
            plain: self.place.stored,
            out: encoder.most().max(self.place.stored) + MASK as u64,
            scratch: self.reading().max(encoder.scratch()),
        })
    }

    fn settings(&self, batch: &Batch) -> Result<bool> {
        Ok(self.is_plain(batch.first()))
    }

    fn read(&self, batch: &Batch, plain: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.read_chunk(batch.first(), plain, scratch)
    }

    /// Behind its mask.
    fn encode(
        &self,
        is_plain: &bool,
        plain: &[u8],
        out: &mut [u8],
        scratch: Arena<'_>,
        _threads: usize,
    ) -> Result<usize> {
        let (mask, out) = out.split_at_mut(MASK);
        if *is_plain {
            mask.fill(0);
            out[..plain.len()].copy_from_slice(plain);
            return Ok(MASK + plain.len());
        }
        let encoded = self.place.encoder.encode(plain, out, scratch)?;
        mask.copy_from_slice(&encoded.mask.to_le_bytes());
        Ok(MASK + encoded.len)
    }

    fn ahead(&self, batch: &Batch) -> Option<(&dyn DoneBefore, ChunkId)> {
        let chunk = ChunkId {
            shape: self.shown.chunk_bytes(),
            number: batch.first(),
        };
        Some((self.change.done_before.as_deref()?, chunk))
    }
}
