//! Which file systems take a file's new name to the disk together with the file.
//!
//! POSIX promises it of none: the directory is to be synced as well. Where the changes of names and
//! of files go to one journal in the order in which they were made, the sync of a file that has
//! just been made or renamed brings the journal that far, and another one of the directory would
//! only wait for the disk once more. Used by [`super`].

use std::fs;

/// File systems that do, by their types. Not Btrfs, which logs files apart from names, nor unknown
/// ones.
const JOURNALED: [&str; 3] = ["ext3", "ext4", "xfs"];

/// Whether the file system on this device does, as far as the system names its type. A device
/// number may be another file system's once this one has been unmounted: for callers that keep a
/// directory of it open.
pub(super) fn go_with_files(device: u64) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    type_of(&mounts, device).is_some_and(|of| JOURNALED.contains(&of))
}

fn type_of(mounts: &str, device: u64) -> Option<&str> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = format!("{major}:{minor}");
    let mut mounts = mounts.lines();
    mounts.find_map(|mount| {
        let (front, back) = mount.split_once(" - ")?;
        let is_it = front.split(' ').nth(2) == Some(&*device);
        back.split(' ').next().filter(|_| is_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
28 1 254:3 / / rw,relatime shared:1 - ext4 /dev/vda3 rw
31 28 254:3 /home/a\\040-\\040b /mnt rw - ext4 /dev/vda3 rw
33 28 0:25 / /dev/shm rw - tmpfs tmpfs rw
";

    #[test]
    fn the_type_is_that_of_the_device() {
        let type_of = |major, minor| type_of(MOUNTS, rustix::fs::makedev(major, minor));
        assert_eq!(type_of(254, 3), Some("ext4"));
        assert_eq!(type_of(0, 25), Some("tmpfs"));
        assert_eq!(type_of(254, 4), None);
        assert_eq!(super::type_of("", 0), None);
    }
}
