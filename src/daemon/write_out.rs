//! Having the kernel write out what it still holds of a mount: pages that programs changed through
//! shared mappings.
//!
//! The kernel sends them to the daemon as writes, so the daemon's main thread may ask for it while
//! other threads serve. syncfs(2) hands them over; many kernels do not wait for the daemon's
//! answers, so these are waited for where the kernel shows how many it lacks. The caller is held up
//! as long as the daemon is: everything here is called in a thread that can be left behind. Used by
//! what unmounts.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use rustix::fs::{Mode, OFlags, open, syncfs};

use super::connection;
use super::mount_table::{Device, device_at, device_of};

/// How long the answers to what was handed over are waited for: a slow disk takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The root of a mount, held open. It keeps the mount in use.
pub struct MountRoot {
    directory: OwnedFd,
    device: Device,
}

impl MountRoot {
    /// `None` when the path leads elsewhere.
    pub fn open(mountpoint: &Path, device: Device) -> io::Result<Option<MountRoot>> {
        // Looked at before: what is mounted over it may be anything.
        if device_at(mountpoint)? != device {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(mountpoint, flags, Mode::empty())?;
        let same = device_of(&directory)? == device;
        Ok(same.then_some(MountRoot { directory, device }))
    }

    /// Returns when everything that was changed until now has been written. An error means that
    /// some of it is lost.
    pub fn write_out(&self) -> io::Result<()> {
        syncfs(&self.directory)?;
        if wait_for_answers(self.device) {
            // An error that the daemon answered is returned by the next one only.
            syncfs(&self.directory)?;
        }
        Ok(())
    }
}

/// Returns when everything that was written to the file system of a directory has reached its disk.
pub fn sync_source(directory: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(syncfs(&open(directory, flags, Mode::empty())?)?)
}

/// Whether there was something to wait for.
fn wait_for_answers(device: Device) -> bool {
    let lacking = || connection::waiting(device).is_some_and(|answers| answers > 0);
    let deadline = Instant::now() + PATIENCE;
    let mut waited = false;
    while lacking() && Instant::now() < deadline {
        waited = true;
        std::thread::sleep(BETWEEN_LOOKS);
    }
    waited
}

/// Runs `work` in a thread of its own and hands out what it returns.
pub fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<Receiver<io::Result<T>>> {
    let (sender, result) = bounded(1);
    std::thread::Builder::new()
        .name("write-out".into())
        .spawn(move || {
            // The caller may have gone on.
            let _ = sender.send(work());
        })?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_another_file_system_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let device = device_at(directory.path()).unwrap();
        let opened = |path, device| MountRoot::open(path, device).unwrap().is_some();
        assert!(opened(directory.path(), device));
        assert!(!opened(Path::new("/proc"), device));
        assert!(MountRoot::open(&directory.path().join("none"), device).is_err());
    }

    #[test]
    fn what_is_done_aside_is_handed_out() {
        let done = aside(|| Ok(7)).unwrap().recv().unwrap();
        assert_eq!(done.unwrap(), 7);
    }
}
