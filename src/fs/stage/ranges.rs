//! A set of byte ranges: which bytes of an array the log does not have yet. Pure; used by
//! [`super::layer`].

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// Starts and ends.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.start >= range.end {
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

    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        while let Some((&from, &to)) = self.ends.range(..range.end).next_back()
            && to > range.start
        {
            self.ends.remove(&from);
            if to > range.end {
                self.ends.insert(range.end, to);
            }
            if from < range.start {
                self.ends.insert(from, range.start);
            }
        }
    }

    /// The first part of the set that lies within a range.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<Range<u64>> {
        if range.start >= range.end {
            return None;
        }
        let clip = |(&from, &to): (&u64, &u64)| from.max(range.start)..to.min(range.end);
        let before = self.ends.range(..=range.start).next_back();
        let before = before.filter(|&(_, &to)| to > range.start).map(clip);
        before.or_else(|| self.ends.range(range.clone()).next().map(clip))
    }

    /// Of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.ends.iter().map(|(from, to)| to - from).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(&from, &to)| from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40),
            from in 0u64..80,
            len in 0u64..30,
        ) {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 100]);
            for (insert, at, len) in steps {
                match insert {
                    true => ranges.insert(at..at + len),
                    false => ranges.remove(at..at + len),
                }
                bytes[at as usize..(at + len) as usize].fill(insert);
            }
            let mut found = [false; 100];
            let mut last = None;
            for range in ranges.iter() {
                prop_assert!(last < Some(range.start) && range.start < range.end, "{ranges:?}");
                found[range.start as usize..range.end as usize].fill(true);
                last = Some(range.end);
            }
            prop_assert_eq!(found, bytes);
            let first = ranges.first_in(from..from + len);
            let expected = (from..from + len).find(|&at| bytes.get(at as usize) == Some(&true));
            prop_assert_eq!(first.as_ref().map(|first| first.start), expected);
            if let Some(first) = first {
                let end = (first.start..from + len).find(|&at| !bytes[at as usize]);
                prop_assert_eq!(first.end, end.unwrap_or(from + len));
            }
        }
    }
}
