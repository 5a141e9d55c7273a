//! Which stored bytes a request is going to read, named before they are read.
//!
//! A source that is far away takes as long for a byte as for a megabyte, so it is told of all
//! ranges of a request at once ([`Source::expect`]). What lies at hand is read when it is needed,
//! and not noted. Filled by `array::Array::stored`, handed over by `array::fetcher`.

use std::ops::Range;
use std::sync::Arc;

use super::Source;
use crate::range_set::RangeSet;

/// Ranges that are noted of a source at most; of more, the rest is fetched when it is read.
const MOST: usize = 8192;

/// Ranges of far sources, by source.
#[derive(Default)]
pub struct StoredRanges {
    sources: Vec<(Arc<dyn Source>, RangeSet)>,
}

impl StoredRanges {
    /// Names bytes that will be read. One that is not noted for want of room is read by itself.
    pub fn name(&mut self, source: &Arc<dyn Source>, range: Range<u64>) {
        let range = range.start..range.end.min(source.len());
        if source.is_far()
            && !range.is_empty()
            && let Some(ranges) = self.of(source)
        {
            ranges.insert(range.clone());
            if ranges.ranges() > MOST {
                ranges.remove(range);
            }
        }
    }

    fn of(&mut self, source: &Arc<dyn Source>) -> Option<&mut RangeSet> {
        let mut known = self.sources.iter();
        let place = known.position(|(known, _)| Arc::ptr_eq(known, source));
        if place.is_none() {
            self.sources.try_reserve(1).ok()?;
            self.sources.push((Arc::clone(source), RangeSet::default()));
        }
        let last = self.sources.len() - 1;
        Some(&mut self.sources[place.unwrap_or(last)].1)
    }

    /// Tells each source what is expected of it, in order and without gaps that are none.
    pub fn hand_over(self) {
        for (source, ranges) in self.sources {
            source.expect(&ranges.iter().collect::<Vec<_>>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BytesSource, memory::FarSource};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_lies_at_hand_is_not_noted() {
        let near: Arc<dyn Source> = Arc::new(BytesSource::new(vec![0; 100]));
        let mut needed = StoredRanges::default();
        needed.name(&near, 0..10);
        assert!(needed.sources.is_empty());
    }

    #[test]
    fn so_many_ranges_are_noted_and_no_more() {
        let far = Arc::new(FarSource::new(vec![0; 1 << 20], 0));
        let source: Arc<dyn Source> = far.clone();
        let mut needed = StoredRanges::default();
        let last = 2 * MOST as u64;
        (0..last).for_each(|number| needed.name(&source, 4 * number..4 * number + 1));
        needed.hand_over();
        assert_eq!(far.told().len(), MOST);
        // Those that are one count as one.
        let mut needed = StoredRanges::default();
        let apart = (0..last).rev();
        apart.for_each(|number| needed.name(&source, 2 * number..2 * number + 3));
        needed.hand_over();
        assert_eq!(far.told().last(), Some(&(0..2 * last + 1)));
    }

    proptest! {
        #[test]
        fn each_source_is_told_once_of_what_is_named_and_of_nothing_else(
            named in proptest::collection::vec((0usize..2, 0u64..90, 0u64..30), 0..20),
        ) {
            let far = [0, 1].map(|_| Arc::new(FarSource::new(vec![0; 100], 0)));
            let sources = far.clone().map(|far| far as Arc<dyn Source>);
            let mut needed = StoredRanges::default();
            for (which, start, len) in &named {
                needed.name(&sources[*which], *start..start + len);
            }
            needed.hand_over();
            for (which, far) in far.iter().enumerate() {
                let is_named = |at: u64| named.iter().any(|&(of, start, len)| {
                    of == which && (start..start + len).contains(&at)
                });
                let told = far.told();
                prop_assert!(told.windows(2).all(|pair| pair[0].end < pair[1].start));
                for at in 0..100 {
                    let is_told = told.iter().any(|range| range.contains(&at));
                    prop_assert_eq!(is_told, is_named(at));
                }
            }
        }
    }
}
