//! `arrayfs umount`: have everything written and committed, unmount, and wait until the daemon has
//! ended.
//!
//! What stays staged is named and safe, and keeps no mount: it is unmounted all the same, and the
//! exit status is 1. What could not even be given to a log would be lost, and keeps the mount.
//!
//! The wait is bounded: a daemon serves as long as the file system is mounted anywhere, and that
//! may be in mount namespaces which this process has no say in.

mod named;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::failure::{CommandResult, Failure};
use super::mount_programs::UmountHelper;
use super::which_mount::{WhichMount, no_mount, spelled, which_mount};
use super::{output, progress, status};
use crate::daemon::connection;
use crate::daemon::mount_table::{self, Mounted};
use crate::daemon::processes;
use crate::daemon::write_out::{self, MountRoot};
use crate::error::plain;
use crate::kernel::session;
use crate::tree::xattr::{COMMIT, COMMIT_QUICKLY};
use named::Unfinished;

/// How long the daemon may take to end, once the mount is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// As long as a daemon writes it is waited for; one that is stopped does not.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How it is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Usual,
    /// What would take long to commit, or to merge, stays in its log.
    Quick,
    /// For umount(8): what would be lost is named, and keeps no mount.
    Whatever,
}

pub(super) fn run(mountpoint: &Path, quick: bool) -> CommandResult {
    let manner = if quick { Manner::Quick } else { Manner::Usual };
    match unmounted(mountpoint, manner)? {
        Unfinished::Nothing => Ok(()),
        // Each has been named.
        Unfinished::Staged => Err(Failure::silent()),
    }
}

/// As umount(8) has it, which unmounts what can be unmounted.
pub(super) fn run_for_system(asked: &UmountHelper) -> CommandResult {
    match asked.lazy {
        true => unmount(&mounted_at(&asked.mountpoint)?, true),
        false => unmounted(&asked.mountpoint, Manner::Whatever).map(|_| ()),
    }
}

/// Says whether something stays.
fn unmounted(mountpoint: &Path, manner: Manner) -> Result<Unfinished, Failure> {
    let mounted = mounted_at(mountpoint)?;
    let done = |()| Unfinished::Nothing;
    match status::of(&mounted.mountpoint) {
        Ok(status) => commit_and_unmount(&mounted, manner, Some(status.pid)),
        // The daemon has died, or this user may not look into the mount.
        Err(e) if status::is_dead(&e) => {
            // It may just be ending.
            let daemon = processes::daemon_of(mounted.device, &mounted.mountpoint);
            let watched = daemon.and_then(Daemon::watch);
            unmount(&mounted, true)?;
            let ended = watched.map_or(Ok(()), |daemon| daemon.wait(&mounted));
            ended.map(done)
        }
        // The question waits in the kernel and keeps the mount in use.
        Err(e) if e.kind() == io::ErrorKind::TimedOut => {
            let dead = end_dead(&mounted)?.ok_or_else(|| no_answer(&mounted))?;
            unmount(&mounted, true)?;
            dead.wait(&mounted).map(done)
        }
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => unmount(&mounted, false).map(done),
        // It serves, only its status cannot be read, which is no reason to leave anything staged.
        Err(_) => {
            let daemon = processes::daemon_of(mounted.device, &mounted.mountpoint);
            commit_and_unmount(&mounted, manner, daemon)
        }
    }
}

fn commit_and_unmount(
    mounted: &Mounted,
    manner: Manner,
    daemon: Option<u32>,
) -> Result<Unfinished, Failure> {
    let watched = daemon.and_then(Daemon::watch);
    let mut left = Unfinished::Nothing;
    if mounted.writable {
        keep_mount(write_out(mounted), manner)?;
        left = commit(mounted, manner)?;
    }
    unmount(mounted, false)?;
    watched.map_or(Ok(()), |daemon| daemon.wait(mounted))?;
    Ok(left)
}

/// What would be lost keeps the mount, unless it is unmounted whatever that is.
fn keep_mount(kept: CommandResult, manner: Manner) -> CommandResult {
    match (kept, manner) {
        (Err(failure), Manner::Whatever) => {
            let why = failure
                .message
                .replace("is not unmounted", "is unmounted nevertheless");
            // How to do it is what is being done.
            let why = why.split("; to unmount it nevertheless").next();
            output::complain(why.unwrap_or_default());
            Ok(())
        }
        (kept, _) => kept,
    }
}

/// The mount, its mountpoint as the mount table spells it.
fn mounted_at(mountpoint: &Path) -> Result<Mounted, Failure> {
    let mounted = match which_mount(mountpoint)? {
        Some(WhichMount::At(mounted)) => mounted,
        Some(WhichMount::In(mounted)) => {
            return Err(is_no_mountpoint(mountpoint, "lies in", &mounted));
        }
        Some(WhichMount::Shown(mounts)) => {
            let mounted = mounts.first().ok_or_else(|| no_mount(mountpoint))?;
            return Err(is_no_mountpoint(mountpoint, "is shown by", mounted));
        }
        None => return Err(not_mounted(mountpoint)),
    };
    // Unmounting goes by path and would hit what lies on top.
    match mount_table::device_at(&mounted.mountpoint) {
        Ok(device) if device != mounted.device => Err(Failure::new(format!(
            "another file system is mounted over the arrayfs mount at {0}; unmount that first: umount {0}",
            mountpoint.display()
        ))),
        _ => Ok(mounted),
    }
}

/// What the guardian does last, if it is told so: unmounts what a daemon that died has left at the
/// place, unless that is another mount by now.
pub(super) fn left_behind(place: &[OsString]) -> CommandResult {
    let [device, mountpoint] = place else {
        return Ok(());
    };
    let mountpoint = Path::new(mountpoint);
    let found = mount_table::find(mountpoint).map_err(Failure::new)?;
    let is_it = found.is_some_and(|mounted| *mounted.device.to_string() == **device);
    // The kernel would tell the root's attributes by heart; this it has to ask.
    let is_dead = || status::of(mountpoint).is_err_and(|e| status::is_dead(&e));
    match is_it && is_dead() {
        true => session::unmount(mountpoint, true).map_err(Failure::new),
        false => Ok(()),
    }
}

fn is_no_mountpoint(given: &Path, lies: &str, mounted: &Mounted) -> Failure {
    let (given, at) = (given.display(), spelled(mounted, given));
    let at = at.display();
    Failure::new(format!(
        "{given} {lies} the arrayfs mount at {at}; unmount that: arrayfs umount {at}"
    ))
}

fn not_mounted(path: &Path) -> Failure {
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Failure::new(format!(
            "{} does not exist; 'arrayfs status' lists the mounts there are",
            path.display()
        )),
        _ => no_mount(path),
    }
}

/// Has the kernel write out what programs changed in mapped files; what cannot be written is not
/// given up here.
fn write_out(mounted: &Mounted) -> CommandResult {
    let (mountpoint, device) = (mounted.mountpoint.clone(), mounted.device);
    let done = write_out::aside(move || {
        let root = MountRoot::open(&mountpoint, device)?;
        root.map_or(Ok(()), |root| root.write_out())
    });
    let failed = |e: &io::Error| {
        let path = mounted.mountpoint.display();
        Failure::new(format!(
            "{path} is not unmounted: what programs changed in mapped files cannot all be written, and may be \
             lost: {}; the log says what failed; to unmount it nevertheless: umount {path}",
            plain(e)
        ))
    };
    let done = done.map_err(|e| failed(&e))?;
    match answer(mounted, &done)? {
        Err(e) if status::is_dead(&e) || e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome.map_err(|e| failed(&e)),
    }
}

/// Has the daemon commit what has been written to arrays, however long that takes, and names what
/// stays staged.
fn commit(mounted: &Mounted, manner: Manner) -> Result<Unfinished, Failure> {
    let mountpoint = mounted.mountpoint.clone();
    let request = match manner {
        Manner::Quick => COMMIT_QUICKLY,
        Manner::Usual | Manner::Whatever => COMMIT,
    };
    let flags = rustix::fs::XattrFlags::empty();
    let done = write_out::aside(move || {
        rustix::fs::setxattr(&mountpoint, request, b"", flags).map_err(io::Error::from)
    });
    let path = mounted.mountpoint.display();
    let failed = |e: io::Error| Failure::new(format!("{path} is not unmounted: {}", plain(&e)));
    let mut progress = StoringProgress::new();
    let done = answer_watched(mounted, &done.map_err(failed)?, &mut || {
        progress.look(&mounted.mountpoint);
    });
    progress.bar.finish_and_clear();
    match done? {
        Ok(()) => {}
        // A user who may not ask for it leaves it to the end of the daemon.
        Err(e) if may_not_ask(&e) || status::is_dead(&e) => return Ok(Unfinished::Nothing),
        Err(e) => return Err(failed(e)),
    }
    match status::of(&mounted.mountpoint) {
        Ok(status) => {
            let held = status.held_back.clone().unwrap_or_default();
            keep_mount(named::refuse_unstored(mounted, &held), manner)?;
            keep_mount(named::refuse_unlogged(mounted, &status), manner)?;
            let logged = named::name_logged(&held);
            named::name_not_kept(&status);
            let staged = named::name_staged(&status);
            let is_all = logged == Unfinished::Nothing;
            Ok(if is_all { staged } else { logged })
        }
        Err(e) => {
            let (path, e) = (mounted.mountpoint.display(), plain(&e));
            output::complain(format!(
                "{path}: what stays staged cannot be told: {e}; 'arrayfs stage ls' lists it"
            ));
            Ok(Unfinished::Staged)
        }
    }
}

fn may_not_ask(e: &io::Error) -> bool {
    let code = e.raw_os_error();
    let unsupported = matches!(code, Some(libc::EOPNOTSUPP | libc::ENODATA | libc::EROFS));
    e.kind() == io::ErrorKind::PermissionDenied || unsupported
}

/// How far a scratch mount is with storing what it has held back.
struct StoringProgress {
    bar: ProgressBar,
    most: u64,
}

impl StoringProgress {
    fn new() -> StoringProgress {
        let bar = progress::of_bytes(true);
        StoringProgress { bar, most: 0 }
    }

    fn look(&mut self, mountpoint: &Path) {
        if self.bar.is_hidden() {
            return;
        }
        let status = status::of(mountpoint);
        let held = status.ok().and_then(|status| status.held_back);
        let held = held.map(|held| held.bytes);
        let Some(held) = held.filter(|held| *held > 0 || self.most > 0) else {
            return;
        };
        self.most = self.most.max(held);
        self.bar.set_length(self.most);
        self.bar.set_position(self.most - held);
    }
}

/// What is done aside comes to, as long as the daemon is not stopped.
fn answer<T>(mounted: &Mounted, done: &Receiver<io::Result<T>>) -> Result<io::Result<T>, Failure> {
    answer_watched(mounted, done, &mut || {})
}

fn answer_watched<T>(
    mounted: &Mounted,
    done: &Receiver<io::Result<T>>,
    watch: &mut dyn FnMut(),
) -> Result<io::Result<T>, Failure> {
    loop {
        match done.recv_timeout(BETWEEN_LOOKS) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => {
                watch();
                end_dead(mounted)?;
                let pid = processes::daemon_of(mounted.device, &mounted.mountpoint);
                if pid.is_some_and(processes::is_stopped) {
                    return Err(no_answer(mounted));
                }
            }
            Err(e) => return Ok(Err(io::Error::other(e))),
        }
    }
}

/// Ends the connection of a killed daemon that cannot exit because programs wait for it: they wait
/// no more.
fn end_dead(mounted: &Mounted) -> Result<Option<Daemon>, Failure> {
    let dead = processes::dead_daemon_of(mounted.device, &mounted.mountpoint);
    let Some(dead) = dead.and_then(Daemon::watch) else {
        return Ok(None);
    };
    connection::abort(mounted.device).map_err(|e| {
        Failure::new(format!(
            "{} is not unmounted: its daemon (pid {}) has been killed, and programs wait for it; only root or who \
             mounted it may end that: {}",
            mounted.mountpoint.display(),
            dead.pid,
            plain(&e)
        ))
    })?;
    Ok(Some(dead))
}

fn unmount(mounted: &Mounted, lazily: bool) -> CommandResult {
    let path = mounted.mountpoint.display();
    session::unmount(&mounted.mountpoint, lazily).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => Failure::new(format!(
            "{path} is in use: close the programs that use it and try again (fuser -vm {path} lists them)"
        )),
        Some(libc::EPERM) => Failure::new(format!(
            "{path}: only root or who mounted it may unmount it"
        )),
        _ => Failure::new(format!("cannot unmount {path}: {e}")),
    })
}

/// What to do about a daemon that does not say how it is.
fn no_answer(mounted: &Mounted) -> Failure {
    let path = mounted.mountpoint.display();
    Failure::new(
        match processes::daemon_of(mounted.device, &mounted.mountpoint) {
            Some(pid) if processes::is_stopped(pid) => format!(
                "{path} is not unmounted: its daemon (pid {pid}) is stopped and does not answer; let it go on \
             (kill -CONT {pid}) and try again, or end it (kill -KILL {pid}; arrayfs umount {path})"
            ),
            Some(pid) => format!(
                "{path} is not unmounted: its daemon (pid {pid}) does not answer; try again later, or end it \
             (kill -KILL {pid}; arrayfs umount {path})"
            ),
            None => format!(
                "{path} is not unmounted: its daemon does not answer; try again later, or end it: \
             pgrep -ax arrayfs lists daemons, kill -KILL PID ends one, then arrayfs umount {path}"
            ),
        },
    )
}

/// A daemon and a descriptor of its process, taken before the unmount: its number could be used
/// again.
struct Daemon {
    pid: u32,
    process: OwnedFd,
}

impl Daemon {
    fn watch(pid: u32) -> Option<Self> {
        let process = Pid::from_raw(pid.try_into().ok()?)
            .filter(|_| processes::is_ours(pid))
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())?;
        Some(Daemon { pid, process })
    }

    /// Waits until it has ended, or says why it has not.
    fn wait(&self, unmounted: &Mounted) -> CommandResult {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            // A process descriptor becomes readable when the process has ended.
            match poll(
                &mut [PollFd::new(&self.process, PollFlags::IN)],
                Some(&left),
            ) {
                Ok(0) => return Err(self.goes_on(unmounted)),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Failure::new(format!("cannot wait for the daemon: {e}"))),
            }
        }
    }

    fn goes_on(&self, unmounted: &Mounted) -> Failure {
        let Mounted {
            mountpoint, device, ..
        } = unmounted;
        let elsewhere = mount_table::mounts().unwrap_or_default();
        let elsewhere = elsewhere
            .into_iter()
            .find(|mounted| mounted.device == *device);
        let holders = processes::holders(*device);
        let why = match (elsewhere, holders.first()) {
            (Some(other), _) => {
                let at = other.mountpoint.display();
                format!("it is mounted at {at}, too; unmount that: umount {at}")
            }
            (None, Some(holder)) => {
                let (pid, at) = (holder.pid, holder.mountpoint.display());
                format!(
                    "another mount namespace, that of process {pid}, has a copy of the mount; the daemon \
                     ends when that does, or: nsenter -t {pid} -m umount {at}"
                )
            }
            (None, None) => {
                "it is busy, or a mount namespace that cannot be seen from here has a copy \
                             of the mount; the daemon ends when that is gone"
                    .to_owned()
            }
        };
        Failure::new(format!(
            "{} is unmounted, but its daemon (pid {}) goes on: {why}",
            mountpoint.display(),
            self.pid
        ))
    }
}
