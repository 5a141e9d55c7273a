//! What is told of the mount that is selected: what it is, its counters, its slowest requests.
//!
//! Used by [`super::screen`], and by `--once` for slow requests.

use super::watching::WatchedMount;
use crate::cli::output::path_text;
use crate::cli::size;
use crate::cli::status;
use crate::daemon::log::one_line;
use crate::tree::mount_status::{MountStatus, SlowStatus};

/// Lines about a mount.
pub(super) fn lines(watched: &WatchedMount) -> Vec<String> {
    let mounted = &watched.mounted;
    let access = match mounted.writable {
        true => "writable",
        false => "read-only",
    };
    let at = path_text(&mounted.mountpoint);
    let mut lines = vec![format!("{at}: {} ({access})", one_line(&mounted.source))];
    match (watched.status(), watched.trouble()) {
        (Some(status), _) => {
            lines.extend(counters(status));
            lines.extend(slowest(&status.requests.slowest));
        }
        (None, trouble) => lines.push(trouble.unwrap_or("not asked yet").to_owned()),
    }
    lines
}

fn counters(status: &MountStatus) -> Vec<String> {
    let (cache, requests, counted) = (&status.cache, &status.requests, &status.counted);
    let staged = status.staged.len() as u64;
    let remote = status.remote.as_ref();
    let remote = remote.map(|remote| format!("remote   {}", status::asked_of_store(remote)));
    let told = vec![
        format!(
            "daemon   pid {}, version {}, up {}",
            status.pid,
            one_line(&status.version),
            up(status.seconds)
        ),
        format!(
            "cache    {} of {}, blocks {}, decoded {}, evicted {}",
            size::show(cache.used),
            size::show(cache.limit),
            cache.blocks,
            size::show(cache.decoded_bytes),
            cache.evicted
        ),
        format!(
            "served   read {}, written {}, requests {}, I/O errors {}",
            size::show(requests.read_bytes),
            size::show(requests.written_bytes),
            status::requests(status),
            requests.io_errors
        ),
        format!(
            "commits  done {}, failed {}; staged containers {}, {}",
            counted.commits,
            counted.failed_commits,
            staged.saturating_add(status.staged_unlisted),
            size::show(status.staged_bytes)
        ),
    ];
    told.into_iter().chain(remote).collect()
}

/// The slowest requests of the last minute, if there were slow ones.
pub(super) fn slowest(slow: &[SlowStatus]) -> Vec<String> {
    let each = slow.iter().map(|request| {
        format!(
            "  {:<11} {:>7.2} s, {:>2} s ago  {}",
            one_line(&request.kind),
            request.seconds,
            request.ago,
            one_line(&request.path)
        )
    });
    let mut lines: Vec<String> = each.collect();
    if !lines.is_empty() {
        lines.insert(0, "slowest requests of the last minute".into());
    }
    lines
}

/// A time for people.
fn up(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_requests_are_told_with_their_paths() {
        assert_eq!(slowest(&[]), Vec::<String>::new());
        let lines = slowest(&[SlowStatus {
            kind: "read".into(),
            path: "/x.blp/\u{1b}data".into(),
            seconds: 1.25,
            ago: 7,
        }]);
        let expected = "  read           1.25 s,  7 s ago  /x.blp/%1Bdata";
        assert_eq!(lines[1..], [expected]);
    }

    #[test]
    fn a_time_has_one_unit() {
        assert_eq!(
            [5, 90, 7200, 200_000].map(up),
            ["5 s", "1 min", "2 h", "2 d"]
        );
    }
}
