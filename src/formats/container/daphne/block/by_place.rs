//! Entries of a large block by their places, where looking through all of them for a few would be
//! repeated for every tile: COO entries in any order, and rows as wide as many tiles.
//!
//! One pass counts the entries of 4096 bands of places ([`super::bands`]), which are joined to
//! slabs of bounded size; a slab is gathered in one more pass, sorted, and remembered for the tiles
//! that follow while there is memory for it. Where a band alone is too large, there is no memory,
//! or the block is damaged, nothing is gained: the block is looked through as it lies. Used by
//! [`super::scan`].

use std::ops::Range;
use std::sync::Arc;

use super::super::value::ValueType;
use super::BlockFile;
use super::bands::{self, Bands, CountedBands};
use super::index_cache::{ChargedList, IndexedPart};
use super::scan::{EntryBatch, VisitBatch, load};
use super::table::CellBlock;
use crate::error::{Error, Result};
use crate::memory::Arena;

/// Stored bytes that are looked through without a thought.
const CHEAP: u64 = if cfg!(test) { 64 << 10 } else { 1 << 20 };
/// How many times more entries than wanted are looked through rather than sorted.
const WASTE: u64 = 4;
const BANDS: u64 = 4096;
/// Entries of a slab, which are an eighth of the block's within these bounds, if there is memory
/// for some slabs.
const LEAST: u64 = if cfg!(test) { 1 << 10 } else { 512 << 10 };
const MOST: u64 = 2 << 20;
/// Slabs that there is to be memory for.
const SLABS: u64 = 4;
/// Slabs that are looked at together.
const SPANNED: usize = 4;

/// The place of an entry in its block, counted row by row, and the bits of its value.
type PlacedEntry = (u64, u64);

/// Sorted by their places; those at one place are neighbours.
type Slab = ChargedList<PlacedEntry>;

/// How many entries of a block lie where, and how that is cut into slabs.
struct PlaceCounts {
    counted: CountedBands,
    /// Entries of a slab.
    most: u64,
}

impl PlaceCounts {
    /// Counts the entries in one pass.
    fn count(file: &BlockFile, block: &CellBlock, scratch: Arena<'_>) -> Result<PlaceCounts> {
        let index_cache = &*file.index_cache;
        let side = 0..block.area();
        let step = bands::step(&side, BANDS);
        let mut ends: ChargedList<u64> = index_cache.list(BANDS)?;
        ends.list.resize(BANDS as usize, 0);
        let counts = &mut ends.list[..];
        let (rows, cols) = all(block);
        file.look_through(block, &rows, &cols, scratch, &mut |batch| {
            for place in places(block, batch) {
                counts[(place / step) as usize] += 1;
            }
            Ok(())
        })?;
        bands::sum_up(counts);
        let size = size_of::<PlacedEntry>() as u64;
        let most = (block.entries() / 8).clamp(LEAST, MOST);
        let most = most.min(index_cache.most() / SLABS / size);
        let counted = CountedBands { side, step, ends };
        Ok(PlaceCounts { counted, most })
    }

    fn bytes(&self) -> u64 {
        self.counted.bytes()
    }

    fn bands(&self) -> Bands<'_> {
        self.counted.bands()
    }

    /// At least the entries at these places.
    fn entries(&self, places: &Range<u64>) -> u64 {
        let bands = places.start / self.counted.step..places.end.div_ceil(self.counted.step);
        self.bands()
            .entries(&(bands.start as usize..bands.end as usize))
    }

    /// The slab that a band lies in: its first band, and the one behind it. The bands are joined
    /// from the first on.
    fn slab(&self, band: usize) -> Range<usize> {
        let bands = self.bands();
        let mut slab = bands.joined(0, self.most);
        while slab.end <= band {
            slab = bands.joined(slab.end, self.most);
        }
        slab
    }

    /// The slabs that hold these places, which are not empty.
    fn slabs(&self, places: &Range<u64>) -> impl Iterator<Item = Range<usize>> {
        let step = self.counted.step;
        let (first, last) = (places.start / step, (places.end - 1) / step);
        let next =
            move |slab: &Range<usize>| (slab.end as u64 <= last).then(|| self.slab(slab.end));
        std::iter::successors(Some(self.slab(first as usize)), next)
    }

    /// Entries of a slab.
    fn len(&self, slab: &Range<usize>) -> u64 {
        self.bands().entries(slab)
    }
}

impl BlockFile {
    /// Visits the entries of a rectangle in the order of their places, or says that this is no
    /// gain.
    pub(super) fn scan_sorted(
        &self,
        block: &CellBlock,
        rows: &Range<u32>,
        cols: &Range<u32>,
        mut scratch: Arena<'_>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<bool> {
        if block.stored() <= CHEAP || rows.is_empty() || cols.is_empty() {
            return Ok(false);
        }
        let passed = self.passed(block, rows, scratch.lend())?;
        if passed * block.entry() <= CHEAP {
            return Ok(false);
        }
        let counts = self.counts(block, scratch.lend())?;
        let Some(counts) = &*counts else {
            return Ok(false);
        };
        let place = |row: u32, col: u32| u64::from(row) * u64::from(block.width) + u64::from(col);
        let places = place(rows.start, cols.start)..place(rows.end - 1, cols.end - 1) + 1;
        let fits = |slab| counts.len(&slab) <= counts.most;
        if passed / WASTE < counts.entries(&places) || !counts.slabs(&places).all(fits) {
            return Ok(false);
        }
        let mut slabs = [const { None }; SPANNED];
        for (number, slab) in counts.slabs(&places).enumerate() {
            let gathered = match slabs.get_mut(number) {
                Some(place) => place.insert(self.slab(block, counts, &slab, scratch.lend())?),
                None => return Ok(false),
            };
            if gathered.is_none() {
                return Ok(false);
            }
        }
        for slab in slabs.iter().flatten().flatten() {
            let start = slab.list.partition_point(|entry| entry.0 < places.start);
            let end = slab.list.partition_point(|entry| entry.0 < places.end);
            give(block, cols, &slab.list[start..end], scratch.lend(), visit)?;
        }
        Ok(true)
    }

    /// The counts of a block, made when they are first needed; none where the block is damaged.
    fn counts(&self, block: &CellBlock, scratch: Arena<'_>) -> Result<Arc<Option<PlaceCounts>>> {
        let about = IndexedPart::Places(block.number);
        let _alone = self.index_cache.alone();
        if let Some(counts) = self.index_cache.recall(about) {
            return Ok(counts);
        }
        let counts = match PlaceCounts::count(self, block, scratch) {
            Ok(counts) => Some(counts),
            // The fault harms only what lies beside it.
            Err(Error::Fault(_)) => None,
            Err(other) => return Err(other),
        };
        let bytes = counts.as_ref().map_or(0, PlaceCounts::bytes);
        Ok(self.index_cache.remember(about, counts, bytes))
    }

    /// The entries of a slab, if there is memory for them.
    fn slab(
        &self,
        block: &CellBlock,
        counts: &PlaceCounts,
        slab: &Range<usize>,
        scratch: Arena<'_>,
    ) -> Result<Option<Arc<Slab>>> {
        let about = IndexedPart::Slab(block.number, slab.start);
        let _alone = self.index_cache.alone();
        if let Some(slab) = self.index_cache.recall(about) {
            return Ok(Some(slab));
        }
        let len = counts.len(slab);
        let Some(mut entries) = self.index_cache.list_if_free::<PlacedEntry>(len) else {
            return Ok(None);
        };
        let inside = counts.bands().places(slab);
        let size = block.value().map_or(1, ValueType::size);
        let rows = inside.start / u64::from(block.width)..inside.end.div_ceil(block.width.into());
        let rows = rows.start as u32..rows.end.min(block.height.into()) as u32;
        self.look_through(block, &rows, &all(block).1, scratch, &mut |batch| {
            let values = batch.values().chunks_exact(size).map(load);
            let placed = places(block, batch).zip(values);
            let wanted = placed.filter(|entry| inside.contains(&entry.0));
            let room = entries.list.capacity() - entries.list.len();
            entries.list.extend(wanted.take(room));
            Ok(())
        })?;
        entries.list.sort_unstable_by_key(|entry| entry.0);
        let bytes = entries.bytes();
        Ok(Some(self.index_cache.remember(about, entries, bytes)))
    }
}

/// Rows and columns of a whole block.
fn all(block: &CellBlock) -> (Range<u32>, Range<u32>) {
    (0..block.height, 0..block.width)
}

fn places<'a>(block: &CellBlock, batch: &'a EntryBatch<'_>) -> impl Iterator<Item = u64> + 'a {
    let width = u64::from(block.width);
    let pairs = batch.rows().iter().zip(batch.cols());
    pairs.map(move |(&row, &col)| u64::from(row) * width + u64::from(col))
}

/// Hands on the entries that lie in some columns.
fn give(
    block: &CellBlock,
    cols: &Range<u32>,
    entries: &[PlacedEntry],
    mut scratch: Arena<'_>,
    visit: &mut VisitBatch<'_>,
) -> Result<()> {
    let size = block.value().map_or(0, ValueType::size);
    let width = u64::from(block.width);
    let mut batch = EntryBatch::new(size, &mut scratch)?;
    for part in entries.chunks(batch.spare()) {
        batch.clear();
        for &(place, bits) in part {
            let (row, col) = ((place / width) as u32, (place % width) as u32);
            if cols.contains(&col) {
                batch.push_bits(row, col, bits);
            }
        }
        visit(&batch)?;
    }
    Ok(())
}
