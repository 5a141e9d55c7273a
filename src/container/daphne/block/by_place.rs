//! Entries of a large block by their places, where looking through all of them for a few would be repeated
//! for every tile: COO entries in any order, and rows as wide as many tiles.
//!
//! One pass counts the entries of 4096 bands of places. Bands are joined to slabs of bounded size; a slab is
//! gathered in one more pass, sorted, and kept for the tiles that follow. Only a few slabs are kept in
//! the whole process. Where a band alone is too large, or the block is damaged, nothing is gained: the block is
//! looked through as it lies. Used by `entries`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::value::ValueType;
use super::BlockFile;
use super::scan::{EntryBatch, VisitBatch, load};
use super::table::CellBlock;
use crate::error::{Error, Result};

/// Stored bytes that are looked through without a thought.
const CHEAP: u64 = if cfg!(test) { 64 << 10 } else { 1 << 20 };
/// How many times more entries than wanted are looked through rather than sorted.
const WASTE: u64 = 4;
const BANDS: u64 = 4096;
/// Entries of a slab, which are an eighth of the block's within these bounds: 16 bytes each.
const LEAST: u64 = if cfg!(test) { 1 << 10 } else { 512 << 10 };
const MOST: u64 = 2 << 20;
/// Slabs kept in the process.
const KEPT: usize = 4;
/// Entries handed on together.
const BATCH: usize = 4096;

/// The latest used is the last.
static SLABS: Mutex<Vec<KeptSlab>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The place of an entry in its block, counted row by row, and the bits of its value.
type PlacedEntry = (u64, u64);

struct KeptSlab {
    /// File, block and slab.
    key: (u64, u32, usize),
    entries: Arc<Vec<PlacedEntry>>,
}

/// Counts of a file's blocks; none where a block is damaged.
pub(in super::super) struct ByPlace {
    id: u64,
    counts: Mutex<HashMap<u32, Option<Arc<PlaceCounts>>>>,
}

impl ByPlace {
    pub(in super::super) fn new() -> ByPlace {
        ByPlace {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            counts: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Option<Arc<PlaceCounts>>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ByPlace {
    fn drop(&mut self) {
        slabs().retain(|kept| kept.key.0 != self.id);
    }
}

fn slabs() -> MutexGuard<'static, Vec<KeptSlab>> {
    SLABS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a slab that is kept, and makes it the latest.
fn recall(key: (u64, u32, usize)) -> Option<Arc<Vec<PlacedEntry>>> {
    let mut slabs = slabs();
    let at = slabs.iter().position(|kept| kept.key == key)?;
    let kept = slabs.remove(at);
    let entries = Arc::clone(&kept.entries);
    slabs.push(kept);
    Some(entries)
}

/// Entries of a block before each band of places, and the first band of each slab.
struct PlaceCounts {
    /// Places of a band.
    step: u64,
    before: Vec<u64>,
    slabs: Vec<usize>,
}

impl PlaceCounts {
    fn new(block: &CellBlock, counts: &[u64]) -> PlaceCounts {
        let mut before = vec![0];
        before.extend(counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        let most = most(block);
        let mut slabs = vec![0];
        for band in 1..counts.len() {
            let start = slabs.last().map_or(0, |&start| before[start]);
            if before[band + 1] - start > most {
                slabs.push(band);
            }
        }
        slabs.push(counts.len());
        PlaceCounts {
            step: step(block),
            before,
            slabs,
        }
    }

    /// At least the entries at these places.
    fn entries(&self, places: &Range<u64>) -> u64 {
        let end = places.end.div_ceil(self.step) as usize;
        self.before[end] - self.before[(places.start / self.step) as usize]
    }

    /// The slabs that hold these places.
    fn slabs(&self, places: &Range<u64>) -> Range<usize> {
        let slab = |place: u64| {
            let band = (place / self.step) as usize;
            self.slabs.partition_point(|&first| first <= band) - 1
        };
        slab(places.start)..slab(places.end - 1) + 1
    }

    /// Entries and places of a slab.
    fn slab(&self, slab: usize) -> (u64, Range<u64>) {
        let (first, end) = (self.slabs[slab], self.slabs[slab + 1]);
        let places = first as u64 * self.step..(end as u64).saturating_mul(self.step);
        (self.before[end] - self.before[first], places)
    }
}

fn step(block: &CellBlock) -> u64 {
    block.area().div_ceil(BANDS).max(1)
}

fn most(block: &CellBlock) -> u64 {
    (block.entries() / 8).clamp(LEAST, MOST)
}

impl BlockFile {
    /// Visits the entries of a rectangle in the order of their places, or says that this is no gain.
    pub(in super::super) fn scan_sorted(
        &self,
        block: &CellBlock,
        rows: &Range<u32>,
        cols: &Range<u32>,
        visit: &mut VisitBatch<'_>,
    ) -> Result<bool> {
        if block.stored() <= CHEAP || rows.is_empty() || cols.is_empty() {
            return Ok(false);
        }
        let passed = self.passed(block, rows)?;
        if passed * block.entry() <= CHEAP {
            return Ok(false);
        }
        let Some(counts) = self.counts(block)? else {
            return Ok(false);
        };
        let place = |row: u32, col: u32| u64::from(row) * u64::from(block.width) + u64::from(col);
        let places = place(rows.start, cols.start)..place(rows.end - 1, cols.end - 1) + 1;
        let slabs = counts.slabs(&places);
        let fits = |slab| counts.slab(slab).0 <= most(block);
        if passed / WASTE < counts.entries(&places) || !slabs.clone().all(fits) {
            return Ok(false);
        }
        for slab in slabs {
            let entries = self.slab(block, &counts, slab)?;
            let start = entries.partition_point(|entry| entry.0 < places.start);
            let end = entries.partition_point(|entry| entry.0 < places.end);
            give(block, cols, &entries[start..end], visit)?;
        }
        Ok(true)
    }

    /// Counts the entries of a block when they are first needed.
    fn counts(&self, block: &CellBlock) -> Result<Option<Arc<PlaceCounts>>> {
        // Held while counting: others would only do the same.
        let mut known = self.sorted.lock();
        if let Some(counts) = known.get(&block.number) {
            return Ok(counts.clone());
        }
        let step = step(block);
        let mut counts = vec![0; BANDS as usize];
        let counted = self.look_through(block, &all(block).0, &all(block).1, &mut |batch| {
            for place in places(block, batch) {
                counts[(place / step) as usize] += 1;
            }
            Ok(())
        });
        let counts = match counted {
            Ok(()) => Some(Arc::new(PlaceCounts::new(block, &counts))),
            // The fault harms only what lies beside it.
            Err(Error::Fault(_)) => None,
            Err(other) => return Err(other),
        };
        known.insert(block.number, counts.clone());
        Ok(counts)
    }

    /// The entries of a slab, sorted; those at one place are neighbours.
    fn slab(
        &self,
        block: &CellBlock,
        counts: &PlaceCounts,
        slab: usize,
    ) -> Result<Arc<Vec<PlacedEntry>>> {
        let key = (self.sorted.id, block.number, slab);
        // Held while gathering, see above.
        let _alone = self.sorted.lock();
        if let Some(entries) = recall(key) {
            return Ok(entries);
        }
        let (len, inside) = counts.slab(slab);
        let size = block.value().map_or(1, ValueType::size);
        let rows = inside.start / u64::from(block.width)..inside.end.div_ceil(block.width.into());
        let rows = rows.start as u32..rows.end.min(block.height.into()) as u32;
        let mut entries = Vec::with_capacity(len as usize);
        self.look_through(block, &rows, &all(block).1, &mut |batch| {
            let values = batch.values.chunks_exact(size).map(load);
            let placed = places(block, batch).zip(values);
            entries.extend(placed.filter(|entry| inside.contains(&entry.0)));
            Ok(())
        })?;
        entries.sort_unstable_by_key(|entry| entry.0);
        let entries = Arc::new(entries);
        let mut slabs = slabs();
        if slabs.len() >= KEPT {
            slabs.remove(0);
        }
        slabs.push(KeptSlab {
            key,
            entries: Arc::clone(&entries),
        });
        Ok(entries)
    }
}

/// Rows and columns of a whole block.
fn all(block: &CellBlock) -> (Range<u32>, Range<u32>) {
    (0..block.height, 0..block.width)
}

fn places<'a>(block: &CellBlock, batch: &'a EntryBatch) -> impl Iterator<Item = u64> + 'a {
    let width = u64::from(block.width);
    let pairs = batch.rows.iter().zip(&batch.cols);
    pairs.map(move |(&row, &col)| u64::from(row) * width + u64::from(col))
}

/// Hands on the entries that lie in some columns.
fn give(
    block: &CellBlock,
    cols: &Range<u32>,
    entries: &[PlacedEntry],
    visit: &mut VisitBatch<'_>,
) -> Result<()> {
    let (width, size) = (
        u64::from(block.width),
        block.value().map_or(1, ValueType::size),
    );
    let mut batch = EntryBatch::default();
    for part in entries.chunks(BATCH) {
        batch.clear();
        for &(place, bits) in part {
            let (row, col) = ((place / width) as u32, (place % width) as u32);
            if cols.contains(&col) {
                batch.push(row, col, &bits.to_le_bytes()[..size]);
            }
        }
        visit(&batch)?;
    }
    Ok(())
}
