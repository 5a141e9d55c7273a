//! What a mount does at the moment: two looks at its counters, and the time between them.
//!
//! Used by [`super`]'s table and details.

use std::time::{Duration, Instant};

use crate::cli::status::requests;
use crate::tree::mount_status::MountStatus;

/// The status of a daemon, and when it was given.
pub(super) struct Look {
    pub(super) status: MountStatus,
    pub(super) at: Instant,
}

/// Counters of a daemon at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MountCounts {
    read: u64,
    decoded: u64,
    written: u64,
    requests: u64,
    found: u64,
    asked: u64,
}

/// What is shown of a mount that answers. Rates are of a second, and none as long as there has been
/// one look only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Figures {
    pub(super) read: Option<f64>,
    pub(super) decoded: Option<f64>,
    pub(super) written: Option<f64>,
    pub(super) requests: Option<f64>,
    /// Of the blocks that were asked for between the looks, or else since the mount began: the part
    /// that was found.
    pub(super) hits: Option<f64>,
    pub(super) cache_used: u64,
    pub(super) cache_limit: u64,
    pub(super) open_files: usize,
    pub(super) open_containers: usize,
    pub(super) staged_bytes: u64,
}

impl MountCounts {
    fn of(status: &MountStatus) -> MountCounts {
        let cache = &status.cache;
        let found = cache.hits.saturating_add(cache.waits);
        MountCounts {
            read: status.requests.read_bytes,
            decoded: cache.decoded_bytes,
            written: status.requests.written_bytes,
            requests: requests(status),
            found,
            asked: found.saturating_add(cache.misses),
        }
    }

    /// What has been added since. A daemon that has begun anew counts from zero.
    fn since(&self, before: &MountCounts) -> MountCounts {
        MountCounts {
            read: self.read.saturating_sub(before.read),
            decoded: self.decoded.saturating_sub(before.decoded),
            written: self.written.saturating_sub(before.written),
            requests: self.requests.saturating_sub(before.requests),
            found: self.found.saturating_sub(before.found),
            asked: self.asked.saturating_sub(before.asked),
        }
    }

    fn hits(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.found as f64 / self.asked as f64)
    }
}

impl Figures {
    pub(super) fn of(now: &Look, before: Option<&Look>) -> Figures {
        let (status, counted) = (&now.status, MountCounts::of(&now.status));
        let added = before.map(|before| {
            let time = now.at.saturating_duration_since(before.at);
            (counted.since(&MountCounts::of(&before.status)), time)
        });
        let rate = |of: fn(&MountCounts) -> u64| {
            let (added, time) = added.as_ref()?;
            per_second(of(added), *time)
        };
        let held = status.held_back.as_ref().map_or(0, |held| held.bytes);
        Figures {
            read: rate(|added| added.read),
            decoded: rate(|added| added.decoded),
            written: rate(|added| added.written),
            requests: rate(|added| added.requests),
            hits: added.and_then(|(added, _)| added.hits()).or(counted.hits()),
            cache_used: status.cache.used,
            cache_limit: status.cache.limit,
            open_files: status.open_files,
            open_containers: status.open_containers,
            staged_bytes: status.staged_bytes.saturating_add(held),
        }
    }
}

fn per_second(count: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| count as f64 / time.as_secs_f64())
}

/// A size in four characters at most: `17`, `1.5K`, `412M`.
pub(super) fn short(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit > 0 && value < 9.95 {
        true => format!("{value:.1}{}", UNITS[unit]),
        false => format!("{value:.0}{}", UNITS[unit]),
    }
}

/// A rate of bytes, or nothing.
pub(super) fn short_rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".into(), |rate| short(rate.round() as u64))
}

/// A number of things in a second.
pub(super) fn count_rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".into(),
        Some(rate) if (0.05..9.95).contains(&rate) => format!("{rate:.1}"),
        Some(rate) if rate >= 99_999.5 => short(rate.round() as u64),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// A part, in percent.
pub(super) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".into(), |part| format!("{:.0}%", part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn look(at: Instant, read: u64, hits: u64, misses: u64) -> Look {
        let status = json!({
            "cache": { "hits": hits, "waits": 0, "misses": misses, "limit": 100, "used": 7 },
            "requests": { "read_bytes": read, "kinds": { "read": { "count": read }, "status": { "count": 9 } } },
            "staged_bytes": 3,
            "held_back": { "bytes": 4 },
        });
        let status = from_value(status).unwrap();
        Look { status, at }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let begin = Instant::now();
        let first = look(begin, 100, 1, 1);
        let alone = Figures::of(&first, None);
        assert_eq!((alone.read, alone.hits), (None, Some(0.5)));
        assert_eq!((alone.staged_bytes, alone.cache_used), (7, 7));
        let second = look(begin + Duration::from_secs(2), 300, 4, 2);
        let both = Figures::of(&second, Some(&first));
        assert_eq!((both.read, both.requests), (Some(100.0), Some(100.0)));
        assert_eq!(both.hits, Some(0.75));
        // Nothing was asked for meanwhile; another daemon counts from zero.
        let third = look(begin + Duration::from_secs(3), 0, 4, 2);
        let later = Figures::of(&third, Some(&second));
        assert_eq!((later.read, later.hits), (Some(0.0), Some(4.0 / 6.0)));
        assert_eq!(Figures::of(&third, Some(&third)).read, None);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [
            0,
            17,
            999,
            1000,
            1536,
            10 << 10,
            412 << 20,
            1 << 40,
            u64::MAX,
        ]
        .map(short);
        assert_eq!(
            shown,
            [
                "0", "17", "999", "1.0K", "1.5K", "10K", "412M", "1.0T", "16E"
            ]
        );
        assert!((0..64).all(|bit| short(1 << bit).len() <= 4));
        assert_eq!(
            (short_rate(None), short_rate(Some(2048.4))),
            ("-".into(), "2.0K".into())
        );
        let rates = [Some(0.0), Some(0.25), Some(1234.4), Some(2e6)].map(count_rate);
        assert_eq!(rates, ["0", "0.2", "1234", "1.9M"]);
        assert_eq!(
            (percent(None), percent(Some(1.0))),
            ("-".into(), "100%".into())
        );
    }
}
