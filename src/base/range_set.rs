//! A set of numbers (the bytes of a file, the chunks of an array) as ranges of them.
//!
//! As large as the number of ranges, however long they are; whoever adds those that a file or a
//! writer decides bounds [`RangeSet::ranges`] or charges it. Pure. Used by the floors above.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Ends by starts.
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= start
        {
            self.ends.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.ends.insert(start, end);
    }

    pub fn remove(&mut self, range: Range<u64>) {
        while let Some(found) = self.overlapping(&range) {
            self.ends.remove(&found.start);
            if found.end > range.end {
                self.ends.insert(range.end, found.end);
            }
            if found.start < range.start {
                self.ends.insert(found.start, range.start);
            }
        }
    }

    /// The last of the ranges that overlap this one, as a whole.
    pub fn overlapping(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let (&start, &end) = self.ends.range(..range.end).next_back()?;
        (end > range.start && !range.is_empty()).then_some(start..end)
    }

    /// Whether it has all of a range.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        let found = self.overlapping(range);
        range.is_empty() || found.is_some_and(|it| it.start <= range.start && range.end <= it.end)
    }

    /// What it has of a range, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ends.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(&start, _)| start);
        let found = self.ends.range(first..range.end.max(first));
        let clipped = found.map(move |(&from, &to)| from.max(range.start)..to.min(range.end));
        clipped.filter(|part| !part.is_empty())
    }

    /// What it has not of a range, in order.
    pub fn gaps(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = range.start;
        let behind = std::iter::once(range.end..range.end);
        let parts = self.within(range.clone()).chain(behind);
        let gaps = parts.map(move |part| std::mem::replace(&mut at, part.end)..part.start);
        gaps.filter(|gap| !gap.is_empty())
    }

    /// How many numbers it has.
    pub fn len(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    /// How many ranges they are.
    pub fn ranges(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }
}

impl From<Range<u64>> for RangeSet {
    fn from(range: Range<u64>) -> RangeSet {
        RangeSet::from_iter([range])
    }
}

impl Extend<Range<u64>> for RangeSet {
    fn extend<T: IntoIterator<Item = Range<u64>>>(&mut self, ranges: T) {
        ranges.into_iter().for_each(|range| self.insert(range));
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> RangeSet {
        let mut set = RangeSet::default();
        set.extend(ranges);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: usize = 100;

    /// Which of the first numbers some ranges have, none of them twice.
    fn map_of(ranges: impl Iterator<Item = Range<u64>>) -> [bool; ALL] {
        let (mut map, mut last) = ([false; ALL], None);
        for range in ranges {
            assert!(
                last < Some(range.start) && range.start < range.end,
                "{range:?}"
            );
            map[range.start as usize..range.end as usize].fill(true);
            last = Some(range.end);
        }
        map
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_numbers(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40),
            start in 0u64..80, len in 0u64..20,
        ) {
            let (mut set, mut map) = (RangeSet::default(), [false; ALL]);
            for (insert, at, len) in steps {
                match insert {
                    true => set.insert(at..at + len),
                    false => set.remove(at..at + len),
                }
                map[at as usize..(at + len) as usize].fill(insert);
            }
            prop_assert_eq!(map_of(set.iter()), map);
            prop_assert_eq!(&set.iter().collect::<RangeSet>(), &set);
            prop_assert_eq!(set.len(), map.iter().filter(|has| **has).count() as u64);
            prop_assert_eq!((set.ranges(), set.is_empty()), (set.iter().count(), !map.contains(&true)));
            let range = start..start + len;
            let part = &map[start as usize..(start + len) as usize];
            prop_assert_eq!(set.contains(&range), !part.contains(&false));
            let has = |at: usize, has: bool| range.contains(&(at as u64)) && map[at] == has;
            prop_assert_eq!(map_of(set.within(range.clone())), std::array::from_fn(|at| has(at, true)));
            prop_assert_eq!(map_of(set.gaps(&range)), std::array::from_fn(|at| has(at, false)));
            let last = set.iter().filter(|it| it.start < range.end && it.end > range.start && len > 0);
            prop_assert_eq!(set.overlapping(&range), last.last());
        }
    }
}
