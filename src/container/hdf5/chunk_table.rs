//! The stored chunks of a dataset: 12 bytes each if all are stored, 20 if some are not.
//!
//! It comes from the worker and is checked like any input: numbers must rise and lie in the grid.
//! Addresses and sizes are judged chunk by chunk when they are used, so that one bad entry costs one
//! chunk; ranges may overlap, which is harmless. Used by `dataset::chunked`.

use super::index::ChunkEntry;
use crate::error::{Fault, Result};

#[derive(Debug)]
pub(super) struct ChunkTable {
    /// None if the chunks are 0, 1, 2 and so on.
    numbers: Option<Box<[u64]>>,
    addresses: Box<[u64]>,
    /// Stored bytes; `u32::MAX` stands for that many or more, which no chunk has.
    sizes: Box<[u32]>,
    /// Positions of the chunks with a filter mask, and the masks: there are few or none.
    masks: Box<[(usize, u32)]>,
}

impl ChunkTable {
    /// `chunks`: how many the grid has.
    pub(super) fn new(stored: &[ChunkEntry], chunks: u64) -> Result<ChunkTable> {
        check(stored, chunks)?;
        let dense = stored
            .last()
            .is_none_or(|last| last.number + 1 == stored.len() as u64);
        let numbers = || stored.iter().map(|chunk| chunk.number).collect();
        let masked = stored
            .iter()
            .enumerate()
            .filter(|(_, chunk)| chunk.mask != 0);
        Ok(ChunkTable {
            numbers: (!dense).then(numbers),
            addresses: stored.iter().map(|chunk| chunk.address).collect(),
            sizes: stored
                .iter()
                .map(|chunk| u32::try_from(chunk.size).unwrap_or(u32::MAX))
                .collect(),
            masks: masked.map(|(at, chunk)| (at, chunk.mask)).collect(),
        })
    }

    /// Chunks that are stored.
    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// The chunk of this number, if it is stored.
    pub(super) fn get(&self, number: u64) -> Option<ChunkEntry> {
        let at = match &self.numbers {
            None => usize::try_from(number).ok()?,
            Some(numbers) => numbers.binary_search(&number).ok()?,
        };
        self.at(at)
    }

    /// The stored chunks by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = ChunkEntry> {
        (0..self.len()).filter_map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> Option<ChunkEntry> {
        let mask = self.masks.binary_search_by_key(&at, |(at, _)| *at);
        Some(ChunkEntry {
            number: match &self.numbers {
                None => at as u64,
                Some(numbers) => *numbers.get(at)?,
            },
            address: *self.addresses.get(at)?,
            size: u64::from(*self.sizes.get(at)?),
            mask: mask
                .ok()
                .and_then(|mask| self.masks.get(mask))
                .map_or(0, |(_, mask)| *mask),
        })
    }
}

fn check(stored: &[ChunkEntry], chunks: u64) -> Result<()> {
    if let Some(pair) = stored
        .windows(2)
        .find(|pair| pair[0].number >= pair[1].number)
    {
        let fault = Fault::new("the table of chunks does not rise").block(pair[1].number);
        return Err(fault
            .expected(format_args!("more than {}", pair[0].number))
            .into());
    }
    match stored.last() {
        Some(last) if last.number >= chunks => {
            let fault = Fault::new("the table has a chunk outside of the dataset");
            let fault = fault.block(last.number);
            Err(fault
                .expected(format_args!("fewer than {chunks} chunks"))
                .into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn chunk(number: u64, mask: u32) -> ChunkEntry {
        ChunkEntry {
            number,
            address: 1000 + 7 * number,
            size: 3 + number,
            mask,
        }
    }

    #[test]
    fn numbers_must_rise_and_lie_in_the_grid() {
        let table = |numbers: &[u64]| {
            let chunks: Vec<ChunkEntry> = numbers.iter().map(|&n| chunk(n, 0)).collect();
            ChunkTable::new(&chunks, 4)
        };
        assert!(table(&[0, 1, 3]).is_ok());
        assert!(table(&[]).is_ok());
        for (numbers, what) in [
            (&[0, 0][..], "rise"),
            (&[2, 1], "rise"),
            (&[1, 4], "outside"),
        ] {
            assert!(table(numbers).unwrap_err().to_string().contains(what));
        }
    }

    #[test]
    fn a_size_beyond_32_bits_stays_too_large() {
        let huge = ChunkEntry {
            size: 1 << 32,
            ..chunk(0, 0)
        };
        let table = ChunkTable::new(&[huge], 1).unwrap();
        assert_eq!(table.get(0).unwrap().size, u64::from(u32::MAX));
    }

    proptest! {
        #[test]
        fn chunks_are_found_by_number(masks in prop::collection::btree_map(0u64..40, 0u32..3, 0..40)) {
            let chunks: Vec<ChunkEntry> = masks.iter().map(|(&n, &mask)| chunk(n, mask)).collect();
            let table = ChunkTable::new(&chunks, 40).unwrap();
            let by_number: BTreeMap<u64, ChunkEntry> = chunks.iter().map(|c| (c.number, *c)).collect();
            for number in 0..45 {
                prop_assert_eq!(table.get(number), by_number.get(&number).copied());
            }
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), chunks);
        }
    }
}
