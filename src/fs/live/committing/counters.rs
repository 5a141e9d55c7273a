//! How many commits there were, how long they took, and what they wrote. Shared by all threads: a
//! commit costs a sync of the disk, beside which an addition is nothing. Used by [`super`], by what
//! packs new containers, and by the status of a mount.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct CommitCounters {
    done: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
    bytes: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedCommits {
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// All of them together, those that failed, too.
    pub(crate) time: Duration,
    /// What was put into files anew, or moved in them.
    pub(crate) bytes: u64,
}

impl CommitCounters {
    pub(crate) fn done(&self, begun: Instant, bytes: u64) {
        self.done.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.spent(begun);
    }

    pub(crate) fn failed(&self, begun: Instant) {
        self.failed.fetch_add(1, Relaxed);
        self.spent(begun);
    }

    fn spent(&self, begun: Instant) {
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> CountedCommits {
        CountedCommits {
            done: self.done.load(Relaxed),
            failed: self.failed.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_by_their_outcome() {
        let (counters, begun) = (CommitCounters::default(), Instant::now());
        counters.done(begun, 7);
        counters.done(begun, 8);
        counters.failed(begun);
        let counted = counters.snapshot();
        assert_eq!((counted.done, counted.failed, counted.bytes), (2, 1, 15));
    }
}
