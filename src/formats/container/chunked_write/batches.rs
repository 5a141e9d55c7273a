//! Which chunks are encoded together: handing one over to another thread takes longer than encoding
//! it where chunks are small.
//!
//! Chunks lie in blocks of so many in a row as a format encodes, or decodes, at once. Where much
//! has changed, the changed chunks of a block are a batch; where little has, those of several
//! blocks. Used by [`super`].

use std::ops::Range;

use crate::error::Result;
use crate::memory::fallible;
use crate::range_set::RangeSet;

/// A batch of several blocks has at most so many changed chunks, and so many blocks.
const MOST_CHUNKS: u64 = 64;
const MOST_BLOCKS: u64 = 64;

/// Where more than one of so many chunks has changed, on the average, every block is a batch.
const DENSE: u64 = 4;

pub(crate) struct Batches<'a> {
    dirty: &'a RangeSet,
    /// Chunks of a block.
    block: u64,
    /// Those with changed chunks, as runs, each with how many come before it.
    blocks: Vec<(u64, Range<u64>)>,
    /// Which of them is the first of each batch; none: each block is one.
    firsts: Option<Vec<u64>>,
}

/// Chunks that are encoded together, as runs in order, none of which lies in two blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch(Vec<Range<u64>>);

impl Batch {
    pub(crate) fn runs(&self) -> &[Range<u64>] {
        &self.0
    }

    /// How many there are.
    pub(crate) fn chunks(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    pub(crate) fn first(&self) -> u64 {
        self.0.first().map_or(0, |run| run.start)
    }
}

impl<'a> Batches<'a> {
    /// `dirty`: the chunks that have changed, `block`: how many lie in a block.
    pub(crate) fn of(dirty: &'a RangeSet, block: u64) -> Result<Batches<'a>> {
        let with = |run: Range<u64>| run.start / block..run.end.div_ceil(block);
        let mut before = 0;
        let blocks = RangeSet::from_iter(dirty.iter().map(with));
        let blocks = blocks.iter().map(|run| {
            let first = before;
            before += run.end - run.start;
            (first, run)
        });
        let mut batches = Batches {
            dirty,
            block,
            blocks: blocks.collect(),
            firsts: None,
        };
        if dirty.len() / batches.blocks().max(1) < block / DENSE {
            batches.firsts = Some(batches.joined()?);
        }
        Ok(batches)
    }

    fn joined(&self) -> Result<Vec<u64>> {
        let (mut firsts, mut of_batch) = (Vec::new(), 0);
        for (n, block) in (0..).zip(self.blocks.iter().flat_map(|(_, run)| run.clone())) {
            let chunks: u64 = self.runs_of(block).map(|run| run.end - run.start).sum();
            let first = firsts.last().copied();
            let fits = of_batch + chunks <= MOST_CHUNKS;
            if first.is_some_and(|first| fits && n - first < MOST_BLOCKS) {
                of_batch += chunks;
            } else {
                fallible::push(&mut firsts, n, "cannot write a container")?;
                of_batch = chunks;
            }
        }
        Ok(firsts)
    }

    pub(crate) fn count(&self) -> u64 {
        let batches = self.firsts.as_ref().map(|firsts| firsts.len() as u64);
        batches.unwrap_or_else(|| self.blocks())
    }

    pub(crate) fn get(&self, batch: u64) -> Batch {
        let range = match &self.firsts {
            None => batch..batch + 1,
            Some(firsts) => {
                let at = |batch: u64| firsts.get(usize::try_from(batch).unwrap_or(usize::MAX));
                let end = at(batch + 1).copied().unwrap_or_else(|| self.blocks());
                at(batch).copied().unwrap_or(end)..end
            }
        };
        let blocks = range.filter_map(|n| self.block(n));
        Batch(blocks.flat_map(|block| self.runs_of(block)).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Batch> + '_ {
        (0..self.count()).map(|batch| self.get(batch))
    }

    /// How many blocks have changed chunks.
    fn blocks(&self) -> u64 {
        let last = self.blocks.last();
        last.map_or(0, |(before, run)| before + (run.end - run.start))
    }

    /// The n-th of them, counted from 0.
    fn block(&self, n: u64) -> Option<u64> {
        let at = self.blocks.partition_point(|(before, _)| *before <= n);
        let (before, run) = self.blocks.get(at.checked_sub(1)?)?;
        let number = run.start + (n - before);
        (number < run.end).then_some(number)
    }

    /// The changed chunks of a block.
    fn runs_of(&self, block: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let start = block.saturating_mul(self.block);
        self.dirty.within(start..start.saturating_add(self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(runs: Vec<(u64, u64)>, single: Vec<u64>) -> RangeSet {
        let runs = runs.into_iter().map(|(start, len)| start..start + len);
        let single = single.into_iter().map(|one| one..one + 1);
        RangeSet::from_iter(runs.chain(single))
    }

    proptest! {
        #[test]
        fn every_changed_chunk_is_in_one_batch_in_order(
            block in prop_oneof![Just(1u64), Just(7), Just(512)],
            runs in proptest::collection::vec((0u64..30_000, 1u64..800), 0..6),
            single in proptest::collection::vec(0u64..460_000, 0..200),
        ) {
            let dirty = numbers(runs, single);
            let batches = Batches::of(&dirty, block).unwrap();
            let chunks = batches.iter().flat_map(|batch| batch.0.into_iter().flatten());
            prop_assert_eq!(chunks.collect::<Vec<_>>(), dirty.iter().flatten().collect::<Vec<_>>());
            for batch in batches.iter() {
                let block_of = |chunk: u64| chunk / block;
                prop_assert!(batch.runs().iter().all(|run| block_of(run.start) == block_of(run.end - 1)));
                let (first, last) = (&batch.0[0], &batch.0[batch.0.len() - 1]);
                let is_block = block_of(first.start) == block_of(last.start);
                prop_assert!(is_block || batch.chunks() <= MOST_CHUNKS);
                prop_assert_eq!(batch.first(), first.start);
            }
        }
    }

    #[test]
    fn chunks_that_are_encoded_by_themselves_are_a_batch_each() {
        let dirty = numbers(vec![(3, 2)], vec![100]);
        let batches = Batches::of(&dirty, 1).unwrap();
        let runs: Vec<_> = batches.iter().map(|batch| batch.first()).collect();
        assert_eq!(runs, [3, 4, 100]);
    }
}
