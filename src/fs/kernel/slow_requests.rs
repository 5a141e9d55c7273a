//! The slowest requests of the last minute: what they asked for, of which path, and how long it
//! took. A request that is not slow never comes here. Used by `request_counters`.

use std::time::{Duration, Instant};

use crate::sync::{Mutex, MutexGuard};
use crate::tree::mount_status::SlowStatus;

/// From this time on a request is slow: somebody may notice.
pub(super) const SLOW: Duration = Duration::from_millis(100);

/// How long one is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Most that are.
const MOST: usize = 16;

/// Most bytes of a path: the status has a length.
const PATH: usize = 400;

#[derive(Default)]
pub(super) struct SlowRequests {
    slowest: Mutex<Vec<SlowRequest>>,
}

struct SlowRequest {
    kind: &'static str,
    path: String,
    took: Duration,
    ended: Instant,
}

impl SlowRequests {
    pub(super) fn note(&self, kind: &'static str, path: String, took: Duration) {
        self.note_at(Instant::now(), kind, path, took);
    }

    fn note_at(&self, ended: Instant, kind: &'static str, path: String, took: Duration) {
        let mut slowest = self.lock(ended);
        slowest.push(SlowRequest {
            kind,
            path: last_letters(path),
            took,
            ended,
        });
        slowest.sort_by_key(|request| std::cmp::Reverse(request.took));
        slowest.truncate(MOST);
    }

    /// The slowest first.
    pub(super) fn told(&self) -> Vec<SlowStatus> {
        self.told_at(Instant::now())
    }

    fn told_at(&self, now: Instant) -> Vec<SlowStatus> {
        let slowest = self.lock(now);
        let told = slowest.iter().map(|request| SlowStatus {
            kind: request.kind.into(),
            path: request.path.clone(),
            seconds: request.took.as_secs_f64(),
            ago: now.saturating_duration_since(request.ended).as_secs(),
        });
        told.collect()
    }

    /// Without those that are old by now.
    fn lock(&self, now: Instant) -> MutexGuard<'_, Vec<SlowRequest>> {
        let mut slowest = self.slowest.lock();
        slowest.retain(|old| now.saturating_duration_since(old.ended) < REMEMBERED);
        slowest
    }
}

/// The end of a path tells more than its beginning.
fn last_letters(path: String) -> String {
    let Some(mut at) = path.len().checked_sub(PATH).filter(|at| *at > 0) else {
        return path;
    };
    // The end of the path, at the latest, is where a letter begins.
    while !path.is_char_boundary(at) {
        at += 1;
    }
    format!("...{}", &path[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_a_minute_are_remembered() {
        let (slow, now) = (SlowRequests::default(), Instant::now());
        let ms = Duration::from_millis;
        for n in 0..100 {
            slow.note_at(now, "read", n.to_string(), ms(n));
        }
        let told = slow.told_at(now + Duration::from_secs(59));
        assert_eq!(told.len(), MOST);
        assert_eq!((&*told[0].path, &*told[15].path), ("99", "84"));
        assert_eq!(told[0].ago, 59);
        assert!(slow.told_at(now + REMEMBERED).is_empty());
    }

    #[test]
    fn of_a_long_path_the_end_is_told() {
        assert_eq!(last_letters("short".into()), "short");
        let long = last_letters(format!("{}/end", "ä".repeat(PATH)));
        assert!(long.ends_with("ä/end") && long.starts_with("..."));
        assert!(long.len() <= PATH + 3);
    }
}
