//! `arrayfs umount`: unmount, and wait until the daemon has ended.

use std::io;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Failure, Outcome, status};
use crate::daemon::mount_table;
use crate::kernel::session;

pub(super) fn run(mountpoint: &Path) -> Outcome {
    let path = mounted_path(mountpoint)?;
    match status::of(&path) {
        Ok(status) => {
            let daemon = status["pid"]
                .as_i64()
                .and_then(|pid| i32::try_from(pid).ok());
            let watched = daemon.and_then(watch);
            unmount(&path, false)?;
            watched.map_or(Ok(()), wait)
        }
        // The daemon has died, or this user may not look into the mount.
        Err(e) if status::is_dead(&e) => unmount(&path, true),
        Err(_) => unmount(&path, false),
    }
}

/// The mountpoint as the mount table spells it; a dead mount cannot be resolved, its parent can.
fn mounted_path(mountpoint: &Path) -> Result<PathBuf, Failure> {
    let failed = |e: io::Error| Failure::new(format!("{}: {e}", mountpoint.display()));
    let path = match mountpoint.canonicalize() {
        Ok(path) => path,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(failed(e)),
        Err(_) => {
            let absolute = std::path::absolute(mountpoint).map_err(failed)?;
            match (
                absolute.parent().map(Path::canonicalize),
                absolute.file_name(),
            ) {
                (Some(Ok(parent)), Some(name)) => parent.join(name),
                _ => absolute,
            }
        }
    };
    match mount_table::find(&path).map_err(failed)? {
        Some(_) => Ok(path),
        None => Err(Failure::new(format!(
            "{} is not an arrayfs mount; 'arrayfs status' lists those there are",
            mountpoint.display()
        ))),
    }
}

fn unmount(path: &Path, lazily: bool) -> Outcome {
    session::unmount(path, lazily).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => Failure::new(format!(
            "{} is in use: close the programs that use it and try again (fuser -vm {0} lists them)",
            path.display()
        )),
        Some(libc::EPERM) => Failure::new(format!(
            "{}: only root or who mounted it may unmount it",
            path.display()
        )),
        _ => Failure::new(format!("cannot unmount {}: {e}", path.display())),
    })
}

/// A descriptor of the daemon's process, taken before the unmount: its number could be used again.
fn watch(pid: i32) -> Option<rustix::fd::OwnedFd> {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let is_ours = comm.starts_with("arrayfs") || comm.starts_with("mount.fuse.arra");
    is_ours
        .then(|| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok())
        .flatten()
}

/// A process descriptor becomes readable when the process has ended.
fn wait(daemon: rustix::fd::OwnedFd) -> Outcome {
    loop {
        match poll(&mut [PollFd::new(&daemon, PollFlags::IN)], None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new(format!("cannot wait for the daemon: {e}"))),
        }
    }
}
