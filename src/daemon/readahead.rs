//! How far the kernel reads ahead on a mount.
//!
//! A file system cannot ask for more than the kernel's default, 128 KiB; root may raise it
//! afterwards, in `/sys/class/bdi`. Used by the command that mounts.

use std::io;

use super::mount_table::Device;

/// What is set unless an option says otherwise, in bytes: of 128 KiB to 4 MiB the fastest,
/// measured.
pub const DEFAULT: u64 = 512 << 10;

/// Lets the kernel read `bytes` ahead, in whole KiB. Counts for files that are opened from now on.
pub fn set(device: Device, bytes: u64) -> io::Result<()> {
    let path = format!("/sys/class/bdi/{device}/read_ahead_kb");
    std::fs::write(path, (bytes >> 10).to_string())
}
