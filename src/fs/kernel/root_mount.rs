//! mount(2) by a process that may, with the type `fuse.arrayfs`.
//!
//! fuser 0.18 mounts as plain `fuse` when it is root, so that `mount -t fuse.arrayfs`, fstab and
//! `status` would not find the mount; users other than root go through fusermount3, which does it
//! right.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use super::session::{Options, fs_name};

/// Mounts and returns the connection to the kernel.
pub(super) fn mount_as_root(mountpoint: &Path, options: &Options) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let root_mode = std::fs::metadata(mountpoint)?.mode();
    let mut data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={},default_permissions,max_read={}",
        device.as_raw_fd(),
        rustix::process::getuid(),
        rustix::process::getgid(),
        super::config::READ
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = std::ffi::CString::new(data)?;
    let source = fs_name(&options.source_name);
    mount(
        source.as_str(),
        mountpoint,
        "fuse.arrayfs",
        flags(options),
        data.as_c_str(),
    )?;
    Ok(device.into())
}

fn flags(options: &Options) -> MountFlags {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, !options.writable);
    flags.set(MountFlags::SYNCHRONOUS, options.sync);
    flags.set(MountFlags::DIRSYNC, options.dirsync);
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::NODEV, !options.dev);
    flags.set(MountFlags::NOEXEC, !options.exec);
    flags.set(MountFlags::NOATIME, !options.atime);
    flags.set(MountFlags::NOSYMFOLLOW, !options.symfollow);
    flags
}
