//! The kernel's end of a mount: how many answers it waits for, and how it is ended from outside.
//!
//! The kernel shows its connections in a file system of its own, `fusectl`, which systems mount
//! under `/sys`. Where it is not mounted, root looks into it without mounting it anywhere. Its
//! files belong to the user who mounted. Used by what unmounts, and by the guardian.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::mount_table::Device;

const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Opens what ends the connection of a file system that is mounted now. That is this connection for
/// ever: when it is gone, its number may be another's, and what is written here has no effect.
pub fn open_abort(device: Device) -> io::Result<File> {
    open(device, "abort", OFlags::WRONLY)
}

/// Ends the connection, so that no program waits for the daemon any more.
pub fn abort(device: Device) -> io::Result<()> {
    open_abort(device)?.write_all(b"1")
}

/// How many requests have not been answered, if the system shows it.
pub fn waiting(device: Device) -> Option<u64> {
    let mut text = String::new();
    let mut file = open(device, "waiting", OFlags::RDONLY).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn open(device: Device, name: &str, how: OFlags) -> io::Result<File> {
    let path = PathBuf::from(device.minor.to_string()).join(name);
    let how = how | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mounted = PathBuf::from(CONNECTIONS).join(&path);
    match rustix::fs::open(mounted, how, Mode::empty()) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?.into()),
    }
    Ok(openat(unmounted()?, &path, how, Mode::empty())?.into())
}

/// The root of the file system, mounted nowhere.
fn unmounted() -> io::Result<OwnedFd> {
    let file_system = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&file_system)?;
    let attributes = MountAttrFlags::empty();
    Ok(fsmount(
        &file_system,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::mount_table::device_at;

    #[test]
    fn what_is_no_connection_can_be_neither_asked_nor_ended() {
        let device = device_at(std::path::Path::new("/proc")).unwrap();
        assert_eq!(waiting(device), None);
        assert!(abort(device).is_err());
    }
}
