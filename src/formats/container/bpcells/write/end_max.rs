//! `end_max`: for every 128 fragments a bound of their ends, by which readers seek
//! (docs/formats.md).
//!
//! Exactly what the real program stores: a maximum that runs over a chromosome, and over the
//! chromosomes that have ended since the last entry. So a chromosome that ends where an entry does
//! counts for the next entry, too. Used by `recipe`.

use std::ops::Range;
use std::sync::Arc;

use super::chromosomes::Chromosomes;
use super::member_writer::MemberWriter;
use super::merged::MergedArray;
use super::spaces::{lent, read_step, steps};
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::fragments::RUN;
use crate::container::writable::{MemberNumber, Recipe};
use crate::error::Result;
use crate::memory::block::Workspace;
use crate::memory::budget::Budget;
use crate::source::Source;

pub(super) struct MaximaPlan<'a> {
    pub(super) file: MemberNumber,
    pub(super) source: Option<Arc<dyn Source>>,
    pub(super) ends: MergedArray<'a>,
    pub(super) pointers: MergedArray<'a>,
}

impl MaximaPlan<'_> {
    /// Shown bytes of what it comes to.
    pub(super) fn len(&self) -> u64 {
        self.ends.count().div_ceil(RUN) * Number::U32.width()
    }

    /// What reading them takes.
    pub(super) fn lent(&self) -> Result<u64> {
        let of = |array: &MergedArray<'_>| lent(array.shown, 0..array.len);
        Ok(of(&self.ends)?.max(of(&self.pointers)?))
    }

    /// Where chromosomes begin takes memory of its own.
    pub(super) fn tell(
        &self,
        space: &mut Workspace,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let chromosomes = Chromosomes::read(&self.pointers, space, budget)?;
        let mut file = MemberWriter::new(self.file, self.source.clone())?;
        file.header(Number::U32, write)?;
        let mut maxima = RunningMaxima::new(&chromosomes);
        for step in steps(0..self.ends.len) {
            let ends = read_step(self.ends.shown, &step, space)?;
            maxima.add(ends.as_chunks().0, &mut |max| {
                file.put(&max.to_le_bytes(), write)
            })?;
        }
        if let Some(max) = maxima.last() {
            file.put(&max.to_le_bytes(), write)?;
        }
        file.end(write)
    }
}

struct RunningMaxima<'a> {
    begins: std::iter::Peekable<Box<dyn Iterator<Item = u64> + 'a>>,
    /// Number of the next fragment.
    at: u64,
    /// Of the chromosome.
    max: u32,
    /// Of those that have ended since the last entry.
    ended: u32,
}

impl<'a> RunningMaxima<'a> {
    fn new(chromosomes: &'a Chromosomes) -> RunningMaxima<'a> {
        let begins: Box<dyn Iterator<Item = u64>> = Box::new(chromosomes.begins());
        RunningMaxima {
            begins: begins.peekable(),
            at: 0,
            max: 0,
            ended: 0,
        }
    }

    /// Adds ends, and emits the entries that they fill.
    fn add(&mut self, mut ends: &[[u8; 4]], emit: &mut dyn FnMut(u32) -> Result<()>) -> Result<()> {
        while !ends.is_empty() {
            while self.begins.next_if(|&begin| begin <= self.at).is_some() {
                self.ended = self.ended.max(self.max);
                self.max = 0;
            }
            let (same, rest) = ends.split_at(self.until_next(ends.len()));
            let max = same.iter().map(|end| u32::from_le_bytes(*end)).max();
            self.max = self.max.max(max.unwrap_or(0));
            self.at += same.len() as u64;
            ends = rest;
            if self.at.is_multiple_of(RUN) {
                emit(self.max.max(self.ended))?;
                self.ended = 0;
            }
        }
        Ok(())
    }

    /// So many of the next fragments belong to one chromosome and one entry.
    fn until_next(&mut self, most: usize) -> usize {
        let of_entry = RUN - self.at % RUN;
        let begin = self.begins.peek().map_or(u64::MAX, |begin| begin - self.at);
        let together: Range<u64> = 0..of_entry.min(begin);
        together.end.min(most as u64) as usize
    }

    /// The entry that is not full.
    fn last(&self) -> Option<u32> {
        let open = !self.at.is_multiple_of(RUN);
        open.then(|| self.max.max(self.ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as the fact sheet says it.
    fn naive(ends: &[u32], begins: &[u64]) -> Vec<u32> {
        let (mut max, mut ended, mut maxima) = (0, 0, Vec::new());
        for (at, end) in ends.iter().enumerate() {
            if begins.contains(&(at as u64)) {
                ended = max.max(ended);
                max = 0;
            }
            max = max.max(*end);
            if (at + 1).is_multiple_of(128) {
                maxima.push(max.max(ended));
                ended = 0;
            }
        }
        if !ends.len().is_multiple_of(128) {
            maxima.push(max.max(ended));
        }
        maxima
    }

    proptest! {
        #[test]
        fn steps_do_not_matter(
            ends in proptest::collection::vec(0u32..1000, 0..700),
            cuts in proptest::collection::vec(prop_oneof![0u64..700, (0u64..6).prop_map(|n| 128 * n)], 0..6),
            step in 1usize..300,
        ) {
            let mut pairs: Vec<(u64, u64)> = cuts.iter().map(|&cut| (cut, cut + 1)).collect();
            pairs.sort_unstable();
            let chromosomes = Chromosomes::of(pairs);
            let mut maxima = RunningMaxima::new(&chromosomes);
            let mut found = Vec::new();
            let bytes: Vec<[u8; 4]> = ends.iter().map(|end| end.to_le_bytes()).collect();
            for part in bytes.chunks(step) {
                maxima.add(part, &mut |max| { found.push(max); Ok(()) }).unwrap();
            }
            found.extend(maxima.last());
            prop_assert_eq!(found, naive(&ends, &cuts));
        }
    }
}
