//! `arrayfs status`: the mounts, their daemons and caches.
//!
//! Every daemon shows its state in an extended attribute of its root, so there is no socket to find
//! and the mount's own permissions decide which users may ask.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::counted::counted;
use super::in_mount::InMount;
use super::saved::SavedRoom;
use super::{CommandResult, Failure, output, size};
use crate::daemon::mount_table::{self, Mounted};
use crate::error::plain;
use crate::tree::xattr::STATUS;

pub(super) fn run(mountpoint: Option<&Path>, json: bool) -> CommandResult {
    let mut mounts = mount_table::mounts().map_err(Failure::new)?;
    if let Some(wanted) = mountpoint {
        let path = wanted.canonicalize().unwrap_or_else(|_| wanted.to_owned());
        // A dead mount is found by its path alone, any other one by what lies in it, too.
        let mountpoint = match InMount::at(&path) {
            Ok(Some(place)) => place.mounted.mountpoint,
            _ => path,
        };
        mounts.retain(|mounted| mounted.mountpoint == mountpoint);
        if mounts.is_empty() {
            return Err(Failure::new(format!(
                "{} is not an arrayfs mount; 'arrayfs status' lists those there are",
                wanted.display()
            )));
        }
    }
    let states: Vec<(Mounted, io::Result<Value>)> = mounts
        .into_iter()
        .map(|mounted| {
            let state = of(&mounted.mountpoint);
            (mounted, state)
        })
        .collect();
    output::print(|out| match json {
        true => print_json(out, &states),
        false => print(out, &states),
    })?;
    let mut dead = states
        .iter()
        .filter(|(_, state)| state.as_ref().is_err_and(is_dead))
        .peekable();
    if dead.peek().is_none() {
        return Ok(());
    }
    for (mounted, _) in dead {
        let path = mounted.mountpoint.display();
        output::complain(format!(
            "{path}: the daemon has ended; clear the mount: arrayfs umount {path}"
        ));
    }
    Err(Failure::silent())
}

/// A daemon that does not answer for this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the daemon of a mount says. Asked in a thread: a daemon that is stopped would hold us up
/// for good.
pub(super) fn of(mountpoint: &Path) -> io::Result<Value> {
    let (sender, answer) = crossbeam_channel::bounded(1);
    let mountpoint = mountpoint.to_owned();
    std::thread::Builder::new().spawn(move || {
        // The receiver is gone after the time limit.
        let _ = sender.send(ask(&mountpoint));
    })?;
    answer
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn ask(mountpoint: &Path) -> io::Result<Value> {
    let mut value = vec![0; 65536];
    let n = rustix::fs::getxattr(mountpoint, STATUS, &mut value[..])?;
    value.truncate(n);
    serde_json::from_slice(&value).map_err(io::Error::other)
}

/// Whether an error of a mount says that its daemon has ended.
pub(super) fn is_dead(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED))
}

fn print_json(out: &mut impl Write, states: &[(Mounted, io::Result<Value>)]) -> io::Result<()> {
    let all: Vec<Value> = states
        .iter()
        .map(|(mounted, state)| {
            let mountpoint = output::path_text(&mounted.mountpoint);
            match state {
                Ok(state) => {
                    let mut state = state.clone();
                    // The mount table's is spelled so that nothing of it is lost.
                    state["source"] = mounted.source.clone().into();
                    if is_scratch(&state) {
                        state["saved"] = SavedRoom::of(&mounted.mountpoint).json();
                    }
                    json!({
                        "mountpoint": mountpoint,
                        "state": "serving",
                        "writable": mounted.writable,
                        "daemon": state,
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

fn print(out: &mut impl Write, states: &[(Mounted, io::Result<Value>)]) -> io::Result<()> {
    if states.is_empty() {
        return writeln!(out, "no arrayfs mounts");
    }
    for (mounted, state) in states {
        writeln!(out, "{}", output::path_text(&mounted.mountpoint))?;
        match state {
            Ok(state) => print_state(out, mounted, state)?,
            Err(e) => writeln!(out, "  {} (from {})", describe(e), mounted.source)?,
        }
    }
    Ok(())
}

fn print_state(out: &mut impl Write, mounted: &Mounted, state: &Value) -> io::Result<()> {
    let number = |name: &str| state["cache"][name].as_u64().unwrap_or(0);
    let access = match mounted.writable {
        true => "writable",
        false => "read-only",
    };
    let open = |name: &str, what| counted(state[name].as_u64().unwrap_or(0), what);
    writeln!(out, "  source  {}", mounted.source)?;
    writeln!(out, "  access  {access}")?;
    writeln!(
        out,
        "  daemon  pid {}, version {}, {}, {}",
        state["pid"],
        state["version"].as_str().unwrap_or("?"),
        open("open_files", "open file"),
        open("open_containers", "open container")
    )?;
    let rate = match state["cache"]["hit_rate"].as_f64() {
        Some(rate) => format!("{:.1} % hits", rate * 100.0),
        None => "not used yet".to_owned(),
    };
    writeln!(
        out,
        "  cache   {} of {} in {}, {rate}, {} decoded",
        size::show(number("used")),
        size::show(number("limit")),
        counted(number("blocks"), "block"),
        size::show(number("decoded_bytes"))
    )?;
    if state["views_listed"] == false {
        writeln!(out, "  views   not listed")?;
    }
    if is_scratch(state) {
        let saved = SavedRoom::of(&mounted.mountpoint).line();
        writeln!(out, "  saved   {saved}")?;
    }
    let held = |name: &str| state["held_back"][name].as_u64().unwrap_or(0);
    if held("files") > 0 {
        let (files, bytes) = (counted(held("files"), "file"), size::show(held("bytes")));
        writeln!(out, "  held    {bytes} of {files}, to be stored")?;
    }
    let staged = state["staged"].as_array();
    staged
        .into_iter()
        .flatten()
        .try_for_each(|staged| print_staged(out, staged))?;
    match state["staged_unlisted"].as_u64() {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "  staged  {}", counted(more, "more container")),
    }
}

/// A container of which something is staged, and why it is not committed if that was tried.
fn print_staged(out: &mut impl Write, staged: &Value) -> io::Result<()> {
    let held = size::show(staged["bytes"].as_u64().unwrap_or(0));
    let logged = size::show(staged["log_bytes"].as_u64().unwrap_or(0));
    let path = output::path_text(Path::new(staged["path"].as_str().unwrap_or("?")));
    let log = staged["log"].as_str();
    let log = log.map_or_else(String::new, |log| {
        format!(" {}", output::path_text(Path::new(log)))
    });
    let told = |name: &str| {
        let why = staged[name].as_str();
        why.map_or_else(String::new, |why| format!(": {why}"))
    };
    writeln!(
        out,
        "  staged  {path}, {held} in memory, {logged} in its log{log}{}",
        told("why")
    )?;
    match staged["beside"].is_null() {
        true => Ok(()),
        false => writeln!(out, "  beside  {path}{}", told("beside")),
    }
}

/// Whether a status is that of a scratch mount.
pub(super) fn is_scratch(state: &Value) -> bool {
    state["held_back"].is_object()
}

/// What keeps a daemon from telling.
pub(super) fn describe(e: &io::Error) -> String {
    match e.kind() {
        _ if is_dead(e) => "dead: the daemon has ended; clear it with arrayfs umount".into(),
        io::ErrorKind::PermissionDenied => "serving another user".into(),
        io::ErrorKind::TimedOut => "not answering".into(),
        _ => format!("unknown: {}", plain(e)),
    }
}
