//! Setting mode, owner and times of what was reached. Used by [`super`] alone.

use std::os::fd::AsFd;

use rustix::fs::{
    self, AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::{Errno, Result};

use super::Reached;
use crate::disk::{NewAttributes, NewTime, XattrSetting};

/// The owner first: a new one costs the set-user-id bits, which the mode may ask for.
pub(super) fn set(file: &Reached<'_>, to: &NewAttributes) -> Result<()> {
    // Setting nothing is what chown(2) does that sets nothing: it takes set-user-id bits away.
    if to.uid.is_some() || to.gid.is_some() || to.is_empty() {
        let (uid, gid) = (to.uid.map(Uid::from_raw), to.gid.map(Gid::from_raw));
        match file {
            Reached::Named(fd) => fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?,
            Reached::Open(fd) => fs::fchown(fd, uid, gid)?,
        }
    }
    if let Some(bits) = to.mode {
        let mode = Mode::from_raw_mode(bits & 0o7777);
        match file {
            // A descriptor with `O_PATH` is refused.
            Reached::Named(_) => fs::chmodat(CWD, file.name(), mode, AtFlags::empty())?,
            Reached::Open(fd) => fs::fchmod(fd, mode)?,
        }
    }
    match to.changes_times() {
        true => set_times(file, to),
        false => Ok(()),
    }
}

fn set_times(file: &Reached<'_>, to: &NewAttributes) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(to.atime),
        last_modification: timespec(to.mtime),
    };
    match file {
        Reached::Named(fd) => match fs::utimensat(fd.as_fd(), "", &times, AtFlags::EMPTY_PATH) {
            // Kernels before 5.8 do not know the flag.
            Err(Errno::INVAL | Errno::NOENT) => {
                fs::utimensat(CWD, file.name(), &times, AtFlags::empty())
            }
            set => set,
        },
        Reached::Open(fd) => fs::futimens(fd, &times),
    }
}

fn timespec(time: Option<NewTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(NewTime::Now) => (0, UTIME_NOW),
        Some(NewTime::At(time)) => (time.secs, time.nanos.into()),
    };
    Timespec { tv_sec, tv_nsec }
}

pub(super) fn xattr_flags(how: XattrSetting) -> XattrFlags {
    match how {
        XattrSetting::Any => XattrFlags::empty(),
        XattrSetting::Create => XattrFlags::CREATE,
        XattrSetting::Replace => XattrFlags::REPLACE,
    }
}
