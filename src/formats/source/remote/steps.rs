//! How much is asked for of what was not expected: structure of files, and files shown as they are.
//!
//! The first step is 1 MiB. While reads go on near the last step, each is twice as long as the one
//! before; a reader that goes through a file in sequence finds the next step asked for before it
//! needs it. Used by [`super::object`].

use std::ops::Range;

const FIRST: u64 = 1 << 20;
const LONGEST: u64 = 16 << 20;
/// What lies before a byte that is read is likely to be read as well, so much of it.
const ALIGN: u64 = 64 << 10;

pub(super) struct Steps {
    size: u64,
    /// What was asked for last.
    last: Range<u64>,
    step: u64,
}

impl Steps {
    pub(super) fn new(size: u64) -> Steps {
        Steps {
            size,
            last: 0..0,
            step: 0,
        }
    }

    /// What to ask for when this is read; none: nothing more.
    pub(super) fn next(&mut self, read: &Range<u64>, is_missing: bool) -> Option<Range<u64>> {
        let reach = self.step.saturating_mul(2);
        let is_near = read.start <= self.last.end.saturating_add(reach)
            && read.end.saturating_add(reach) >= self.last.start
            && self.step > 0;
        if !is_missing {
            // In the second half of the last step, on the way to its end.
            let is_within = self.last.contains(&read.start);
            let is_late = read.end.saturating_add(self.step / 2) >= self.last.end;
            let goes_on = is_within && is_late && self.step > FIRST && self.last.end < self.size;
            return goes_on.then(|| self.take(self.last.end, 0));
        }
        self.step = match is_near {
            true => self.step,
            false => 0,
        };
        let start = read.start - read.start % ALIGN;
        Some(self.take(start, read.end - start))
    }

    fn take(&mut self, start: u64, least: u64) -> Range<u64> {
        self.step = self.step.saturating_mul(2).clamp(FIRST, LONGEST);
        let end = start.saturating_add(self.step.max(least)).min(self.size);
        self.last = start..end;
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn steps_grow_near_each_other_and_begin_again_elsewhere() {
        let mut steps = Steps::new(1000 * MIB);
        assert_eq!(steps.next(&(MIB + 1..MIB + 9), true), Some(MIB..2 * MIB));
        assert_eq!(
            steps.next(&(3 * MIB..3 * MIB + 9), true),
            Some(3 * MIB..5 * MIB)
        );
        assert_eq!(steps.next(&(0..9), true), Some(0..4 * MIB));
        assert_eq!(
            steps.next(&(500 * MIB..500 * MIB + 9), true),
            Some(500 * MIB..501 * MIB)
        );
        assert_eq!(steps.next(&(500 * MIB..500 * MIB + 9), false), None);
    }

    #[test]
    fn who_reads_in_sequence_finds_the_next_step_asked_for() {
        let size = 100 * MIB;
        let mut steps = Steps::new(size);
        let (mut asked, mut waits) = (0, 0);
        for at in (0..size).step_by(MIB as usize / 8) {
            let read = at..at + MIB / 8;
            let is_missing = read.end > asked;
            waits += u32::from(is_missing);
            if let Some(next) = steps.next(&read, is_missing) {
                assert!(next.start <= asked && next.end > asked);
                asked = next.end;
            }
        }
        assert_eq!(asked, size);
        assert!(waits <= 2, "{waits}");
    }
}
