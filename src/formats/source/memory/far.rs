//! A file that is far away, as far as it can be told: it counts what is asked for. Used by tests.

use std::ops::Range;

use super::BytesSource;
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::{Fetch, Source, SourceIdentity};
use crate::sync::Mutex;

/// Ranges with gaps up to this between them are asked for at once.
pub(crate) const GAP: u64 = 256 << 10;

pub(crate) struct FarSource {
    bytes: BytesSource,
    gap: u64,
    state: Mutex<FarState>,
}

#[derive(Default)]
struct FarState {
    told: Vec<Range<u64>>,
    /// What has been asked for.
    there: RangeSet,
    requests: FarRequests,
}

/// What has been asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FarRequests {
    /// Of ranges that were told before.
    pub(crate) gathered: u64,
    /// Of what was not.
    pub(crate) alone: u64,
    /// Of all of them.
    pub(crate) bytes: u64,
}

impl FarSource {
    pub(crate) fn new(bytes: Vec<u8>, gap: u64) -> FarSource {
        FarSource::of(BytesSource::new(bytes), gap)
    }

    pub(super) fn of(bytes: BytesSource, gap: u64) -> FarSource {
        FarSource {
            bytes,
            gap,
            state: Mutex::default(),
        }
    }

    /// All that it was told.
    pub(crate) fn told(&self) -> Vec<Range<u64>> {
        self.state.lock().told.clone()
    }

    /// What has been asked for since this was last called.
    pub(crate) fn take_requests(&self) -> FarRequests {
        std::mem::take(&mut self.state.lock().requests)
    }

    /// Nothing is there any more.
    pub(crate) fn forget(&self) {
        self.state.lock().there = RangeSet::default();
    }
}

impl FarState {
    fn ask(&mut self, range: Range<u64>) {
        self.requests.bytes += range.end - range.start;
        self.there.insert(range);
    }
}

impl Source for FarSource {
    fn len(&self) -> u64 {
        self.bytes.len()
    }

    fn identity(&self) -> SourceIdentity {
        self.bytes.identity()
    }

    fn is_far(&self) -> bool {
        true
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        let mut state = self.state.lock();
        state.told.extend(ranges.iter().cloned());
        let mut wanted = ranges.to_vec();
        wanted.retain(|range| !state.there.contains(range));
        wanted.dedup_by(|next, before| {
            let joins = next.start <= before.end.saturating_add(self.gap);
            if joins {
                before.end = next.end;
            }
            joins
        });
        for range in wanted {
            state.requests.gathered += 1;
            state.ask(range);
        }
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        for range in &*ranges {
            let range = range.offset..range.offset.saturating_add(range.buf.len() as u64);
            let mut state = self.state.lock();
            if !state.there.contains(&range) {
                state.requests.alone += 1;
                state.ask(range);
            }
        }
        self.bytes.fetch(ranges)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.bytes.read(offset, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_asked_for_again() {
        let far = FarSource::new(vec![7; 1000], 10);
        far.expect(&[0..10, 20..30, 41..50]);
        let mut buf = [0; 30];
        far.fetch_one(0, &mut buf).unwrap();
        far.fetch_one(5, &mut buf).unwrap();
        far.expect(&[0..30, 30..35]);
        let requests = FarRequests {
            gathered: 2,
            alone: 1,
            bytes: 30 + 9 + 30,
        };
        assert_eq!((buf, far.take_requests()), ([7; 30], requests));
        assert_eq!(far.take_requests(), FarRequests::default());
    }
}
