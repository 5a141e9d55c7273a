//! Where the bytes of an array lie in a file: runs of one length, equally far apart.
//!
//! Pure. The places of a sound file never overflow: whoever makes a [`Runs`] has held the end of
//! the array against what a file can be. Used by [`super`] and the formats.

use crate::range_set::RangeSet;
use std::ops::Range;

/// Runs that are no farther apart are written with what lies between them.
pub(super) const NEAR: u64 = 4 << 10;

/// Byte `at` of the array lies at `begin + at / run * stride + at % run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) begin: u64,
    /// Bytes of a run; not 0.
    pub(crate) run: u64,
    /// From one run to the next; at least `run`. The same: the array is one run of any length.
    pub(crate) stride: u64,
}

impl Runs {
    /// An array whose bytes follow each other.
    pub(crate) fn whole(begin: u64) -> Runs {
        Runs {
            begin,
            run: 1,
            stride: 1,
        }
    }

    pub(crate) fn offset(&self, at: u64) -> u64 {
        let whole = (at / self.run).saturating_mul(self.stride);
        self.begin
            .saturating_add(whole)
            .saturating_add(at % self.run)
    }

    /// The first byte of the array that lies at a place of the file, or behind it.
    pub(super) fn first_from(&self, place: u64) -> u64 {
        let behind = place.saturating_sub(self.begin);
        let run = (behind / self.stride).saturating_mul(self.run);
        run.saturating_add((behind % self.stride).min(self.run))
    }

    /// The first place from `place` on where one of these bytes lies, and how far they go on, with
    /// what is near them.
    pub(super) fn next(&self, bytes: &RangeSet, place: u64) -> Option<Range<u64>> {
        let found = bytes.within(self.first_from(place)..u64::MAX).next()?;
        let start = self.offset(found.start);
        let end = match self.stride - self.run <= NEAR {
            true => found.end,
            false => found.end.min((found.start / self.run + 1) * self.run),
        };
        Some(start..self.offset(end - 1).saturating_add(1))
    }

    /// The bytes of the array that lie in a range of the file, as one range.
    pub(super) fn within(&self, places: &Range<u64>) -> Range<u64> {
        self.first_from(places.start)..self.first_from(places.end)
    }

    /// Copies the bytes of the array from `at` on to where they belong in a part of the file that
    /// begins at `start`.
    pub(super) fn scatter(&self, mut at: u64, mut from: &[u8], (start, to): (u64, &mut [u8])) {
        while !from.is_empty() {
            let left = match self.stride == self.run {
                true => from.len(),
                false => (self.run - at % self.run).min(from.len() as u64) as usize,
            };
            let place = self.offset(at).saturating_sub(start) as usize;
            let (now, later) = from.split_at(left);
            if let Some(to) = to.get_mut(place..place.saturating_add(left)) {
                to.copy_from_slice(now);
            }
            at += left as u64;
            from = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_is_found_where_it_lies(
            begin in 0u64..20, run in 1u64..9, gap in 0u64..9, at in 0u64..200, place in 0u64..300,
        ) {
            let runs = Runs { begin, run, stride: run + gap };
            let offset = runs.offset(at);
            prop_assert_eq!(runs.first_from(offset), at);
            prop_assert!(offset >= begin + at);
            let first = runs.first_from(place);
            prop_assert!(runs.offset(first) >= place);
            prop_assert!(first == 0 || runs.offset(first - 1) < place);
        }

        #[test]
        fn bytes_are_scattered_to_their_places(
            run in 1u64..5, gap in 0u64..5, at in 0u64..20, len in 0usize..40,
        ) {
            let runs = Runs { begin: 3, run, stride: run + gap };
            let from: Vec<u8> = (1..=len as u8).collect();
            let mut to = vec![0; 400];
            runs.scatter(at, &from, (3, &mut to));
            let mut expected = vec![0; 400];
            for (n, byte) in from.iter().enumerate() {
                expected[(runs.offset(at + n as u64) - 3) as usize] = *byte;
            }
            prop_assert_eq!(to, expected);
        }

        #[test]
        fn what_is_next_begins_with_such_a_byte(
            gap in 0u64..9, first in 0u64..50, len in 1u64..50, place in 0u64..200,
        ) {
            let runs = Runs { begin: 5, run: 4, stride: 4 + gap };
            let bytes = RangeSet::from(first..first + len);
            let behind = |at: &u64| runs.offset(*at) >= place;
            let expected = (first..first + len).find(behind);
            let found = runs.next(&bytes, place);
            prop_assert_eq!(found.as_ref().map(|found| found.start), expected.map(|at| runs.offset(at)));
            if let Some(found) = found {
                prop_assert_eq!(found.end, runs.offset(first + len - 1) + 1);
            }
        }
    }

    #[test]
    fn runs_that_are_far_apart_are_written_one_by_one() {
        let runs = Runs {
            begin: 0,
            run: 8,
            stride: 1 << 20,
        };
        let bytes = RangeSet::from(4..20);
        assert_eq!(runs.next(&bytes, 0), Some(4..8));
        assert_eq!(runs.next(&bytes, 8), Some(1 << 20..(1 << 20) + 8));
        assert_eq!(runs.next(&bytes, (2 << 20) + 4), None);
    }
}
