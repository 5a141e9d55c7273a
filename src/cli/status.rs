//! `arrayfs status`: the mounts, their daemons and caches.
//!
//! Every daemon shows its state in an extended attribute of its root, so there is no socket to find
//! and the mount's own permissions decide which users may ask.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::counted::counted;
use super::described::ratio_text;
use super::failure::{CommandResult, Failure};
use super::which_mount::{WhichMount, no_mount, which_mount};
use super::{output, prometheus, size};
use crate::daemon::log::one_line;
use crate::daemon::mount_table::{self, Mounted};
use crate::daemon::write_out;
use crate::error::plain;
use crate::source::FarTraffic;
use crate::source::remote::is_url;
use crate::tree::mount_status::{HeldBackStatus, LogStatus, MountStatus, StagedStatus};
use crate::tree::xattr::STATUS;

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusForm {
    Text,
    Json,
    Prometheus,
}

pub(super) fn run(path: Option<&Path>, form: StatusForm) -> CommandResult {
    let (mounts, lies) = match path {
        None => (mount_table::mounts().map_err(Failure::new)?, ["", ""]),
        Some(path) => match which_mount(path)?.ok_or_else(|| no_mount(path))? {
            WhichMount::At(mounted) => (vec![mounted], ["", ""]),
            WhichMount::In(mounted) => (
                vec![mounted],
                [
                    "lies in this mount",
                    "would lie in this mount, and is not there",
                ],
            ),
            WhichMount::Shown(mounts) => (
                mounts,
                [
                    "is shown by this mount",
                    "would be shown by this mount, and is not there",
                ],
            ),
        },
    };
    let states = of_all(mounts);
    // Only daemons that answer are asked for more, and only where it is shown.
    let answers = states.iter().all(|(_, state)| state.is_ok());
    let given = path.filter(|_| form == StatusForm::Text && !lies[0].is_empty());
    let given = given.map(|path| (path, lies[usize::from(answers && is_missing(path))]));
    output::print(|out| match form {
        StatusForm::Json => print_json(out, &states),
        StatusForm::Prometheus => prometheus::print(out, &states),
        StatusForm::Text => print(out, &states, given),
    })?;
    let complaints: Vec<String> = states.iter().filter_map(complaint).collect();
    for complaint in &complaints {
        output::complain(complaint);
    }
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent()),
    }
}

/// What is wrong with a mount that does not serve.
fn complaint((mounted, state): &(Mounted, io::Result<MountStatus>)) -> Option<String> {
    let (path, e) = (mounted.mountpoint.display(), state.as_ref().err()?);
    let seconds = PATIENCE.as_secs();
    if is_dead(e) {
        return Some(format!(
            "{path}: the daemon has ended; clear the mount: arrayfs umount {path}"
        ));
    }
    (e.kind() == io::ErrorKind::TimedOut)
        .then(|| format!("{path}: the daemon has not answered within {seconds} seconds"))
}

/// Whether there is nothing at a path, as far as that is known in time: a daemon may tell how it is
/// and hang at a look at what it serves.
fn is_missing(path: &Path) -> bool {
    let path = path.to_owned();
    let found = write_out::aside(move || path.symlink_metadata());
    let found = found
        .ok()
        .and_then(|found| found.recv_timeout(PATIENCE).ok());
    matches!(found, Some(Err(e)) if e.kind() == io::ErrorKind::NotFound)
}

/// What the daemons of mounts say, which are asked side by side.
fn of_all(mounts: Vec<Mounted>) -> Vec<(Mounted, io::Result<MountStatus>)> {
    let asked = mounts.into_iter().map(|mounted| {
        let of = mounted.clone();
        let answer = write_out::aside(move || ask_mount(&of));
        (mounted, answer)
    });
    let (asked, until): (Vec<_>, _) = (asked.collect(), Instant::now() + PATIENCE);
    let answered = asked.into_iter().map(|(mounted, answer)| {
        let state = answer.and_then(|answer| {
            let answered = answer.recv_deadline(until);
            answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        });
        (mounted, state)
    });
    answered.collect()
}

/// A daemon that does not answer for this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the daemon of a mount says. Asked in a thread: a daemon that is stopped would hold us up
/// for good.
pub(super) fn of(mountpoint: &Path) -> io::Result<MountStatus> {
    let mountpoint = mountpoint.to_owned();
    let answered = write_out::aside(move || ask(&mountpoint))?.recv_timeout(PATIENCE);
    answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Asks the daemon of a mount, and waits as long as it takes. What is mounted over it would answer
/// in its place.
pub(super) fn ask_mount(mounted: &Mounted) -> io::Result<MountStatus> {
    match mount_table::device_at(&mounted.mountpoint) {
        Ok(device) if device != mounted.device => Err(HIDDEN.into()),
        _ => ask(&mounted.mountpoint),
    }
}

/// No daemon answers with this one.
const HIDDEN: io::ErrorKind = io::ErrorKind::ResourceBusy;

/// Asks whoever is mounted there.
fn ask(mountpoint: &Path) -> io::Result<MountStatus> {
    let mut value = vec![0; 65536];
    let n = rustix::fs::getxattr(mountpoint, STATUS, &mut value[..])?;
    value.truncate(n);
    serde_json::from_slice(&value).map_err(io::Error::other)
}

/// Whether an error of a mount says that its daemon has ended.
pub(super) fn is_dead(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED))
}

fn print_json(
    out: &mut impl Write,
    states: &[(Mounted, io::Result<MountStatus>)],
) -> io::Result<()> {
    let all: Vec<Value> = states
        .iter()
        .map(|(mounted, state)| {
            let mountpoint = output::path_text(&mounted.mountpoint);
            match state {
                Ok(state) => {
                    let mut daemon = json!(state);
                    // The mount table's is spelled so that nothing of it is lost.
                    daemon["source"] = mounted.source.clone().into();
                    if let Some(held) = &state.held_back {
                        daemon["saved"] = saved_json(held);
                    }
                    json!({
                        "mountpoint": mountpoint,
                        "state": "serving",
                        "writable": mounted.writable,
                        "daemon": daemon,
                    })
                }
                Err(e) => json!({
                    "mountpoint": mountpoint,
                    "state": describe(e),
                    "writable": mounted.writable,
                    "source": mounted.source,
                }),
            }
        })
        .collect();
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)
}

/// `given`: a path that was asked for, and how it is in the mounts.
fn print(
    out: &mut impl Write,
    states: &[(Mounted, io::Result<MountStatus>)],
    given: Option<(&Path, &str)>,
) -> io::Result<()> {
    if states.is_empty() {
        return writeln!(out, "no arrayfs mounts");
    }
    for (mounted, state) in states {
        writeln!(out, "{}", output::path_text(&mounted.mountpoint))?;
        if let Some((path, lies)) = given {
            writeln!(out, "  path    {} {lies}", output::path_text(path))?;
        }
        match state {
            Ok(state) => print_state(out, mounted, state)?,
            Err(e) => writeln!(
                out,
                "  {} (from {})",
                describe(e),
                one_line(&mounted.source)
            )?,
        }
    }
    Ok(())
}

fn print_state(out: &mut impl Write, mounted: &Mounted, state: &MountStatus) -> io::Result<()> {
    let access = match mounted.writable {
        true => "writable",
        false => "read-only",
    };
    writeln!(out, "  source  {}", one_line(&mounted.source))?;
    writeln!(out, "  access  {access}")?;
    writeln!(
        out,
        "  daemon  pid {}, version {}, {}, {}",
        state.pid,
        one_line(&state.version),
        counted(state.open_files as u64, "open file"),
        counted(state.open_containers as u64, "open container")
    )?;
    let cache = &state.cache;
    let rate = match cache.hit_rate {
        Some(rate) => format!("{:.1} % hits", rate * 100.0),
        None => "not used yet".to_owned(),
    };
    writeln!(
        out,
        "  cache   {} of {} in {}, {rate}, {} decoded",
        size::show(cache.used),
        size::show(cache.limit),
        counted(cache.blocks as u64, "block"),
        size::show(cache.decoded_bytes)
    )?;
    if let Some(remote) = &state.remote {
        writeln!(out, "  remote  {}", asked_of_store(remote))?;
    }
    print_counted(out, state)?;
    if state.views_listed {
        writeln!(out, "  views   listed")?;
    }
    if let Some(held) = &state.held_back {
        writeln!(out, "  saved   {}", saved_line(held))?;
        if held.files > 0 {
            let (files, bytes) = (counted(held.files, "file"), size::show(held.bytes));
            writeln!(out, "  held    {bytes} of {files}, to be stored")?;
        }
    }
    let mut staged = state.staged.iter();
    staged.try_for_each(|staged| print_staged(out, staged))?;
    if let more @ 1.. = state.staged_unlisted {
        writeln!(out, "  staged  {}", counted(more, "more container"))?;
    }
    print_logged(out, &state.log)
}

/// What was asked of a store that is far away.
pub(super) fn asked_of_store(remote: &FarTraffic) -> String {
    let each = match remote.requests {
        0 => 0.0,
        requests => remote.seconds * 1e3 / requests as f64,
    };
    let asked = format!(
        "{}, {} fetched, {each:.0} ms each, {} again, {} failed",
        counted(remote.requests, "request"),
        size::show(remote.bytes),
        remote.retries,
        remote.failures
    );
    match remote.disk_hit_bytes {
        0 => asked,
        hit => format!("{asked}, {} out of the disk cache", size::show(hit)),
    }
}

/// Where the daemon logs, and its latest warnings.
fn print_logged(out: &mut impl Write, log: &LogStatus) -> io::Result<()> {
    if !log.to.is_empty() {
        writeln!(out, "  log     {}", one_line(&log.to))?;
    }
    for warning in &log.warnings {
        let times = match warning.times {
            0 | 1 => String::new(),
            times => format!("{times} times, last "),
        };
        let level = match &*warning.level {
            "ERROR" => "error",
            _ => "warning",
        };
        let (last, what) = (one_line(&warning.last), one_line(&warning.text));
        writeln!(out, "  {level:7} {what} ({times}{last})")?;
    }
    Ok(())
}

/// What a scratch mount has encoded since it began.
fn saved_line(held: &HeldBackStatus) -> String {
    let (plain, stored) = (held.encoded_bytes, held.stored_bytes);
    let Some(ratio) = ratio_text(plain, stored) else {
        return "nothing stored since it was mounted".into();
    };
    let saved = size::show(plain.saturating_sub(stored));
    let (plain, stored) = (size::show(plain), size::show(stored));
    format!("{saved} since it was mounted: {plain} are stored in {stored}, ratio {ratio}")
}

fn saved_json(held: &HeldBackStatus) -> Value {
    let (plain, stored) = (held.encoded_bytes, held.stored_bytes);
    let ratio = (stored > 0).then(|| plain as f64 / stored as f64);
    json!({ "bytes": plain, "stored_bytes": stored, "ratio": ratio })
}

/// What was served since the mount began, and committed, if anything was.
fn print_counted(out: &mut impl Write, state: &MountStatus) -> io::Result<()> {
    let (served, counted) = (&state.requests, &state.counted);
    writeln!(
        out,
        "  served  {} read, {} written, requests: {}, I/O errors: {}",
        size::show(served.read_bytes),
        size::show(served.written_bytes),
        requests(state),
        served.io_errors
    )?;
    let (done, failed) = (counted.commits, counted.failed_commits);
    if (done, failed) != (0, 0) {
        writeln!(
            out,
            "  commits done: {done}, failed: {failed}, {} in {:.1} s",
            size::show(counted.commit_bytes),
            counted.commit_seconds
        )?;
    }
    match counted.worker_deaths {
        0 => Ok(()),
        deaths => writeln!(out, "  hdf5    workers that died: {deaths}"),
    }
}

/// How many requests were served, but for those of who watches.
pub(super) fn requests(state: &MountStatus) -> u64 {
    let kinds = state.requests.kinds.0.iter();
    let counts = kinds.filter(|(kind, _)| kind != "status");
    counts.fold(0, |sum, (_, counted)| sum.saturating_add(counted.count))
}

/// A container of which something is staged, and why it is not committed if that was tried.
fn print_staged(out: &mut impl Write, staged: &StagedStatus) -> io::Result<()> {
    let (held, logged) = (size::show(staged.bytes), size::show(staged.log_bytes));
    let path = output::path_text(Path::new(&staged.path));
    let log = staged.log.as_ref().map_or_else(String::new, |log| {
        format!(" {}", output::path_text(Path::new(log)))
    });
    let why = staged
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {}", one_line(why)));
    writeln!(
        out,
        "  staged  {path}, {held} in memory, {logged} in its log{log}{why}"
    )?;
    if let Some(unlogged) = &staged.unlogged {
        let (bytes, why) = (size::show(unlogged.bytes), one_line(&unlogged.why));
        writeln!(out, "  unsafe  {path}, {bytes} in no log: {why}")?;
    }
    match &staged.beside {
        None => Ok(()),
        Some(why) => writeln!(out, "  beside  {path}: {}", one_line(why)),
    }
}

/// Whether a mount is one of a scratch store.
pub(super) fn is_of_scratch(mountpoint: &Path) -> bool {
    of(mountpoint).is_ok_and(|status| status.held_back.is_some())
}

/// Whether the path leads to what the daemon has opened as its source.
pub(super) fn is_source(path: &Path, state: &MountStatus) -> bool {
    if is_url(path) {
        return state.remote_settings.is_some();
    }
    let found = std::fs::metadata(path).ok();
    let is_it = found.zip(state.source_id.as_ref());
    is_it.is_some_and(|(found, id)| id.device == found.dev() && id.inode == found.ino())
}

/// What keeps a daemon from telling.
pub(super) fn describe(e: &io::Error) -> String {
    match e.kind() {
        _ if is_dead(e) => "dead: the daemon has ended; clear it with arrayfs umount".into(),
        io::ErrorKind::PermissionDenied => "serving another user".into(),
        io::ErrorKind::TimedOut => "not answering".into(),
        HIDDEN => "hidden: something else is mounted over it".into(),
        _ => format!("unknown: {}", plain(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_below_another_one_is_not_asked() {
        let below = Mounted {
            mountpoint: "/".into(),
            root: "/".into(),
            source: "/data".into(),
            device: mount_table::device_at(Path::new("/proc")).unwrap(),
            writable: false,
        };
        let told = ask_mount(&below).unwrap_err();
        assert!(describe(&told).starts_with("hidden: "));
    }
}
