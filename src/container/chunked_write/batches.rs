//! Which blocks of a stream are encoded together: handing one over to another thread takes longer than encoding the few
//! chunks that may have changed of it.
//!
//! Used by `stream`.

use std::ops::Range;

use super::spaces::CHUNKS;
use crate::container::numbers::Numbers;
use crate::error::Result;
use crate::memory::fallible;

/// A batch of several blocks has at most so many changed chunks, and so many blocks.
const MOST_CHUNKS: u64 = 64;
const MOST_BLOCKS: u64 = 64;

/// With more changed chunks, on the average, every block is a batch.
const DENSE: u64 = CHUNKS / 4;

pub(super) struct Batches {
    /// Those with changed chunks.
    blocks: Numbers,
    /// Which of them is the first of each batch; none: each block is one.
    firsts: Option<Vec<u64>>,
}

impl Batches {
    /// `dirty`: the chunks that have changed.
    pub(super) fn of(dirty: &Numbers) -> Result<Batches> {
        let block = |run: Range<u64>| run.start / CHUNKS..run.end.div_ceil(CHUNKS);
        let blocks = Numbers::of(dirty.runs().map(block).collect());
        if dirty.count() / blocks.count().max(1) >= DENSE {
            let firsts = None;
            return Ok(Batches { blocks, firsts });
        }
        let (mut firsts, mut of_batch) = (Vec::new(), 0);
        for (n, block) in (0..).zip(blocks.iter()) {
            let runs = dirty.within(chunks_of(block));
            let chunks: u64 = runs.map(|run| run.end - run.start).sum();
            let first = firsts.last().copied();
            let fits = of_batch + chunks <= MOST_CHUNKS;
            if first.is_some_and(|first| fits && n - first < MOST_BLOCKS) {
                of_batch += chunks;
            } else {
                fallible::push(&mut firsts, n, "cannot write a container")?;
                of_batch = chunks;
            }
        }
        let firsts = Some(firsts);
        Ok(Batches { blocks, firsts })
    }

    pub(super) fn count(&self) -> u64 {
        let batches = self.firsts.as_ref().map(|firsts| firsts.len() as u64);
        batches.unwrap_or_else(|| self.blocks.count())
    }

    /// The blocks of a batch.
    pub(super) fn blocks(&self, batch: u64) -> impl Iterator<Item = u64> + '_ {
        let range = match &self.firsts {
            None => batch..batch + 1,
            Some(firsts) => {
                let at = |batch: u64| firsts.get(usize::try_from(batch).unwrap_or(usize::MAX));
                let end = at(batch + 1).copied().unwrap_or(self.blocks.count());
                at(batch).copied().unwrap_or(end)..end
            }
        };
        range.filter_map(|n| self.blocks.get(n))
    }

    /// All blocks.
    pub(super) fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter()
    }
}

fn chunks_of(block: u64) -> Range<u64> {
    let start = block.saturating_mul(CHUNKS);
    start..start.saturating_add(CHUNKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_block_is_in_one_batch_in_order(
            runs in proptest::collection::vec((0u64..60 * CHUNKS, 1u64..3 * CHUNKS / 2), 0..6),
            single in proptest::collection::vec(0u64..900 * CHUNKS, 0..200),
        ) {
            let runs = runs.into_iter().map(|(start, len)| start..start + len);
            let dirty = Numbers::of(runs.chain(single.into_iter().map(|one| one..one + 1)).collect());
            let batches = Batches::of(&dirty).unwrap();
            let of_batches = (0..batches.count()).flat_map(|batch| batches.blocks(batch).collect::<Vec<_>>());
            prop_assert_eq!(of_batches.collect::<Vec<_>>(), batches.all().collect::<Vec<_>>());
            let blocks: std::collections::BTreeSet<u64> = dirty.iter().map(|chunk| chunk / CHUNKS).collect();
            prop_assert_eq!(batches.all().collect::<Vec<_>>(), blocks.into_iter().collect::<Vec<_>>());
            for batch in 0..batches.count() {
                let blocks: Vec<u64> = batches.blocks(batch).collect();
                let chunks = |block: &u64| dirty.within(chunks_of(*block)).map(|run| run.end - run.start).sum::<u64>();
                let all: u64 = blocks.iter().map(chunks).sum();
                prop_assert!(!blocks.is_empty());
                prop_assert!(blocks.len() == 1 || all <= MOST_CHUNKS && blocks.len() as u64 <= MOST_BLOCKS);
            }
        }
    }
}
