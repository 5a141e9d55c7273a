//! Whether the blocks partition the object: no cell in two blocks, none in no block.
//!
//! Areas alone miss an overlap beside a gap of one size, so a sweep over the rows also checks that
//! no two blocks meet: time O(n log n), whatever the tiling. Used when a file is opened.

use super::super::block::index_cache::{BlockIndexCache, ChargedList};
use super::super::block::table::{BlockTable, CellBlock};
use super::super::header::FileHead;
use crate::error::{Fault, Result};

pub(crate) fn check(
    table: &BlockTable,
    header: &FileHead,
    index_cache: &BlockIndexCache,
) -> Result<()> {
    if !header.has_cells() {
        return Ok(());
    }
    let covered: u128 = table.iter().map(|block| u128::from(block.area())).sum();
    let cells = u128::from(header.rows) * u128::from(header.cols);
    if covered < cells {
        let fault = Fault::new("part of the object is in no block");
        return Err(fault.expected(cells).found(covered).into());
    }
    sweep(table, index_cache)?;
    if covered > cells {
        let fault = Fault::new("the blocks overlap");
        return Err(fault.expected(cells).found(covered).into());
    }
    Ok(())
}

/// Blocks come and go as the sweep moves down the rows.
fn sweep(table: &BlockTable, index_cache: &BlockIndexCache) -> Result<()> {
    let starts = sorted(table, index_cache, |block| block.row)?;
    let ends = sorted(table, index_cache, |block| block.rows().end)?;
    let by_col = sorted(table, index_cache, |block| block.col)?;
    let mut ranks = index_cache.list(table.len() as u64)?;
    ranks.list.resize(table.len(), 0);
    for (rank, &number) in (0..).zip(&by_col.list) {
        ranks.list[number as usize] = rank;
    }
    let rank = |block: &CellBlock| ranks.list[block.number as usize];
    let mut live = RankSet::new(table.len(), index_cache)?;
    let mut ends = ends.list.iter().map(|&n| table.get(n)).peekable();
    for block in starts.list.iter().map(|&n| table.get(n)) {
        while let Some(gone) = ends.next_if(|ended| ended.rows().end <= block.row) {
            live.remove(rank(&gone));
        }
        // Of those that live, which share no columns, the last one that begins before this one
        // ends.
        let end = block.cols().end;
        let before = by_col.list.partition_point(|&n| table.get(n).col < end);
        let last = before.checked_sub(1).and_then(|last| live.last_up_to(last));
        let last = last.map(|rank| table.get(by_col.list[rank]));
        if let Some(other) = last.filter(|other| other.cols().end > block.col) {
            return Err(block
                .fault("two blocks hold the same cells")
                .found(format_args!("block {} overlaps it", other.number))
                .into());
        }
        live.insert(rank(&block));
    }
    Ok(())
}

/// The numbers of the blocks in the order of a key.
fn sorted(
    table: &BlockTable,
    index_cache: &BlockIndexCache,
    key: impl Fn(&CellBlock) -> u64,
) -> Result<ChargedList<u32>> {
    let mut numbers = index_cache.list(table.len() as u64)?;
    numbers.list.extend(0..table.len() as u32);
    numbers
        .list
        .sort_unstable_by_key(|&number| key(&table.get(number)));
    Ok(numbers)
}

/// A set of numbers below a bound: a bit for each, and a bit for each word that has one, and so on.
struct RankSet {
    levels: Vec<ChargedList<u64>>,
}

impl RankSet {
    fn new(bound: usize, index_cache: &BlockIndexCache) -> Result<RankSet> {
        let (mut levels, mut words) = (Vec::new(), bound);
        while words > 1 || levels.is_empty() {
            words = words.div_ceil(64);
            let mut level = index_cache.list(words as u64)?;
            level.list.resize(words, 0);
            levels.push(level);
        }
        Ok(RankSet { levels })
    }

    fn insert(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level.list[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    fn remove(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level.list[at / 64] &= !(1 << (at % 64));
            if level.list[at / 64] != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The greatest number of the set that is at most `at`.
    fn last_up_to(&self, at: usize) -> Option<usize> {
        let mut at = at;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.list[at / 64] & (u64::MAX >> (63 - at % 64));
            if word != 0 {
                let found = at / 64 * 64 + last_bit(word);
                let below = self.levels[..height].iter().rev();
                return Some(below.fold(found, |at, level| at * 64 + last_bit(level.list[at])));
            }
            at = (at / 64).checked_sub(1)?;
        }
        None
    }
}

/// Place of the highest bit of a word that has one.
fn last_bit(word: u64) -> usize {
    63 - word.leading_zeros() as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::budget::Budget;

    proptest! {
        #[test]
        fn a_rank_set_is_a_set(
            bound in 1usize..10_000,
            changes in proptest::collection::vec((any::<u32>(), any::<bool>()), 0..200),
        ) {
            let index_cache = BlockIndexCache::new(&Budget::new(1 << 20));
            let mut ranks = RankSet::new(bound, &index_cache).unwrap();
            let mut expected = BTreeSet::new();
            for (number, inserted) in changes {
                let number = number % bound as u32;
                if inserted {
                    ranks.insert(number);
                    expected.insert(number as usize);
                } else {
                    ranks.remove(number);
                    expected.remove(&(number as usize));
                }
                for at in [0, number as usize, bound / 2, bound - 1] {
                    let last = expected.range(..=at).next_back().copied();
                    prop_assert_eq!(ranks.last_up_to(at), last);
                }
            }
        }
    }
}
