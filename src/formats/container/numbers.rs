//! Sets of numbers, as ranges: the chunks of an array that have changed, or its bytes.
//!
//! As large as the number of ranges, however long they are. Pure. Used by the formats' recipes.

use std::ops::Range;

/// Numbers in rising order, as ranges that do not touch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Each with how many numbers come before it.
    runs: Vec<(u64, Range<u64>)>,
}

impl Numbers {
    pub(crate) fn of(mut ranges: Vec<Range<u64>>) -> Numbers {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        let mut numbers = Numbers::default();
        for range in ranges {
            match numbers.runs.last_mut() {
                Some((_, last)) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => {
                    let before = numbers.count();
                    numbers.runs.push((before, range));
                }
            }
        }
        numbers
    }

    pub(crate) fn one(number: u64) -> Numbers {
        let run = number..number.saturating_add(1);
        Numbers {
            runs: vec![(0, run)],
        }
    }

    pub(crate) fn count(&self) -> u64 {
        let last = self.runs.last();
        last.map_or(0, |(before, run)| before + (run.end - run.start))
    }

    /// The n-th of them, counted from 0.
    pub(crate) fn get(&self, n: u64) -> Option<u64> {
        let at = self.runs.partition_point(|(before, _)| *before <= n);
        let (before, run) = self.runs.get(at.checked_sub(1)?)?;
        let number = run.start + (n - before);
        (number < run.end).then_some(number)
    }

    /// As ranges that do not touch.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs.iter().map(|(_, run)| run.clone())
    }

    /// Those of a range, as ranges that do not touch.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.runs.partition_point(|(_, run)| run.end <= range.start);
        let runs = self.runs[first..].iter().map(|(_, run)| run);
        runs.take_while(move |run| run.start < range.end)
            .map(move |run| run.start.max(range.start)..run.end.min(range.end))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|(_, run)| run.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_all_ranges(
            ranges in proptest::collection::vec((0u64..60, 0u64..9), 0..12), from in 0u64..70, len in 0u64..30,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let expected: std::collections::BTreeSet<u64> = ranges.iter().flat_map(Clone::clone).collect();
            let numbers = Numbers::of(ranges);
            let expected: Vec<u64> = expected.into_iter().collect();
            prop_assert_eq!(numbers.iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(numbers.count(), expected.len() as u64);
            for (n, number) in expected.iter().enumerate() {
                prop_assert_eq!(numbers.get(n as u64), Some(*number));
            }
            prop_assert_eq!(numbers.get(expected.len() as u64), None);
            prop_assert_eq!(numbers.is_empty(), expected.is_empty());
            prop_assert_eq!(numbers.runs().flatten().collect::<Vec<_>>(), expected.clone());
            let some = numbers.within(from..from + len).flatten().collect::<Vec<_>>();
            let within: Vec<u64> = expected.into_iter().filter(|n| (from..from + len).contains(n)).collect();
            prop_assert_eq!(some, within);
        }
    }
}
