//! A look at what a commit changes that gives chunks other places, and does nothing else.
//!
//! The whole structure need not be read again if every byte that the library has changed lies in
//! what it read to find these chunks (the indices of their datasets, which no object's header is
//! part of), or in the end address of the superblock, or behind the old end. Then a fresh worker
//! reads the tables of these datasets through the patches, and they must be what they should be.
//! Where this cannot tell, [`super::unchanged`] does. Used by [`super::edit_recipe`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::dataset::WrittenDataset;
use super::headers::ObjectHeaders;
use super::successor::table_after;
use super::unchanged::{FoundAfter, UnchangedCheck};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::index::{ChunkEntry, DatasetEntry, FileIndex, StorageLayout};
use crate::container::hdf5::worker::{self, IndexAnswer};
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::Source;

/// Longer tables take as long to compare as the whole structure to read.
const CHUNKS_MOST: u64 = 64 << 10;

pub(super) struct MovedChunks<'a> {
    pub(super) check: &'a UnchangedCheck<'a>,
    pub(super) headers: &'a ObjectHeaders,
    /// By the tokens of their datasets.
    pub(super) moved: &'a HashMap<u64, Vec<ChunkEntry>>,
    pub(super) patches: &'a [(u64, Vec<u8>)],
    /// Whether the library was asked for nothing else.
    pub(super) is_alone: bool,
}

impl MovedChunks<'_> {
    /// Gives the structure that the file is going to have; none if it has to be read. `indices`:
    /// what the library read to find the chunks.
    pub(super) fn run(
        &self,
        after: &Arc<dyn Source>,
        indices: &[(u64, u64)],
    ) -> Result<Option<FoundAfter>> {
        let Some(datasets) = self.check.expected.values_alone() else {
            return Ok(None);
        };
        let check = self.check;
        let is_blank = !check.unexplained.is_empty();
        if !self.is_alone || is_blank || check.took_room || !self.are_confined(indices)? {
            return Ok(None);
        }
        let (mut index, _index) = check.before.1.read(check.budget)?;
        check.check_all_stored(&index)?;
        let is_known = |token: &u64| datasets.iter().any(|dataset| dataset.token == *token);
        if !self.moved.keys().all(is_known) {
            return Ok(None);
        }
        for dataset in datasets {
            if self.moved.contains_key(&dataset.token)
                && !self.follow(dataset, after, &mut index)?
            {
                return Ok(None);
            }
        }
        let found = FoundAfter {
            answer: IndexAnswer::of(&index, check.budget)?,
            freed: RangeSet::default(),
            sizes: check.sizes(&index),
        };
        #[cfg(any(test, debug_assertions))]
        compare_with_all(&found, check, after);
        Ok(Some(found))
    }

    /// Whether all that the library changes lies where it may.
    fn are_confined(&self, indices: &[(u64, u64)]) -> Result<bool> {
        let source = &**self.check.before.0;
        let mut places = RangeSet::default();
        for (at, len) in indices {
            let Some(end) = at.checked_add(*len) else {
                return Ok(false);
            };
            if self.headers.check(&(*at..end)).is_err() {
                return Ok(false);
            }
            places.insert(*at..end);
        }
        places.extend(worker::end_places(source)?);
        let mut stored = Vec::new();
        for (at, bytes) in self.patches {
            let there = source.len().saturating_sub(*at).min(bytes.len() as u64) as usize;
            stored.resize(there, 0);
            source.fetch_one(*at, &mut stored)?;
            let confined = |run: Range<u64>| places.contains(&run);
            if !differing(*at, &stored, &bytes[..there]).all(confined) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has the structure say what a dataset is after the commit, if its table is as it should be.
    fn follow(
        &self,
        dataset: &WrittenDataset,
        after: &Arc<dyn Source>,
        index: &mut FileIndex,
    ) -> Result<bool> {
        let token = dataset.token;
        let Some(table) = table_after(dataset, self.moved) else {
            return Ok(false);
        };
        if table.len() > CHUNKS_MOST {
            return Ok(false);
        }
        let found = worker::chunks(&**after, token, self.check.budget)?.checked(u64::MAX)?;
        if !found.iter().eq(table.iter()) {
            return Ok(false);
        }
        let mut entries = index.datasets.iter_mut();
        let entry = entries.find(|entry| entry.token == token);
        Ok(entry.is_some_and(|entry| moved(entry, dataset, &found)))
    }
}

/// Notes other places of chunks; false if something else may follow from them.
fn moved(entry: &mut DatasetEntry, dataset: &WrittenDataset, now: &ChunkTable) -> bool {
    let StorageLayout::Chunked { table, applied, .. } = &mut entry.layout else {
        return false;
    };
    let bytes = |table: &ChunkTable| {
        let sizes = table.iter().map(|chunk| chunk.size);
        sizes.fold(0, u64::saturating_add)
    };
    let Some(before) = dataset
        .array
        .chunked()
        .and_then(|array| array.known_table())
    else {
        return false;
    };
    // Which filters some chunk went through is told where one of them is unknown.
    if *applied != u32::MAX {
        return false;
    }
    let others = entry.stored_bytes.saturating_sub(bytes(before));
    entry.stored_bytes = others.saturating_add(bytes(now));
    if let Some(table) = table {
        *table = now.iter().collect();
    }
    true
}

/// The places at which two pieces of a file differ, in runs.
fn differing(at: u64, one: &[u8], other: &[u8]) -> impl Iterator<Item = Range<u64>> {
    let (one, other) = (one.to_vec(), other.to_vec());
    let mut from = 0;
    std::iter::from_fn(move || {
        let differs = |place: usize| one[place] != other[place];
        let start = (from..one.len()).find(|place| differs(*place))?;
        let end = (start..one.len()).find(|place| !differs(*place));
        from = end.unwrap_or(one.len());
        Some(at + start as u64..at + from as u64)
    })
}

#[cfg(test)]
thread_local! {
    /// How often the whole structure need not have been read.
    pub(super) static TAKEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The whole structure says the same, as far as there is memory to read it.
#[cfg(any(test, debug_assertions))]
fn compare_with_all(found: &FoundAfter, check: &UnchangedCheck<'_>, after: &Arc<dyn Source>) {
    let read = |found: &FoundAfter| found.answer.read(check.budget).map(|read| read.0);
    if let Ok(all) = check.run(after)
        && let (Ok(found_index), Ok(all_index)) = (read(found), read(&all))
    {
        assert_eq!(found_index, all_index);
        assert_eq!(found.sizes, all.sizes);
        #[cfg(test)]
        TAKEN.set(TAKEN.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_differ_in_runs() {
        let runs: Vec<_> = differing(100, b"abcdefgh", b"aXXdefYh").collect();
        assert_eq!(runs, [101..103, 106..107]);
        assert_eq!(differing(7, b"ab", b"xy").next(), Some(7..9));
        assert_eq!(
            differing(7, b"ab", b"ab").count() + differing(7, b"", b"").count(),
            0
        );
    }
}
