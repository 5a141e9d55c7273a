//! Where the chunks of a file lie, in little memory: a file may have millions of them.
//!
//! Chunks lie back to back, so their lengths say it. They are kept in rows of 512: one in which all
//! have the same length, as zeros have, and noise, is that length; others are shared by the
//! versions of a file, so that a flush costs what it changes. Pure; used by [`super::base`] and
//! [`super::merge`].

use std::sync::Arc;

use crate::error::Result;
use crate::memory::fallible;

const DOING: &str = "cannot keep the places of chunks";

/// Chunks of a row.
const ROW: u64 = 512;

/// The places of chunks, from the first on.
#[derive(Debug, Clone)]
pub(super) struct ChunkPlaces {
    rows: Vec<PlacesRow>,
    start: u64,
    count: u64,
    end: u64,
}

#[derive(Debug, Clone)]
struct PlacesRow {
    /// Where its first chunk begins.
    start: u64,
    lengths: RowLengths,
}

#[derive(Debug, Clone)]
enum RowLengths {
    /// All have this one.
    Even(u32),
    Each(Arc<Vec<u32>>),
}

impl PlacesRow {
    fn len_of(&self, index: usize) -> u32 {
        match &self.lengths {
            RowLengths::Even(len) => *len,
            RowLengths::Each(lengths) => lengths.get(index).copied().unwrap_or(0),
        }
    }

    fn start_of(&self, index: usize) -> u64 {
        self.start
            + match &self.lengths {
                RowLengths::Even(len) => u64::from(*len) * index as u64,
                RowLengths::Each(lengths) => {
                    let before = lengths.iter().take(index);
                    before.map(|len| u64::from(*len)).sum::<u64>()
                }
            }
    }
}

impl ChunkPlaces {
    /// None yet: the first one begins there.
    pub(super) fn from(start: u64) -> ChunkPlaces {
        ChunkPlaces {
            rows: Vec::new(),
            start,
            count: 0,
            end: start,
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Where the first one begins.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where the last one ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of memory.
    pub(super) fn takes(&self) -> u64 {
        let each = |row: &PlacesRow| match &row.lengths {
            RowLengths::Even(_) => 0,
            RowLengths::Each(lengths) => 4 * lengths.capacity(),
        };
        let rows = self.rows.capacity() * size_of::<PlacesRow>();
        (rows + self.rows.iter().map(each).sum::<usize>()) as u64
    }

    /// Place and length of a chunk.
    pub(super) fn slot(&self, number: u64) -> Option<(u64, u64)> {
        let row = self.rows.get(usize::try_from(number / ROW).ok()?)?;
        let index = (number % ROW) as usize;
        let len = row.len_of(index).into();
        (number < self.count).then(|| (row.start_of(index), len))
    }

    /// Where each of some chunks begins.
    pub(super) fn starts(&self, chunks: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
        let mut next = self.slot(chunks.start).map_or(self.end, |(start, _)| start);
        self.lengths(chunks).map(move |len| {
            let start = next;
            next += u64::from(len);
            start
        })
    }

    /// The length of each of some chunks.
    pub(super) fn lengths(&self, chunks: std::ops::Range<u64>) -> impl Iterator<Item = u32> {
        let end = chunks.end.min(self.count);
        (chunks.start..end).map(|number| {
            let row = self.rows.get((number / ROW) as usize);
            row.map_or(0, |row| row.len_of((number % ROW) as usize))
        })
    }

    /// One more chunk of so many bytes.
    pub(super) fn push(&mut self, len: u32) -> Result<()> {
        let index = (self.count % ROW) as usize;
        if index == 0 {
            let row = PlacesRow {
                start: self.end,
                lengths: RowLengths::Even(len),
            };
            fallible::push(&mut self.rows, row, DOING)?;
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(index, len)?;
        }
        self.count += 1;
        self.end += u64::from(len);
        Ok(())
    }

    /// The first so many of them.
    pub(super) fn first(&self, count: u64) -> Result<ChunkPlaces> {
        let count = count.min(self.count);
        let (whole, rest) = (count / ROW, count % ROW);
        let mut first = ChunkPlaces::from(self.start);
        first.rows = fallible::room_for(whole as usize + 1, DOING)?;
        first.rows.extend_from_slice(&self.rows[..whole as usize]);
        first.count = whole * ROW;
        first.end = self.slot(first.count).map_or(self.end, |(start, _)| start);
        for len in self.lengths(first.count..first.count + rest) {
            first.push(len)?;
        }
        Ok(first)
    }

    /// All of them once more, to be lengthened or put elsewhere.
    pub(super) fn copy(&self) -> Result<ChunkPlaces> {
        self.first(self.count)
    }

    /// Tells these places from others.
    pub(super) fn sum(&self, hasher: &mut crc32fast::Hasher) {
        hasher.update(&self.start.to_le_bytes());
        let mut bytes = Vec::with_capacity(4 * ROW as usize);
        for first in (0..self.count).step_by(ROW as usize) {
            bytes.clear();
            let row = self.lengths(first..first + ROW);
            bytes.extend(row.flat_map(u32::to_le_bytes));
            hasher.update(&bytes);
        }
    }
}

impl PlacesRow {
    /// The length of the chunk that has this index, behind those there are.
    fn push(&mut self, index: usize, len: u32) -> Result<()> {
        match &mut self.lengths {
            RowLengths::Even(even) if *even == len => Ok(()),
            RowLengths::Even(even) => {
                let mut lengths = fallible::room_for((2 * index).max(8), DOING)?;
                lengths.resize(index, *even);
                lengths.push(len);
                self.lengths = RowLengths::Each(Arc::new(lengths));
                Ok(())
            }
            RowLengths::Each(lengths) => match Arc::get_mut(lengths) {
                Some(own) => fallible::push(own, len, DOING),
                None => {
                    let mut own = fallible::room_for(lengths.len() + 8, DOING)?;
                    own.extend_from_slice(lengths);
                    own.push(len);
                    *lengths = Arc::new(own);
                    Ok(())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_the_sums_of_lengths(
            runs in proptest::collection::vec((16u32..20, prop_oneof![1u64..5, 500u64..1100]), 0..8),
            cut in 0u64..4000,
            more in 0u32..9,
        ) {
            let mut places = ChunkPlaces::from(100);
            let mut model = Vec::new();
            for (len, count) in runs {
                (0..count).for_each(|_| places.push(len).unwrap());
                model.extend(std::iter::repeat_n(len, count as usize));
            }
            let whole = places.copy().unwrap();
            let mut places = places.first(cut).unwrap();
            let before = model.clone();
            model.truncate(cut as usize);
            places.push(more).unwrap();
            model.push(more);
            for (places, model) in [(&places, &model), (&whole, &before)] {
                prop_assert_eq!(places.count(), model.len() as u64);
                let starts: Vec<u64> = places.starts(0..u64::MAX).collect();
                let mut at = 100;
                for (number, len) in model.iter().enumerate() {
                    prop_assert_eq!(places.slot(number as u64), Some((at, u64::from(*len))));
                    prop_assert_eq!(starts[number], at);
                    at += u64::from(*len);
                }
                prop_assert_eq!((places.start(), places.end()), (100, at));
                prop_assert_eq!(places.slot(model.len() as u64), None);
            }
        }
    }

    #[test]
    fn chunks_of_one_length_cost_next_to_nothing() {
        let mut places = ChunkPlaces::from(0);
        (0..8 << 20).for_each(|_| places.push(47).unwrap());
        assert!(places.takes() < 1 << 20, "{}", places.takes());
        for number in 0..(1u32 << 18) {
            places.push(number % 999).unwrap();
        }
        assert!(places.takes() < 5 << 20, "{}", places.takes());
    }
}
