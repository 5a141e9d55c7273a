//! Recognises a reader that goes through an array in even strides: a pixel of each frame, a column
//! of a table.
//!
//! Each of its reads needs another block, and of a source that is far away each block is a round
//! trip; so those of the next reads are asked for together. Places may be off by a page or so,
//! for the kernel reads whole pages. A part of [`super::prefetch`].

use std::ops::Range;

/// Reads at even distances before it counts as a stride.
const SEEN: u64 = 3;
/// Reads ahead, at first and at most.
const FEWEST: u64 = 4;
const MOST: u64 = 64;
/// So far from its place a read may begin.
const OFF: u64 = 8 << 10;

/// Where the reads of a stride began.
#[derive(Debug, Default)]
pub(super) struct StridedReads {
    first: u64,
    last: u64,
    /// Reads behind the first.
    count: u64,
    /// How many reads ahead, and up to which they have been asked for.
    window: u64,
    ordered: u64,
    /// So far from their places reads may begin: not at all, as long as none did.
    off: u64,
}

impl StridedReads {
    /// A read that goes on with no sequence, of about so many bytes; gives what to ask for, at most
    /// `most` places. `size` is the array's.
    pub(super) fn note(&mut self, start: u64, len: u64, size: u64, most: u64) -> Vec<Range<u64>> {
        if !self.fits(start) {
            let goes_back = start <= self.last;
            *self = StridedReads {
                first: if goes_back { start } else { self.last },
                count: u64::from(!goes_back),
                last: start,
                ..StridedReads::default()
            };
            return Vec::new();
        }
        let expected = self.place(self.count + 1);
        if start != expected {
            self.off = OFF;
        }
        (self.last, self.count) = (start, self.count + 1);
        if self.count < SEEN {
            return Vec::new();
        }
        let window = (self.window * 2).clamp(FEWEST, MOST).min(most);
        let from = self.ordered.max(self.count) + 1;
        let to = self.count + window;
        if to < from || to - from < window / 2 {
            return Vec::new();
        }
        (self.window, self.ordered) = (window, to);
        let begins = (from..=to).map(|number| self.place(number));
        let inside = begins.take_while(|begin| *begin < size);
        inside
            .map(|begin| {
                let end = begin.saturating_add(len).saturating_add(self.off);
                begin.saturating_sub(self.off)..end.min(size)
            })
            .collect()
    }

    /// Whether what is read between two places belongs to the first of them.
    pub(super) fn is_recognised(&self) -> bool {
        self.count >= SEEN
    }

    fn fits(&self, start: u64) -> bool {
        let expected = self.place(self.count + 1);
        self.count > 0 && start > self.last && start.abs_diff(expected) <= OFF
    }

    /// Where a read begins, by those that were.
    fn place(&self, number: u64) -> u64 {
        let all = u128::from(self.last.saturating_sub(self.first)) * u128::from(number);
        let behind = all / u128::from(self.count.max(1));
        let behind = u64::try_from(behind).unwrap_or(u64::MAX);
        self.first.saturating_add(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn page_of(at: u64) -> u64 {
        at / PAGE * PAGE
    }

    #[test]
    fn every_read_of_a_stride_but_the_first_is_asked_for_once() {
        for stride in [24_000, 1 << 20, (3 << 20) + 8] {
            let (mut reads, mut asked) = (StridedReads::default(), Vec::new());
            let size = 500 * stride;
            for number in 0..500 {
                let start = page_of(number * stride + 40);
                if number > SEEN {
                    let is_asked = |range: &Range<u64>| {
                        range.start <= start && start + PAGE.min(size - start) <= range.end
                    };
                    let count = asked.iter().filter(|range| is_asked(range)).count();
                    assert!((1..=2).contains(&count), "{number} of {stride}: {count}");
                }
                asked.extend(reads.note(start, PAGE, size, MOST));
            }
            assert!(asked.iter().all(|range| range.end <= size));
            assert!(asked.len() <= 500);
        }
    }

    #[test]
    fn reads_without_an_order_ask_for_nothing() {
        let mut reads = StridedReads::default();
        for number in 0..1000u64 {
            let start = number * 7919 % 1000 * (1 << 20);
            assert!(reads.note(start, PAGE, 1 << 30, MOST).is_empty());
        }
    }

    #[test]
    fn no_more_places_than_there_is_memory_for() {
        let mut reads = StridedReads::default();
        let asked = (0..100).map(|number| reads.note(number << 20, PAGE, 1 << 30, 5));
        assert!(asked.map(|ranges| ranges.len()).max() <= Some(5));
        assert!(reads.note(u64::MAX, PAGE, u64::MAX, 5).is_empty());
    }
}
