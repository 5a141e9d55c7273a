//! How many commits there were, how long they took, and what they wrote. Shared by all threads: a
//! commit costs a sync of the disk, beside which an addition is nothing. Used by [`super`], by what
//! packs new containers, and by the status of a mount.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

#[derive(Default)]
pub(crate) struct CommitCounters {
    done: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
    bytes: AtomicU64,
}

/// What was counted until now, as the status of a mount tells it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CountedStatus {
    pub commits: u64,
    pub failed_commits: u64,
    /// All of them together, those that failed, too.
    pub commit_seconds: f64,
    /// What was put into files anew, or moved in them.
    pub commit_bytes: u64,
    /// Of the processes that run libhdf5.
    pub worker_deaths: u64,
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

    pub(crate) fn snapshot(&self) -> CountedStatus {
        CountedStatus {
            commits: self.done.load(Relaxed),
            failed_commits: self.failed.load(Relaxed),
            commit_seconds: Duration::from_nanos(self.nanos.load(Relaxed)).as_secs_f64(),
            commit_bytes: self.bytes.load(Relaxed),
            worker_deaths: crate::container::hdf5::worker_deaths(),
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
        assert_eq!((counted.commits, counted.failed_commits), (2, 1));
        assert_eq!(counted.commit_bytes, 15);
    }
}
