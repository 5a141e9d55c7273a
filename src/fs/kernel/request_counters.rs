//! What requests come to: how many of each kind, how long they took, how many bytes went each way,
//! how many were answered with an I/O error.
//!
//! Counters are single atomic numbers, which all threads share: a request takes two calls of the
//! system at least, some microseconds, of which three additions, even to a cache line that another
//! core has, are no part that could be measured. A line of its own for each kind keeps threads that
//! read from those that look up. Used by `dispatch`, `read` and `serving`; `tree` tells what is
//! counted, with its status.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::slow_requests::{SLOW, SlowRequests};
use crate::tree::InodeId;
use crate::tree::mount_status::{KindStatus, KindsStatus, RequestsStatus};
use fuser::{INodeNo, Request};

/// Upper ends of the times that are told apart, in microseconds: powers of 4. One more is for those
/// that take longer.
pub(super) const BOUNDS: [u64; 10] = {
    let (mut bounds, mut at) = ([0; 10], 0);
    while at < bounds.len() {
        bounds[at] = 1 << (4 + 2 * at);
        at += 1;
    }
    bounds
};

macro_rules! kinds {
    ($($kind:ident $name:literal),+ $(,)?) => {
        /// What the kernel asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum RequestKind { $($kind),+ }

        impl RequestKind {
            const ALL: &[RequestKind] = &[$(RequestKind::$kind),+];

            /// As FUSE calls it.
            pub(super) fn name(self) -> &'static str {
                match self { $(RequestKind::$kind => $name),+ }
            }
        }
    };
}

kinds! {
    Lookup "lookup", Getattr "getattr", Setattr "setattr", Readlink "readlink", Mknod "mknod",
    Mkdir "mkdir", Symlink "symlink", Link "link", Unlink "unlink", Rmdir "rmdir",
    Rename "rename", Open "open", Create "create", Read "read", Write "write", Flush "flush",
    Fsync "fsync", Fsyncdir "fsyncdir", Fallocate "fallocate",
    CopyFileRange "copy_file_range", Lseek "lseek", Release "release", Readdir "readdir",
    Readdirplus "readdirplus", Statfs "statfs", Setxattr "setxattr", Getxattr "getxattr",
    Listxattr "listxattr", Removexattr "removexattr",
    // Somebody watches the mount: none that matters.
    Status "status",
}

/// The counters of one kind.
#[derive(Default)]
#[repr(align(64))]
struct KindCounters {
    nanos: AtomicU64,
    /// By the time that they took.
    counts: [AtomicU64; BOUNDS.len() + 1],
}

#[derive(Default)]
pub(super) struct RequestCounters {
    kinds: [KindCounters; RequestKind::ALL.len()],
    read: AtomicU64,
    written: AtomicU64,
    io_errors: AtomicU64,
    slow: SlowRequests,
    /// The thread that asked for the status last; 0 is none.
    watcher: AtomicU32,
}

/// A request that is being served, from when it was received on.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedRequest {
    pub(super) kind: RequestKind,
    pub(super) inode: InodeId,
    since: Instant,
}

impl RequestCounters {
    /// A request has been received. What the thread that watches the mount asks of its root belongs
    /// to the watching.
    pub(super) fn begin(
        &self,
        request: &Request,
        kind: RequestKind,
        inode: INodeNo,
    ) -> TimedRequest {
        let inode = InodeId(inode.0);
        let by_watcher = inode == InodeId::ROOT && self.is_watched_by(request.pid());
        let is_look = matches!(kind, RequestKind::Getattr | RequestKind::Getxattr);
        TimedRequest {
            kind: match by_watcher && is_look {
                true => RequestKind::Status,
                false => kind,
            },
            inode,
            since: Instant::now(),
        }
    }

    /// Whether this thread watches. The kernel says 0 of all that are in another pid name space.
    fn is_watched_by(&self, pid: u32) -> bool {
        pid != 0 && self.watcher.load(Relaxed) == pid
    }

    /// From now on this thread is the one that watches.
    pub(super) fn watched_by(&self, request: &Request) {
        self.watcher.store(request.pid(), Relaxed);
    }

    /// It has been served. Says how long that took, if it was long.
    #[must_use]
    pub(super) fn end(&self, request: TimedRequest) -> Option<Duration> {
        let took = request.since.elapsed();
        self.count(request.kind, took);
        (took >= SLOW).then_some(took)
    }

    fn count(&self, kind: RequestKind, took: Duration) {
        let counters = &self.kinds[kind as usize];
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        counters.nanos.fetch_add(nanos, Relaxed);
        counters.counts[place_of(nanos.div_ceil(1000))].fetch_add(1, Relaxed);
    }

    /// One that took long, and the path that it was about.
    pub(super) fn note_slow(&self, kind: RequestKind, path: String, took: Duration) {
        if kind != RequestKind::Status {
            self.slow.note(kind.name(), path, took);
        }
    }

    pub(super) fn read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn io_error(&self) {
        self.io_errors.fetch_add(1, Relaxed);
    }

    /// As the status tells them.
    pub(super) fn told(&self) -> RequestsStatus {
        let kinds = RequestKind::ALL.iter().zip(&self.kinds);
        let told =
            kinds.filter_map(|(kind, counters)| Some((kind.name().into(), counters.told()?)));
        RequestsStatus {
            read_bytes: self.read.load(Relaxed),
            written_bytes: self.written.load(Relaxed),
            io_errors: self.io_errors.load(Relaxed),
            bounds_us: BOUNDS.to_vec(),
            kinds: KindsStatus(told.collect()),
            slowest: self.slow.told(),
            slowest_unlisted: 0,
        }
    }
}

impl KindCounters {
    /// None, if there were none.
    fn told(&self) -> Option<KindStatus> {
        let by_time: Vec<u64> = self
            .counts
            .iter()
            .map(|count| count.load(Relaxed))
            .collect();
        let count = by_time.iter().sum();
        let seconds = Duration::from_nanos(self.nanos.load(Relaxed)).as_secs_f64();
        (count > 0).then_some(KindStatus {
            count,
            seconds,
            by_time,
        })
    }
}

/// Where a time is counted.
fn place_of(micros: u64) -> usize {
    match micros.checked_sub(1) {
        Some(below) if below >= 16 => (below.ilog2() as usize / 2 - 1).min(BOUNDS.len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_below_the_next_bound() {
        for (at, bound) in BOUNDS.into_iter().enumerate() {
            assert_eq!((place_of(bound), place_of(bound + 1)), (at, at + 1));
        }
        assert_eq!((place_of(0), place_of(u64::MAX)), (0, BOUNDS.len()));
        assert_eq!((BOUNDS[0], BOUNDS[9]), (16, 4_194_304));
    }

    #[test]
    fn what_was_counted_is_told() {
        let counters = RequestCounters::default();
        assert!(counters.told().kinds.0.is_empty());
        counters.count(RequestKind::Read, Duration::from_millis(500));
        counters.count(RequestKind::Read, Duration::from_nanos(1));
        counters.count(RequestKind::Status, Duration::ZERO);
        counters.read(4096);
        counters.io_error();
        let told = counters.told();
        let [(read, of_read), (status, of_status)] = &told.kinds.0[..] else {
            panic!("{told:?}");
        };
        assert_eq!((&**read, &**status, of_status.count), ("read", "status", 1));
        assert_eq!((of_read.count, of_read.seconds), (2, 0.500000001));
        assert_eq!(of_read.by_time, [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!((told.read_bytes, told.io_errors), (4096, 1));
    }

    #[test]
    fn who_cannot_be_told_apart_is_no_watcher() {
        let counters = RequestCounters::default();
        assert!(!counters.is_watched_by(0));
        counters.watcher.store(7, Relaxed);
        assert!(counters.is_watched_by(7) && !counters.is_watched_by(8));
        counters.watcher.store(0, Relaxed);
        assert!(!counters.is_watched_by(0));
    }

    #[test]
    fn every_kind_has_its_place() {
        for (at, kind) in RequestKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at, "{}", kind.name());
        }
    }
}
