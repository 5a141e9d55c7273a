//! Virtual datasets over datasets of the same file: put together when they are read.
//!
//! A block is so many elements in a row. Each part that lies in it says which elements of its
//! dataset belong there; they are read block by block of that dataset, past the cache, whose key is
//! the virtual array's. What no part covers is fill values. Composed of other files are never
//! followed. Used by [`super::DatasetArray`].

mod hyperslab;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::{ChunkTables, DatasetArray};
use crate::array::fill::Fill;
use crate::array::uncached::{DecodeMemory, PlacedRange, gather, lent};
use crate::array::{Array, BlockId, Piece, fetcher};
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::{self, FileIndex, LinkTarget, StorageLayout, VirtualLayout};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::{Arena, no_memory};
use crate::source::{Source, StoredRanges};
use hyperslab::{Hyperslab, each_run};

/// Bytes of a block, unless an element is larger.
const BLOCK: u64 = 256 << 10;

/// Runs of elements that are copied at once: of these, a block is decoded once.
const RANGES: usize = 8192;

const VIRTUAL_ITSELF: &str = "a part is virtual itself";

pub(super) struct Composed {
    mappings: Vec<Mapping>,
    fill: Fill,
    /// Size of an element and of a block, as shown.
    element: u64,
    block: u64,
    bytes: u64,
}

struct Mapping {
    dataset: Arc<DatasetArray>,
    here: Hyperslab,
    there: Hyperslab,
}

/// What is needed to open the datasets that the parts belong to.
pub(super) struct Opening<'a> {
    pub(super) source: &'a Arc<dyn Source>,
    pub(super) index: &'a FileIndex,
    pub(super) tables: &'a ChunkTables,
    pub(super) element: &'a Element,
    /// What no part covers.
    pub(super) fill: Option<&'a [u8]>,
}

impl Composed {
    /// `bytes`: of the whole array, as shown, with these dimensions.
    pub(super) fn new(
        opening: &Opening<'_>,
        dataset: &index::DatasetEntry,
        described: &VirtualLayout,
        dims: &[u64],
        bytes: u64,
    ) -> Result<Composed> {
        let described = described.parts.as_ref();
        let described = described.map_err(|why| not_put_together(why))?;
        let mut opened = HashMap::new();
        let mut mappings = Vec::with_capacity(described.len());
        for part in described {
            // As the library has it: a dataset that is not there leaves its place to fill values.
            let stored = behind(opening.index, &part.dataset).map_err(Error::from)?;
            let Some(stored) = stored else {
                continue;
            };
            if matches!(stored.layout, StorageLayout::Virtual(_)) {
                return Err(not_put_together(VIRTUAL_ITSELF));
            }
            let there = stored.dims.as_deref().unwrap_or(&[0]);
            if there.contains(&0) {
                continue;
            }
            let mut here = Hyperslab::new(part.here.as_deref(), dims)?;
            let mut there = Hyperslab::new(part.there.as_deref(), there)?;
            pair(&mut here, &mut there)?;
            let dataset = match opened.get(&stored.token) {
                Some(opened) => Arc::clone(opened),
                None => opening.open(dataset, stored)?,
            };
            opened.insert(stored.token, Arc::clone(&dataset));
            mappings.push(Mapping {
                dataset,
                here,
                there,
            });
        }
        let element = opening.element.shown;
        let block = (BLOCK / element).max(1) * element;
        Ok(Composed {
            mappings,
            fill: super::fill::of_stored(opening.fill, opening.element)?,
            element,
            block,
            bytes,
        })
    }

    /// Bytes that it takes, with the datasets of its parts, each of which has the room of a chunked
    /// one.
    pub(super) fn weight(&self) -> u64 {
        let axes = |side: &Hyperslab| side.on_heap();
        let part = |mapping: &Mapping| axes(&mapping.here) + axes(&mapping.there);
        let parts = self.mappings.iter().map(part).sum::<u64>();
        let datasets: HashSet<_> = self
            .mappings
            .iter()
            .map(|m| Arc::as_ptr(&m.dataset))
            .collect();
        let datasets = datasets.len().saturating_mul(2 << 10);
        parts + (datasets + self.mappings.capacity() * size_of::<Mapping>()) as u64
    }

    /// What keeps a part from being shown; a fault of one is reported where it lies.
    pub(super) fn trouble(&self) -> Option<Error> {
        let mut troubles = self.mappings.iter().filter_map(|m| m.dataset.trouble());
        let not_shown = |error| match error {
            Error::NotShown(not) => Some(NotShown::new(format!("a part of it: {}", not.why))),
            _ => None,
        };
        troubles.find_map(not_shown).map(Error::from)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.bytes.div_ceil(self.block)
    }

    /// Shown bytes of a block, but for the last.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// Elements of a block that `len` bytes of are shown.
    fn places(&self, block: BlockId, len: u64) -> Option<Range<u64>> {
        let start = block.0.checked_mul(self.block / self.element)?;
        (block.0 < self.blocks()).then(|| start..start + len / self.element)
    }

    /// The most that a mapping takes; they take it one after the other.
    pub(super) fn scratch(&self, block: BlockId) -> u64 {
        let start = block.0.saturating_mul(self.block);
        let len = self.bytes.saturating_sub(start).min(self.block);
        let Some(places) = self.places(block, len) else {
            return 0;
        };
        // A part whose memory cannot be found out here cannot be decoded either.
        let memory = |mapping: &Mapping| mapping.memory(&places, self.element).ok();
        let memory = self.mappings.iter().filter_map(memory);
        let takes = |memory: CopyMemory| lent(memory.block, memory.decode);
        memory.map(takes).max().unwrap_or(0)
    }

    /// Names what the parts of a block fetch ([`Array::stored`]).
    pub(super) fn stored(
        &self,
        piece: &Piece,
        round: u32,
        needed: &mut StoredRanges,
    ) -> Result<bool> {
        let Piece::Block { id, block_len, .. } = *piece else {
            return Ok(false);
        };
        let Some(places) = self.places(id, block_len) else {
            return Ok(false);
        };
        let mut goes_on = false;
        for mapping in &self.mappings {
            mapping.each_range(&places, self.element, &mut |range| {
                goes_on |= fetcher::name_range(&*mapping.dataset, range.from, round, needed)?;
                Ok(())
            })?;
        }
        Ok(goes_on)
    }

    pub(super) fn decode(
        &self,
        block: BlockId,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let Some(places) = self.places(block, out.len() as u64) else {
            return Err(Fault::new("there is no such block").block(block.0).into());
        };
        self.fill.put(0, out);
        for mapping in &self.mappings {
            mapping
                .copy(&places, self.element, out, scratch.lend())
                .map_err(|e| e.map_fault(|fault| fault.block(block.0)))?;
        }
        Ok(())
    }
}

/// Memory that copying the share of one mapping takes.
#[derive(Default)]
struct CopyMemory {
    /// Bytes of the largest block, and what decoding one takes.
    block: u64,
    decode: u64,
}

impl Mapping {
    /// Visits the runs of elements that belong to these places: bytes of the other dataset, and the
    /// byte of the block where they begin.
    fn each_range(
        &self,
        places: &Range<u64>,
        element: u64,
        visit: &mut dyn FnMut(PlacedRange) -> Result<()>,
    ) -> Result<()> {
        let span = self.here.span();
        if span.start >= places.end || span.end <= places.start {
            return Ok(());
        }
        each_run(&self.here, &self.there, places, &mut |here, there, len| {
            visit(PlacedRange {
                from: there * element..(there + len) * element,
                to: ((here - places.start) * element) as usize,
            })
        })
    }

    fn memory(&self, places: &Range<u64>, element: u64) -> Result<CopyMemory> {
        let (mut memory, mut last) = (CopyMemory::default(), None);
        let mut look_at = |piece| {
            if let Piece::Block { id, block_len, .. } = piece
                && last != Some(id)
            {
                memory.block = memory.block.max(block_len);
                memory.decode = memory.decode.max(self.dataset.scratch(id));
                last = Some(id);
            }
            Ok(())
        };
        self.each_range(places, element, &mut |range| {
            self.dataset.each_piece(range.from, &mut look_at)
        })?;
        Ok(memory)
    }

    /// Copies what lies at these places to `out`, which begins with the first.
    fn copy(
        &self,
        places: &Range<u64>,
        element: u64,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let mut ranges = Vec::new();
        let mut carry_out = |ranges: &[PlacedRange], out: &mut [u8]| {
            let memory = DecodeMemory::Lent(scratch.lend());
            gather(&*self.dataset, ranges, out, memory)
        };
        self.each_range(places, element, &mut |range| {
            if ranges.len() == RANGES {
                carry_out(&ranges, out)?;
                ranges.clear();
            }
            let more = ranges.try_reserve(1);
            more.map_err(|_| no_memory("cannot put a virtual dataset together"))?;
            ranges.push(range);
            Ok(())
        })?;
        carry_out(&ranges, out)
    }
}

impl Opening<'_> {
    /// The dataset behind a part of `over`.
    fn open(
        &self,
        over: &index::DatasetEntry,
        stored: &index::DatasetEntry,
    ) -> Result<Arc<DatasetArray>> {
        if stored.element != over.element {
            return Err(not_put_together("a part has another type"));
        }
        if matches!(stored.layout, StorageLayout::Texts(..)) {
            return Err(not_put_together("a part lies in its object header"));
        }
        // One element stands for the fill value of all texts of an array.
        let fill = match stored.element.is_text() {
            true if stored.fill != over.fill => {
                return Err(not_put_together("a part has another fill value"));
            }
            true => self.fill,
            false => stored.fill.as_deref(),
        };
        let (element, tables) = ((self.element.clone(), fill), Arc::clone(self.tables));
        let dataset = DatasetArray::new("", self.source, self.index, stored, element, tables)?;
        Ok(Arc::new(dataset))
    }
}

/// Why the dataset of a part was not described.
enum PartLost {
    /// It is whole, as far as is known.
    NotFollowed(String),
    Fault(Box<Fault>),
}

impl From<PartLost> for Error {
    fn from(lost: PartLost) -> Error {
        match lost {
            PartLost::NotFollowed(why) => not_put_together(&why),
            PartLost::Fault(fault) => Error::Fault(fault),
        }
    }
}

/// The dataset that a part lies in; none: there is no such dataset.
fn behind<'a>(
    index: &'a FileIndex,
    path: &[u8],
) -> std::result::Result<Option<&'a index::DatasetEntry>, PartLost> {
    match index.find(path) {
        Some(LinkTarget::External { .. }) => {
            let why = "a part leads to another file".into();
            Err(PartLost::NotFollowed(why))
        }
        Some(LinkTarget::NotFollowed { reason }) => {
            let why = format!("a part leads to another file or cannot be followed: {reason}");
            Err(PartLost::NotFollowed(why))
        }
        Some(LinkTarget::Unknown { reason }) => {
            let fault = Fault::new(format!("a part cannot be read: {reason}"));
            let fault = fault.found(String::from_utf8_lossy(path));
            Err(PartLost::Fault(Box::new(fault)))
        }
        Some(target) => Ok(index.dataset(target)),
        None => Ok(None),
    }
}

/// Why it is not known where a virtual dataset ends, if it is not: its dimensions are not its true
/// ones then.
pub(super) fn no_known_end(index: &FileIndex, described: &VirtualLayout) -> Result<Option<String>> {
    for path in &described.ends {
        let why = match behind(index, path) {
            Ok(Some(stored)) if matches!(stored.layout, StorageLayout::Virtual(_)) => {
                VIRTUAL_ITSELF.into()
            }
            Ok(_) => continue,
            Err(PartLost::NotFollowed(why)) => why,
            Err(lost) => return Err(lost.into()),
        };
        return Ok(Some(format!("{why}, so where it ends is not known")));
    }
    Ok(None)
}

fn not_put_together(why: &str) -> Error {
    NotShown::new(format!("not put together: {why}")).into()
}

/// Makes both sides equally long: one without end ends with the other.
fn pair(here: &mut Hyperslab, there: &mut Hyperslab) -> Result<()> {
    let len = here.len().min(there.len());
    for side in [&mut *here, &mut *there] {
        if side.len() != len && !side.end_after(len) {
            let fault = Fault::new("a part of a virtual dataset has another size than its place");
            return Err(fault.expected(len).found(side.len()).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
