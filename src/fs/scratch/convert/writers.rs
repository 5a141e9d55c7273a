//! Whether somebody has a file open for writing, whose bytes would be lost with it.
//!
//! The system says so to who asks for a lease on the file, which is given back at once; where it
//! gives none (another user's file, a network file system) nobody knows. Used by
//! [`super::exchange`].

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::source::{Source, on_descriptor};

/// `F_SETSIG`, which the libc crate does not have for every system.
const SET_SIGNAL: libc::c_int = 10;

pub(super) fn is_being_written(file: &dyn Source) -> bool {
    on_descriptor(file, is_refused).unwrap_or(false)
}

fn is_refused(file: BorrowedFd<'_>) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: calls that take numbers alone. Should somebody open the file before the lease is
    // given back, the signal is one that is ignored by default.
    unsafe {
        if libc::fcntl(fd, SET_SIGNAL, libc::SIGURG) != 0 {
            return false;
        }
        if libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0 {
            libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
            return false;
        }
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::source::Store;
    use crate::source::local::LocalStore;

    #[test]
    fn an_open_writer_is_seen() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("x");
        let writer = std::fs::File::create(&path).unwrap();
        let store = LocalStore::open(ground.path(), ground.path()).unwrap();
        let file = store.open(Path::new("x")).unwrap();
        assert!(is_being_written(&*file));
        drop(writer);
        assert!(!is_being_written(&*file));
        std::fs::write(&path, "the lease is given back").unwrap();
    }
}
