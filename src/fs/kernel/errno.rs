//! The one table from our errors to errno and log level.

use fuser::Errno;
use log::Level;

use crate::error::Error;

/// What the application gets, and how loudly the log speaks of it.
pub(super) fn errno(error: &Error) -> (Errno, Option<Level>) {
    match error {
        Error::Fault(_) => (Errno::EIO, Some(Level::Error)),
        Error::NotShown(_) => (Errno::EIO, Some(Level::Info)),
        Error::Io { cause, .. } => {
            let code = cause.raw_os_error().unwrap_or(libc::EIO);
            (Errno::from_i32(code), io_level(code))
        }
        // The kernel looks the path up again and opens the new version.
        Error::Changed { .. } => (Errno::ESTALE, Some(Level::Info)),
        Error::NotFound => (Errno::ENOENT, None),
        Error::NotADirectory => (Errno::ENOTDIR, None),
        Error::IsADirectory => (Errno::EISDIR, None),
        Error::Unsuitable => (Errno::EINVAL, None),
        Error::ReadOnly => (Errno::EROFS, None),
        // What cannot be stored: the application gets a number, the log says why.
        Error::Invalid(_) => (Errno::EINVAL, Some(Level::Warn)),
        Error::Computed(_) => (Errno::EPERM, Some(Level::Info)),
        Error::NotOpenForWriting => (Errno::EBADF, None),
        Error::BeyondTheEnd => (Errno::ENXIO, None),
        Error::NoAttribute => (Errno::ENODATA, None),
        Error::Unsupported => (Errno::EOPNOTSUPP, None),
        Error::Unwanted => (Errno::EINTR, None),
        Error::Bug(_) => (Errno::EIO, Some(Level::Error)),
    }
}

/// What an application does wrong, or races with, is its own affair.
fn io_level(code: i32) -> Option<Level> {
    match code {
        libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ENODATA => None,
        // So is what it asks for that the source's file system has no room or no way for.
        libc::EEXIST | libc::EISDIR | libc::ENOTEMPTY | libc::EXDEV | libc::EMLINK => None,
        libc::ENAMETOOLONG | libc::EINVAL | libc::EOPNOTSUPP | libc::ETXTBSY | libc::EBUSY => None,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::ERANGE | libc::E2BIG => None,
        libc::EACCES | libc::EPERM => Some(Level::Info),
        _ => Some(Level::Error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Fault, NotShown};
    use std::io;

    #[test]
    fn every_error_has_its_row() {
        let io = |code| Error::io("reading", io::Error::from_raw_os_error(code));
        let changed = Error::Changed { path: "x".into() };
        let table = [
            (
                Error::from(Fault::new("bad")),
                libc::EIO,
                Some(Level::Error),
            ),
            (
                Error::from(NotShown::new("elsewhere")),
                libc::EIO,
                Some(Level::Info),
            ),
            (io(libc::ENOENT), libc::ENOENT, None),
            (io(libc::EACCES), libc::EACCES, Some(Level::Info)),
            (io(libc::EIO), libc::EIO, Some(Level::Error)),
            (
                Error::io("reading", io::Error::other("?")),
                libc::EIO,
                Some(Level::Error),
            ),
            (changed, libc::ESTALE, Some(Level::Info)),
            (Error::NotFound, libc::ENOENT, None),
            (Error::NotADirectory, libc::ENOTDIR, None),
            (Error::IsADirectory, libc::EISDIR, None),
            (Error::Unsuitable, libc::EINVAL, None),
            (Error::ReadOnly, libc::EROFS, None),
            (Error::Invalid("?".into()), libc::EINVAL, Some(Level::Warn)),
            (Error::Computed("?".into()), libc::EPERM, Some(Level::Info)),
            (Error::NotOpenForWriting, libc::EBADF, None),
            (Error::BeyondTheEnd, libc::ENXIO, None),
            (io(libc::ENOSPC), libc::ENOSPC, None),
            (Error::NoAttribute, libc::ENODATA, None),
            (Error::Unsupported, libc::EOPNOTSUPP, None),
            (Error::Unwanted, libc::EINTR, None),
            (Error::Bug("x".into()), libc::EIO, Some(Level::Error)),
        ];
        for (error, code, level) in table {
            let (errno_found, level_found) = errno(&error);
            assert_eq!(errno_found.code(), code, "{error}");
            assert_eq!(level_found, level, "{error}");
        }
    }
}
