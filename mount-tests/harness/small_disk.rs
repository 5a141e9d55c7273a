//! A disk that is soon full: a file system of some megabytes, which only root can make.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use tempfile::TempDir;

use super::mounted::Mounted;
use super::place::open_directory;

/// A small file system of its own, and a mount over it if asked for.
pub struct SmallDisk {
    mounted: Option<Mounted>,
    disk: TempDir,
}

impl SmallDisk {
    /// `options` of the file system; those of the mount, if there is to be one.
    pub fn new(options: &str, mounted: Option<&[&str]>) -> Self {
        let mut small = SmallDisk {
            mounted: None,
            disk: open_directory(),
        };
        let options = std::ffi::CString::new(options).unwrap();
        let flags = MountFlags::empty();
        mount(
            "tmpfs",
            small.disk.path(),
            "tmpfs",
            flags,
            options.as_c_str(),
        )
        .unwrap();
        small.mounted = mounted.map(|options| Mounted::new(small.disk.path(), options));
        small
    }

    pub fn path(&self) -> &Path {
        match &self.mounted {
            Some(mounted) => mounted.path(),
            None => self.disk.path(),
        }
    }

    pub fn join(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    /// Mounts it.
    pub fn mount(&mut self, options: &[&str]) {
        self.mounted = Some(Mounted::new(self.disk.path(), options));
    }

    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().expect("a mount")
    }

    /// Process number of the daemon of the mount.
    pub fn daemon(&self) -> u32 {
        self.mounted.as_ref().expect("a mount").daemon()
    }

    /// The disk has another size from now on.
    pub fn grow(&self, options: &str) {
        let options = std::ffi::CString::new(options).unwrap();
        mount_remount(self.disk.path(), MountFlags::empty(), options.as_c_str()).unwrap();
    }

    /// Somebody has ended the mount.
    pub fn was_unmounted(&mut self) {
        self.mounted.take().expect("a mount").assert_ends();
    }

    /// Ends the mount.
    pub fn unmount(&mut self) {
        drop(self.mounted.take());
    }

    /// A file as it lies on the disk.
    pub fn stored(&self, path: &str) -> PathBuf {
        self.disk.path().join(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // If this panics, the disk must go nevertheless.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.mounted.take()));
        let _ = unmount(self.disk.path(), UnmountFlags::DETACH);
        if let Err(panic) = ended
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
