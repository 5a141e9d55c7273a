//! Sets of places in a file, as ranges that are added and taken away. Pure. Used by
//! [`super::edit_recipe`].

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch, which can be added to and taken from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, last)) = self.0.range(..start).next_back()
            && *last >= start
        {
            (start, end) = (*before, end.max(*last));
        }
        while let Some((&next, &last)) = self.0.range(start..=end).next() {
            self.0.remove(&next);
            end = end.max(last);
        }
        self.0.insert(start, end);
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        while let Some(found) = self.overlapping(&range) {
            self.0.remove(&found.start);
            if found.start < range.start {
                self.0.insert(found.start, range.start);
            }
            if found.end > range.end {
                self.0.insert(range.end, found.end);
            }
        }
    }

    /// The last of the ranges that overlap this one.
    pub(super) fn overlapping(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let (start, end) = self.0.range(..range.end).next_back()?;
        (*end > range.start && !range.is_empty()).then_some(*start..*end)
    }

    /// The parts of a range that none of them has.
    pub(super) fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let before = self.0.range(..range.start).next_back();
        let within = self.0.range(range.clone());
        let (mut gaps, mut at) = (Vec::new(), range.start);
        for (start, end) in before.into_iter().chain(within) {
            if *start > at {
                gaps.push(at..*start);
            }
            at = at.max(*end);
        }
        gaps.extend((at < range.end).then_some(at..range.end));
        gaps
    }

    pub(super) fn contains(&self, range: &Range<u64>) -> bool {
        let found = self.overlapping(range);
        found.is_some_and(|found| found.start <= range.start && range.end <= found.end)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn intervals_hold_what_was_added_and_not_removed(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..40),
            start in 0u64..70, len in 0u64..10,
        ) {
            let (mut intervals, mut held) = (Intervals::default(), [false; 100]);
            for (add, at, len) in steps {
                match add {
                    true => intervals.add(at..at + len),
                    false => intervals.remove(at..at + len),
                }
                held[at as usize..(at + len) as usize].fill(add);
            }
            let mut found = [false; 100];
            let mut last = None;
            for range in intervals.iter() {
                prop_assert!(last.is_none_or(|last| last < range.start) && !range.is_empty());
                last = Some(range.end);
                found[range.start as usize..range.end as usize].fill(true);
            }
            prop_assert_eq!(found, held);
            let range = start..start + len;
            let part = &held[start as usize..(start + len) as usize];
            prop_assert_eq!(intervals.overlapping(&range).is_some(), part.contains(&true));
            prop_assert_eq!(intervals.contains(&range), len > 0 && !part.contains(&false));
            let mut gaps = [false; 100];
            for gap in intervals.gaps(&range) {
                prop_assert!(!gap.is_empty());
                gaps[gap.start as usize..gap.end as usize].fill(true);
            }
            let expected = (0..100).map(|at| range.contains(&at) && !held[at as usize]);
            prop_assert!(expected.eq(gaps));
        }
    }
}
