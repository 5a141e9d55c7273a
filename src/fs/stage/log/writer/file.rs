//! The file of a log: made under the first name that can be had, locked while it is open.
//!
//! A file that lies under a name already may be another process's, or was not recovered, and is
//! kept. Used by [`super`].

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::super::{FoundLog, LogSpot, log_names, read_log};
use crate::disk::reopened::{AtPath, Hooks, ReopenedFile};
use crate::disk::{DiskFile, Trial};
use crate::error::{Error, Result};
use crate::source::on_descriptor;
use crate::stage::place::LogPlace;

/// A log is locked while it is open: one writes. As long as it is closed the source's lock keeps
/// others out.
const LOCKED: Hooks = Hooks {
    opened: lock,
    closing: unlock,
};

/// Where a file system has no locks another process is not noticed.
fn lock(file: &dyn DiskFile) -> Result<()> {
    let lock = FlockOperation::NonBlockingLockExclusive;
    let locked = on_descriptor(file.source(), |fd| {
        rustix::io::retry_on_intr(|| flock(fd, lock))
    });
    match locked {
        Ok(Err(e @ Errno::WOULDBLOCK)) => Err(Error::io(
            "another process writes to the log of the stage",
            e,
        )),
        _ => Ok(()),
    }
}

/// Closing would not do: a process that is just being started has the file open too until it runs
/// its program.
fn unlock(file: &dyn DiskFile) {
    let unlocked = on_descriptor(file.source(), |fd| flock(fd, FlockOperation::Unlock));
    if let Ok(Err(e)) = unlocked {
        log::debug!("a log stays locked: {e}");
    }
}

/// Where a log of this name lies when it is opened again.
pub(super) fn path_of(place: &Arc<dyn LogPlace>, name: &OsStr) -> AtPath {
    let (place, name) = (Arc::clone(place), name.to_owned());
    Arc::new(move |open| place.retry(&mut || open(&place.spot()?.directory.join(&name))))
}

/// A log that is written from now on.
pub(super) fn opened(
    (place, spot): (&Arc<dyn LogPlace>, &LogSpot),
    name: &OsStr,
    file: Arc<dyn DiskFile>,
) -> Result<Arc<ReopenedFile>> {
    ReopenedFile::new(&spot.disk, path_of(place, name), file, LOCKED)
}

/// The file of a log, and the name that it has got.
pub(super) fn create_file(spot: &LogSpot) -> Result<(OsString, Arc<dyn DiskFile>)> {
    let mut taken = None;
    for name in log_names(&spot.container) {
        match create_named(spot, &name) {
            Ok(file) => return Ok((name, file)),
            Err(e) if e.is_already_there() => taken = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(taken.unwrap_or(Error::NotFound))
}

fn create_named(spot: &LogSpot, name: &OsStr) -> Result<Arc<dyn DiskFile>> {
    let create = || spot.disk.create(spot.place(name), 0o600, spot.owner);
    let taken = match create() {
        Err(e) if e.is_already_there() => e,
        made => return made,
    };
    match is_left_over(spot, name) && spot.disk.unlink(spot.place(name)).is_ok() {
        true => create(),
        false => Err(taken),
    }
}

/// A crash has left it, and nothing in it ever reached the disk.
fn is_left_over(spot: &LogSpot, name: &OsStr) -> bool {
    matches!(read_log(&spot.of(), name), Ok(FoundLog::Nothing))
}

/// Fails if no log could be made.
pub(crate) fn try_to_create(spot: &LogSpot, trial: Trial) -> Result<()> {
    let try_name = |name: &OsStr| spot.disk.try_create(spot.place(name), trial, spot.owner);
    let mut taken = None;
    for name in log_names(&spot.container) {
        match try_name(&name) {
            Err(e) if e.is_already_there() && !is_left_over(spot, &name) => taken = Some(e),
            Err(e) if !e.is_already_there() => return Err(e),
            _ => return Ok(()),
        }
    }
    Err(taken.unwrap_or(Error::NotFound))
}
