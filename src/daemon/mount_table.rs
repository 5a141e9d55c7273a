//! Which arrayfs mounts there are, from the kernel's mount table.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo` that is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    pub mountpoint: PathBuf,
    /// As told when it was mounted: a path, escaped as docs/semantics.md says under "Names".
    pub source: String,
}

/// Every arrayfs mount that this process sees.
pub fn mounts() -> io::Result<Vec<Mounted>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|&b| b == b'\n').filter_map(parse).collect())
}

/// The arrayfs mount at exactly this path. The last one counts: it hides those below.
pub fn find(mountpoint: &Path) -> io::Result<Option<Mounted>> {
    Ok(mounts()?.into_iter().rfind(|m| m.mountpoint == mountpoint))
}

/// Fields: id, parent, device, root, mountpoint, options, optional fields, `-`, type, source, options.
fn parse(line: &[u8]) -> Option<Mounted> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    if *fields.get(dash + 1)? != b"fuse.arrayfs" {
        return None;
    }
    let mountpoint = OsString::from_vec(unescape(fields.get(4)?));
    let source = String::from_utf8_lossy(&unescape(fields.get(dash + 2)?)).into_owned();
    Some(Mounted {
        mountpoint: mountpoint.into(),
        source,
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
        assert_eq!(mounted.source, r"/data\x");
        assert_eq!(parse(b"36 35 0:44 / /mnt ro - ext4 /dev/sda ro"), None);
        assert_eq!(parse(b""), None);
    }
}
