//! Which arrayfs mounts there are, from the kernel's mount table.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// A line of `/proc/self/mountinfo` that is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    pub mountpoint: PathBuf,
    /// What of the file system is mounted there: all of it (`/`), unless it is a bind mount of a
    /// part.
    pub root: PathBuf,
    /// As passed to mount(2): a path, escaped as docs/semantics.md says under "Names".
    pub source: String,
    pub device: Device,
    pub writable: bool,
}

impl Mounted {
    /// What of the file system is mounted, as a path from its root: all of it (nothing), unless
    /// this is a bind mount.
    pub fn part(&self) -> &Path {
        self.root.strip_prefix("/").unwrap_or(&self.root)
    }
}

/// The number of a mounted file system. No other has it while this one is mounted somewhere or
/// served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    major: u32,
    /// Of a FUSE file system: the number of the kernel's connection.
    pub minor: u32,
}

impl Device {
    /// Of a FUSE file system, by the number of its connection.
    pub fn of_connection(number: u32) -> Device {
        Device {
            major: 0,
            minor: number,
        }
    }
}

/// Where a file system is mounted that somebody else has mounted, whatever its type is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedAt {
    pub mountpoint: PathBuf,
    /// The kernel checks permissions.
    pub checks_permissions: bool,
    /// It is called so that commands find it.
    pub is_ours: bool,
}

/// Where a file system is mounted, if this process sees it.
pub fn served_at(device: Device) -> io::Result<Option<ServedAt>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    let mut lines = table.split(|&b| b == b'\n');
    Ok(lines.find_map(|line| parse_served(line, device)))
}

fn parse_served(line: &[u8], device: Device) -> Option<ServedAt> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    if parse_device(fields.get(2)?)? != device {
        return None;
    }
    let dash = fields.iter().position(|f| *f == b"-")?;
    let mut options = fields.get(dash + 3)?.split(|&b| b == b',');
    Some(ServedAt {
        mountpoint: OsString::from_vec(unescape(fields.get(4)?)).into(),
        checks_permissions: options.any(|option| option == b"default_permissions"),
        is_ours: *fields.get(dash + 1)? == b"fuse.arrayfs",
    })
}

/// As the kernel names it in `/sys` and in the mount table.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The file system that a path leads to. Its daemon is not asked, so that one that does not answer
/// does not hold up the caller.
pub fn device_at(path: &Path) -> io::Result<Device> {
    device(CWD, path, AtFlags::empty())
}

/// The file system of an opened file; its daemon is not asked.
pub(super) fn device_of(file: impl AsFd) -> io::Result<Device> {
    device(file, Path::new(""), AtFlags::EMPTY_PATH)
}

fn device(directory: impl AsFd, path: &Path, how: AtFlags) -> io::Result<Device> {
    let flags = how | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(directory, path, flags, StatxFlags::empty())?;
    Ok(Device {
        major: found.stx_dev_major,
        minor: found.stx_dev_minor,
    })
}

/// Every arrayfs mount that this process sees.
pub fn mounts() -> io::Result<Vec<Mounted>> {
    mounts_of("self")
}

/// Every arrayfs mount that a process sees, named as in `/proc`.
pub(super) fn mounts_of(process: &str) -> io::Result<Vec<Mounted>> {
    let table = std::fs::read(format!("/proc/{process}/mountinfo"))?;
    Ok(table.split(|&b| b == b'\n').filter_map(parse).collect())
}

/// The arrayfs mount at exactly this path. The last one counts: it hides those below.
pub fn find(mountpoint: &Path) -> io::Result<Option<Mounted>> {
    Ok(mounts()?.into_iter().rfind(|m| m.mountpoint == mountpoint))
}

/// The arrayfs mount that a path lies in, or is the root of; the path has no links in it.
pub fn covering(path: &Path) -> io::Result<Option<Mounted>> {
    let covers = |mounted: &Mounted| path.starts_with(&mounted.mountpoint);
    let depth = |mounted: &Mounted| mounted.mountpoint.components().count();
    // Of those at one place the last hides the others.
    let deepest = mounts()?.into_iter().filter(covers).max_by_key(depth);
    let Some(mounted) = deepest else {
        return Ok(None);
    };
    // Something else may be mounted in it.
    Ok((device_at(path)? == mounted.device).then_some(mounted))
}

/// Fields: id, parent, device, root, mountpoint, options, optional fields, `-`, type, source,
/// options.
fn parse(line: &[u8]) -> Option<Mounted> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    if *fields.get(dash + 1)? != b"fuse.arrayfs" {
        return None;
    }
    let mountpoint = OsString::from_vec(unescape(fields.get(4)?));
    // Both the mount and its file system have such a flag.
    let read_only = |field: Option<&&[u8]>| {
        let mut options = field.map_or(&b""[..], |field| field).split(|&b| b == b',');
        options.any(|option| option == b"ro")
    };
    let source = String::from_utf8_lossy(&unescape(fields.get(dash + 2)?)).into_owned();
    Some(Mounted {
        mountpoint: mountpoint.into(),
        root: OsString::from_vec(unescape(fields.get(3)?)).into(),
        source,
        device: parse_device(fields.get(2)?)?,
        writable: !read_only(fields.get(5)) && !read_only(fields.get(dash + 3)),
    })
}

fn parse_device(field: &[u8]) -> Option<Device> {
    let (major, minor) = std::str::from_utf8(field).ok()?.split_once(':')?;
    Some(Device {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let digits = field
            .get(at + 1..at + 4)
            .and_then(|d| std::str::from_utf8(d).ok());
        match (
            field[at],
            digits.and_then(|d| u8::from_str_radix(d, 8).ok()),
        ) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                at += 4;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_mount_table() {
        let line = br"36 35 0:44 / /mnt/a\040b ro,relatime shared:1 - fuse.arrayfs /data\134x ro";
        let mounted = parse(line).unwrap();
        assert_eq!(mounted.mountpoint, Path::new("/mnt/a b"));
        assert_eq!(mounted.root, Path::new("/"));
        assert_eq!(mounted.source, r"/data\x");
        assert_eq!(mounted.device.to_string(), "0:44");
        assert!(!mounted.writable);
        for (options, of_file_system, writable) in [
            ("rw,nosuid,relatime", "rw,user_id=0", true),
            ("ro,relatime", "rw,user_id=0", false),
            ("rw", "ro", false),
            ("rw,error", "rw,roots", true),
        ] {
            let line = format!("1 2 0:44 / /m {options} - fuse.arrayfs /x {of_file_system}");
            assert_eq!(parse(line.as_bytes()).unwrap().writable, writable, "{line}");
        }
        assert_eq!(parse(b"36 35 0:44 / /mnt ro - ext4 /dev/sda ro"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn where_a_connection_is_mounted_is_found_by_its_number() {
        let line = br"36 35 0:44 / /mnt/a\040b rw - fuse.x y rw,user_id=0,default_permissions";
        let found = parse_served(line, Device::of_connection(44)).unwrap();
        assert_eq!(found.mountpoint, Path::new("/mnt/a b"));
        assert!(found.checks_permissions && !found.is_ours);
        assert_eq!(parse_served(line, Device::of_connection(45)), None);
    }

    #[test]
    fn the_device_at_a_path_is_that_of_its_mount() {
        use std::os::unix::fs::MetadataExt;
        let proc = Path::new("/proc");
        let expected = std::fs::metadata(proc).unwrap().dev();
        let found = device_at(proc).unwrap();
        assert_eq!(rustix::fs::makedev(found.major, found.minor), expected);
        assert_ne!(found, device_at(Path::new("/")).unwrap());
    }
}
