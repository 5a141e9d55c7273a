//! `arrayfs status --prometheus`: the counters of mounts in the text format of Prometheus, for the
//! textfile collector of node_exporter, or for whatever scrapes it.
//!
//! All that a daemon counts is since the mount began. A mount whose daemon does not answer has
//! `arrayfs_up 0` and nothing else. Used by [`super::status`].

use std::io::{self, Write};

use serde_json::Number;

use super::output::path_text;
use crate::daemon::log::one_line;
use crate::daemon::mount_table::Mounted;
use crate::tree::mount_status::{KindStatus, MountStatus};

/// What is known of a mount.
type MountState = (Mounted, io::Result<MountStatus>);

/// A metric with one value for each mount.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// None, if such a mount has none.
    of: fn(&MountStatus) -> Option<Number>,
}

macro_rules! metrics {
    ($of:ident: $($kind:ident $name:literal $value:expr, $help:literal;)*) => {
        /// All that have one value for each mount.
        const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: stringify!($kind),
            help: $help,
            of: |$of| Some(Number::from($value)),
        }),*];
    };
}

metrics! { of:
    gauge "arrayfs_uptime_seconds" of.seconds, "Time since the mount began.";
    gauge "arrayfs_cache_limit_bytes" of.cache.limit, "Memory for decoded blocks (cache=).";
    gauge "arrayfs_cache_used_bytes" of.cache.used, "How much of that is in use.";
    gauge "arrayfs_cache_blocks" of.cache.blocks, "Blocks that are cached.";
    counter "arrayfs_cache_hits_total" of.cache.hits, "Blocks that a reader found decoded.";
    counter "arrayfs_cache_waits_total" of.cache.waits,
        "Blocks that a reader found being decoded for another one.";
    counter "arrayfs_cache_misses_total" of.cache.misses, "Blocks that a reader had to decode.";
    counter "arrayfs_cache_prefetched_total" of.cache.prefetched,
        "Blocks decoded ahead of sequential readers.";
    counter "arrayfs_cache_evicted_total" of.cache.evicted, "Blocks given up for others.";
    counter "arrayfs_decoded_bytes_total" of.cache.decoded_bytes, "Bytes that were decoded.";
    counter "arrayfs_read_bytes_total" of.requests.read_bytes,
        "Bytes that reads were answered with.";
    counter "arrayfs_written_bytes_total" of.requests.written_bytes,
        "Bytes that programs have written.";
    counter "arrayfs_io_errors_total" of.requests.io_errors,
        "Requests that were answered with an I/O error (EIO).";
    gauge "arrayfs_open_files" of.open_files, "Files that programs have open.";
    gauge "arrayfs_open_containers" of.open_containers, "Containers that are kept open.";
    gauge "arrayfs_resident_bytes" of.resident_bytes?, "Memory that the daemon takes.";
    gauge "arrayfs_unlogged_bytes" of.unlogged_bytes,
        "Changes of arrays that cannot be stored, neither in the container nor in a log: in memory alone.";
    gauge "arrayfs_staged_bytes" of.staged_bytes,
        "Changes of arrays that are not committed, in memory or in logs, whichever has more.";
    gauge "arrayfs_staged_containers_over_a_minute" of.staged_over_a_minute,
        "Containers with changes that have not been committed for longer than a minute.";
    gauge "arrayfs_held_back_bytes" of.held_back.as_ref()?.bytes,
        "Changes of files in a scratch mount that are not stored yet.";
    counter "arrayfs_scratch_encoded_bytes_total" of.held_back.as_ref()?.encoded_bytes,
        "Bytes of files in a scratch mount that were encoded.";
    counter "arrayfs_scratch_stored_bytes_total" of.held_back.as_ref()?.stored_bytes,
        "What became of them.";
    counter "arrayfs_remote_requests_total" of.remote?.requests,
        "Requests to a store of objects or a web server, those made again included.";
    counter "arrayfs_remote_retries_total" of.remote?.retries, "Requests that were made again.";
    counter "arrayfs_remote_failures_total" of.remote?.failures,
        "Questions to a store that came to no answer.";
    counter "arrayfs_remote_bytes_total" of.remote?.bytes, "Bytes of answers of a store.";
    counter "arrayfs_remote_seconds_total" Number::from_f64(of.remote?.seconds)?,
        "Time from each request to the end of its answer, all together.";
    counter "arrayfs_remote_read_bytes_total" of.remote?.read_bytes,
        "Stored bytes that were read of a store.";
    counter "arrayfs_remote_waited_bytes_total" of.remote?.waited_bytes,
        "How many of these were not there when they were read.";
    gauge "arrayfs_remote_held_bytes" of.remote?.held_bytes, "Stored bytes in memory.";
    counter "arrayfs_remote_disk_hit_bytes_total" of.remote?.disk_hit_bytes,
        "Bytes that came out of the cache on the disk.";
    counter "arrayfs_commits_total" of.counted.commits, "Commits of containers.";
    counter "arrayfs_commits_failed_total" of.counted.failed_commits,
        "Commits that failed; what was to be committed stays staged.";
    counter "arrayfs_commit_seconds_total" Number::from_f64(of.counted.commit_seconds)?,
        "Time that commits took, those that failed included.";
    counter "arrayfs_commit_bytes_total" of.counted.commit_bytes,
        "Bytes that commits put into stored files, or moved in them.";
    counter "arrayfs_hdf5_worker_deaths_total" of.counted.worker_deaths,
        "HDF5 workers that crashed, or had to be ended.";
    gauge "arrayfs_staged_containers" length(&of.staged, of.staged_unlisted),
        "Containers with changes that are not committed.";
    gauge "arrayfs_slow_requests" length(&of.requests.slowest, of.requests.slowest_unlisted),
        "Requests of the last minute that took 0.1 seconds or more, 16 at most.";
}

const DURATIONS: &str = "arrayfs_request_duration_seconds";

/// Writes all metrics of all mounts.
pub(super) fn print(out: &mut impl Write, states: &[MountState]) -> io::Result<()> {
    let visible: Vec<&MountState> = visible(states);
    header(
        out,
        "arrayfs_up",
        "gauge",
        "Whether the daemon of the mount answers.",
    )?;
    for (mounted, state) in &visible {
        let up = u8::from(state.is_ok());
        writeln!(out, "arrayfs_up{{{}}} {up}", mountpoint(mounted))?;
    }
    header(
        out,
        "arrayfs_info",
        "gauge",
        "What is mounted, by which version.",
    )?;
    for (mounted, status) in serving(&visible) {
        let (at, source) = (mountpoint(mounted), escaped(&mounted.source));
        let version = escaped(&status.version);
        writeln!(
            out,
            r#"arrayfs_info{{{at},source="{source}",version="{version}",writable="{}"}} 1"#,
            mounted.writable
        )?;
    }
    METRICS
        .iter()
        .try_for_each(|metric| values(out, metric, &visible))?;
    durations(out, &visible)
}

/// Those that are not hidden by another one at the same place: a series is given once.
fn visible(states: &[MountState]) -> Vec<&MountState> {
    let at = |state: &MountState| state.0.mountpoint.clone();
    let is_last = |(n, state): &(usize, &MountState)| {
        !states[n + 1..].iter().any(|later| at(later) == at(state))
    };
    let last = states.iter().enumerate().filter(is_last);
    last.map(|(_, state)| state).collect()
}

fn serving<'a>(states: &[&'a MountState]) -> impl Iterator<Item = (&'a Mounted, &'a MountStatus)> {
    let answered = |(mounted, state): &&'a MountState| Some((mounted, state.as_ref().ok()?));
    states.iter().filter_map(answered)
}

/// How long a list is, with what of it is not listed: its entries are no matter for a metric.
fn length<T>(listed: &[T], unlisted: u64) -> u64 {
    unlisted.saturating_add(listed.len() as u64)
}

/// A metric that no mount has is left out with its header.
fn values(out: &mut impl Write, metric: &Metric, states: &[&MountState]) -> io::Result<()> {
    let has = |(mounted, status)| Some((mounted, (metric.of)(status)?));
    let values: Vec<_> = serving(states).filter_map(has).collect();
    if values.is_empty() {
        return Ok(());
    }
    header(out, metric.name, metric.kind, metric.help)?;
    for (mounted, value) in values {
        writeln!(out, "{}{{{}}} {value}", metric.name, mountpoint(mounted))?;
    }
    Ok(())
}

/// The times of requests, a histogram for each kind.
fn durations(out: &mut impl Write, states: &[&MountState]) -> io::Result<()> {
    header(
        out,
        DURATIONS,
        "histogram",
        "Time that requests of the kernel took, by kind.",
    )?;
    for (mounted, status) in serving(states) {
        let requests = &status.requests;
        let bounds = requests.bounds_us.iter().map(|us| *us as f64 / 1e6);
        let bounds: Vec<f64> = bounds.collect();
        for (kind, counted) in &requests.kinds.0 {
            let labels = format!(r#"{},operation="{}""#, mountpoint(mounted), escaped(kind));
            histogram(out, &labels, &bounds, counted)?;
        }
    }
    Ok(())
}

fn histogram(
    out: &mut impl Write,
    labels: &str,
    bounds: &[f64],
    counted: &KindStatus,
) -> io::Result<()> {
    let mut below: u64 = 0;
    let ends = bounds.iter().map(f64::to_string);
    for (end, count) in ends.chain(["+Inf".to_owned()]).zip(&counted.by_time) {
        below = below.saturating_add(*count);
        writeln!(out, r#"{DURATIONS}_bucket{{{labels},le="{end}"}} {below}"#)?;
    }
    let seconds = counted.seconds;
    writeln!(out, "{DURATIONS}_sum{{{labels}}} {seconds}")?;
    writeln!(out, "{DURATIONS}_count{{{labels}}} {below}")
}

fn header(out: &mut impl Write, name: &str, kind: &str, help: &str) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn mountpoint(mounted: &Mounted) -> String {
    format!(
        r#"mountpoint="{}""#,
        escaped(&path_text(&mounted.mountpoint))
    )
}

/// As the format wants it between quotes, and without what a terminal obeys: another user has
/// chosen it.
fn escaped(text: &str) -> String {
    one_line(text).replace('\\', r"\\").replace('"', r#"\""#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::mount_table::device_at;
    use serde_json::{from_value, json};
    use std::path::Path;

    fn mounted(mountpoint: &str) -> Mounted {
        Mounted {
            mountpoint: mountpoint.into(),
            root: "/".into(),
            source: r#"/data "x"\y"#.into(),
            device: device_at(Path::new("/proc")).unwrap(),
            writable: false,
        }
    }

    fn printed(states: &[MountState]) -> String {
        let mut out = Vec::new();
        print(&mut out, states).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_dead_mount_is_down_and_has_nothing_else() {
        let dead = io::Error::from_raw_os_error(libc::ENOTCONN);
        let text = printed(&[(mounted(r#"/m "a"\b"#), Err(dead))]);
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values, [r#"arrayfs_up{mountpoint="/m \"a\"\\b"} 0"#]);
    }

    #[test]
    fn what_another_user_has_named_moves_no_cursor() {
        assert_eq!(escaped("a\n\u{1b}[2J\"\\"), r#"a%0A%1B[2J\"\\"#);
    }

    #[test]
    fn times_are_cumulative_in_seconds() {
        let status = json!({
            "version": "1",
            "cache": { "hits": 7 },
            "staged": [{}],
            "staged_unlisted": 2,
            "of_another_version": {},
            "requests": {
                "bounds_us": [16, 64, 1_048_576],
                "kinds": { "read": { "seconds": 1.5, "by_time": [1, 2, 0, 4] } },
            },
        });
        let status: MountStatus = from_value(status).unwrap();
        let text = printed(&[
            (mounted("/hidden"), Ok(status.clone())),
            (mounted("/m"), Ok(status)),
        ]);
        for line in [
            r#"arrayfs_cache_hits_total{mountpoint="/m"} 7"#,
            r#"arrayfs_staged_containers{mountpoint="/m"} 3"#,
            r#"arrayfs_request_duration_seconds_bucket{mountpoint="/m",operation="read",le="0.000016"} 1"#,
            r#"arrayfs_request_duration_seconds_bucket{mountpoint="/m",operation="read",le="1.048576"} 3"#,
            r#"arrayfs_request_duration_seconds_bucket{mountpoint="/m",operation="read",le="+Inf"} 7"#,
            r#"arrayfs_request_duration_seconds_sum{mountpoint="/m",operation="read"} 1.5"#,
            r#"arrayfs_request_duration_seconds_count{mountpoint="/m",operation="read"} 7"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nin\n{text}"
            );
        }
        assert!(
            !text.contains("arrayfs_held_back_bytes"),
            "what such a mount does not have is left out"
        );
    }

    #[test]
    fn of_two_mounts_at_one_place_the_upper_one_is_told() {
        let of = |open_files| MountStatus {
            open_files,
            ..MountStatus::default()
        };
        let text = printed(&[(mounted("/m"), Ok(of(1))), (mounted("/m"), Ok(of(2)))]);
        let of = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!((of("arrayfs_up{"), of("arrayfs_open_files{")), (1, 1));
        assert!(text.contains(r#"arrayfs_open_files{mountpoint="/m"} 2"#));
    }
}
