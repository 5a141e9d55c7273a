//! Times that programs see of a file of a scratch mount: those of what they did, not of when it was
//! stored.
//!
//! New times come from the clock of the file systems, which ticks coarsely; some stamp files that
//! somebody has just looked at more finely. So no new time is before the latest that was shown:
//! what is written later is never older. Knows neither files nor locks; used by [`super::file`],
//! and by [`super::at_rest`], which stores them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use super::mark::SeenChange;
use crate::source::{Stat, Timestamp};

/// The clock of a mount.
#[derive(Default)]
pub(super) struct ShownClock {
    /// Nanoseconds since 1970 of the latest time that was shown and is past.
    latest: AtomicI64,
}

impl ShownClock {
    /// These times are shown.
    pub(super) fn note(&self, stat: &Stat) {
        let latest = self.latest.load(Ordering::Relaxed);
        let newer = |time: Timestamp| time.as_nanos().filter(|nanos| *nanos > latest);
        let times = [stat.mtime, stat.ctime].into_iter().flat_map(newer);
        for nanos in times {
            // One that lies ahead was set by somebody.
            if Timestamp::now().as_nanos().is_some_and(|now| nanos <= now) {
                self.latest.fetch_max(nanos, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        let latest = Timestamp::of_nanos(self.latest.load(Ordering::Relaxed));
        Timestamp::tick().max(latest)
    }
}

/// Times that programs see, where they are not the stored file's.
#[derive(Default, Clone, Copy)]
pub(super) struct FileTimes {
    pub(super) mtime: Option<Timestamp>,
    /// With the stored file's, as long as that is of a flush.
    pub(super) ctime: Option<(Timestamp, Option<Timestamp>)>,
    /// When it was changed first since the last flush.
    pub(super) since: Option<Instant>,
    /// What is stored of the time of change.
    pub(super) stored: Option<SeenChange>,
}

impl FileTimes {
    /// The time of change that programs see of a stored file.
    pub(super) fn seen_ctime(&self, stored: Timestamp) -> Timestamp {
        match self.ctime {
            Some((seen, Some(of_flush))) if of_flush == stored => seen,
            Some((seen, None)) => seen,
            _ => stored,
        }
    }

    /// The stored file is about to change: what programs have seen of it stays.
    pub(super) fn keep(&mut self, stat: &Stat) {
        self.mtime.get_or_insert(stat.mtime);
        self.ctime = Some((self.seen_ctime(stat.ctime), None));
    }

    /// Puts what programs see in the place of what is stored.
    pub(super) fn show(&self, stat: &mut Stat) {
        stat.mtime = self.mtime.unwrap_or(stat.mtime);
        stat.ctime = self.seen_ctime(stat.ctime);
    }

    /// A program has changed the file's bytes.
    pub(super) fn stamp(&mut self, now: Timestamp) {
        self.mtime = Some(now);
        self.ctime = Some((now, None));
        self.since.get_or_insert_with(Instant::now);
    }

    /// A program has changed something of the file that is no byte; the stored file has the time of
    /// that. Says whether that has to be stored anew: so soon after a flush nobody could tell the
    /// two times apart.
    pub(super) fn note_touched(&mut self, stored: Timestamp) -> bool {
        if self.since.is_some() || matches!(self.ctime, Some((_, None))) {
            self.ctime = Some((stored, None));
            return false;
        }
        let is_masked = self.stored.is_some_and(|said| said.is_of(stored));
        if is_masked {
            self.ctime = Some((stored, None));
            self.since = Some(Instant::now());
        }
        is_masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_before_one_that_was_shown() {
        let clock = ShownClock::default();
        let now = Timestamp::now();
        clock
            .latest
            .store(now.as_nanos().unwrap(), Ordering::Relaxed);
        // The coarse clock is behind by up to a tick.
        assert!(clock.now() >= now);
    }
}
