//! A connection to the kernel that somebody else has mounted, and handed over: `/dev/fd/N` in the
//! place of a mountpoint, as libfuse takes it.
//!
//! A container runtime, or a program with more rights, has opened `/dev/fuse` and called mount(2)
//! with that descriptor; this process has inherited it, and serves. Who mounted unmounts. Used by
//! `cli`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::mount_table::{self, Device, ServedAt};

/// The device of FUSE, the same on every Linux.
const FUSE: (u32, u32) = (10, 229);

/// What a mountpoint is that is spelled `/dev/fd/N`.
#[derive(Debug)]
pub enum HandedDescriptor {
    /// A connection to the kernel; a copy of the descriptor.
    Connection(OwnedFd),
    /// Something else, a directory perhaps.
    Other,
    /// Nothing that is open.
    Closed,
}

/// The number in `/dev/fd/N`.
pub fn number_in(mountpoint: &Path) -> Option<RawFd> {
    let number = mountpoint.strip_prefix("/dev/fd").ok()?.to_str()?;
    number.parse().ok().filter(|number| *number >= 0)
}

/// Looks at a descriptor that this process was started with.
pub fn look_at(number: RawFd) -> io::Result<HandedDescriptor> {
    // SAFETY: asks about a number, whatever it stands for.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Ok(HandedDescriptor::Closed);
    }
    // SAFETY: it is open, was so before anything of this process, and is closed by nothing before
    // this function returns: the process has one thread.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = given.try_clone_to_owned()?;
    let copy = File::from(copy);
    let found = copy.metadata()?;
    let device = (
        rustix::fs::major(found.rdev()),
        rustix::fs::minor(found.rdev()),
    );
    Ok(match found.file_type().is_char_device() && device == FUSE {
        true => HandedDescriptor::Connection(copy.into()),
        false => HandedDescriptor::Other,
    })
}

/// The number of the mount that a connection serves, on kernels that show it.
pub fn device_of(connection: &OwnedFd) -> Option<Device> {
    let path = format!("/proc/self/fdinfo/{}", connection.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("fuse_connection:"))?;
    Some(Device::of_connection(number.trim().parse().ok()?))
}

/// Where that is mounted, if this process sees it.
pub fn served_at(device: Device) -> Option<ServedAt> {
    mount_table::served_at(device).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_behind_dev_fd() {
        let number = |path: &str| number_in(Path::new(path));
        assert_eq!(
            (number("/dev/fd/3"), number("/dev/fd/17")),
            (Some(3), Some(17))
        );
        for other in [
            "/dev/fd",
            "/dev/fd/",
            "/dev/fd/-1",
            "/dev/fd/3/x",
            "/mnt/3",
            "dev/fd/3",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_connection_is_told_from_one() {
        let null = File::open("/dev/null").unwrap();
        let found = look_at(null.as_raw_fd()).unwrap();
        assert!(matches!(found, HandedDescriptor::Other));
        assert!(matches!(
            look_at(100_000).unwrap(),
            HandedDescriptor::Closed
        ));
        assert_eq!(device_of(&null.into()), None);
    }
}
