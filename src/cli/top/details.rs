//! What is told of the mount that is selected: what it is, its counters, its slowest requests.
//!
//! Used by [`super::screen`], and by `--once` for slow requests.

use serde_json::Value;

use super::figures::number;
use super::watching::WatchedMount;
use crate::cli::output::path_text;
use crate::cli::size;
use crate::cli::status::requests;
use crate::daemon::log::one_line;

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
            lines.extend(slowest(status));
        }
        (None, trouble) => lines.push(trouble.unwrap_or("not asked yet").to_owned()),
    }
    lines
}

fn counters(status: &Value) -> Vec<String> {
    let number = |at: &str| number(status, at);
    let bytes = |at: &str| size::show(number(at));
    let version = one_line(status["version"].as_str().unwrap_or("?"));
    let staged = status["staged"].as_array().map_or(0, Vec::len) as u64;
    vec![
        format!(
            "daemon   pid {}, version {version}, up {}",
            one_line(&status["pid"].to_string()),
            up(number("/seconds"))
        ),
        format!(
            "cache    {} of {}, blocks {}, decoded {}, evicted {}",
            bytes("/cache/used"),
            bytes("/cache/limit"),
            number("/cache/blocks"),
            bytes("/cache/decoded_bytes"),
            number("/cache/evicted")
        ),
        format!(
            "served   read {}, written {}, requests {}, I/O errors {}",
            bytes("/requests/read_bytes"),
            bytes("/requests/written_bytes"),
            requests(status),
            number("/requests/io_errors")
        ),
        format!(
            "commits  done {}, failed {}; staged containers {}, {}",
            number("/counted/commits"),
            number("/counted/failed_commits"),
            staged.saturating_add(number("/staged_unlisted")),
            bytes("/staged_bytes")
        ),
    ]
}

/// The slowest requests of the last minute, if there were slow ones.
pub(super) fn slowest(status: &Value) -> Vec<String> {
    let slow = status
        .pointer("/requests/slowest")
        .and_then(Value::as_array);
    let each = slow.into_iter().flatten().map(|request| {
        let text = |of: &str| one_line(request[of].as_str().unwrap_or("?"));
        let seconds = request["seconds"].as_f64().unwrap_or(0.0);
        let ago = request["ago"].as_u64().unwrap_or(0);
        format!(
            "  {:<11} {seconds:>7.2} s, {ago:>2} s ago  {}",
            text("kind"),
            text("path")
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
    use serde_json::json;

    #[test]
    fn slow_requests_are_told_with_their_paths() {
        assert_eq!(slowest(&json!({})), Vec::<String>::new());
        let request =
            json!({ "kind": "read", "path": "/x.blp/\u{1b}data", "seconds": 1.25, "ago": 7 });
        let lines = slowest(&json!({ "requests": { "slowest": [request] } }));
        let expected = "  read           1.25 s,  7 s ago  /x.blp/%1Bdata";
        assert_eq!(lines[1..], [expected]);
    }

    #[test]
    fn a_daemon_that_tells_little_has_lines_all_the_same() {
        assert_eq!(counters(&json!({})).len(), 4);
        assert_eq!(
            [5, 90, 7200, 200_000].map(up),
            ["5 s", "1 min", "2 h", "2 d"]
        );
    }
}
