//! The table of umount(8): with a path from the root it asks the file system for its type, which is
//! `fuse` for all of FUSE, and finds no helper of ours. What stands in `/run/mount/utab` it looks
//! up in the kernel's mount table instead, which has `fuse.arrayfs`.
//!
//! Assumes that a line that a killed daemon has left does no harm: one counts only together with a
//! mount at its path. Where there is no helper nothing is written. Used by the command that mounts.
//!
//! Source: utab of libmount (util-linux 2.38); lines are locked, replaced as a whole.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

const HELPER: &str = "/sbin/umount.fuse.arrayfs";
const DIRECTORY: &str = "/run/mount";

/// Others hold the lock for a moment; a mount waits no longer for one that hangs.
const PATIENCE: Duration = Duration::from_secs(1);

/// The line of one mount.
pub struct UmountLine {
    table: UmountTable,
    line: Vec<u8>,
}

impl UmountLine {
    /// Has umount(8) call our helper for a new mount; none if there is no helper.
    pub fn note(source: &str, mountpoint: &Path) -> io::Result<Option<UmountLine>> {
        if !Path::new(HELPER).exists() {
            return Ok(None);
        }
        let table = UmountTable::at(DIRECTORY.into());
        table.note(source, mountpoint).map(Some)
    }

    /// The mount has gone.
    pub fn remove(&self) -> io::Result<()> {
        self.table
            .change(|lines| lines.retain(|line| *line != self.line))
    }
}

struct UmountTable {
    directory: PathBuf,
}

impl UmountTable {
    fn at(directory: PathBuf) -> UmountTable {
        UmountTable { directory }
    }

    fn note(self, source: &str, mountpoint: &Path) -> io::Result<UmountLine> {
        let target = escaped(mountpoint.as_os_str().as_bytes());
        let of_target = [b" TARGET=", &target[..], b" "].concat();
        let mut line = [b"SRC=", &escaped(source.as_bytes())[..], &of_target].concat();
        // Whose line it is; the attributes are shown nowhere.
        write!(line, "ROOT=/ ATTRS=arrayfs={}", std::process::id())?;
        self.change(|lines| {
            // Of a daemon that was killed.
            lines.retain(|line| !line.windows(of_target.len()).any(|part| part == of_target));
            lines.push(line.clone());
        })?;
        Ok(UmountLine { table: self, line })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let _lock = self.lock()?;
        let path = self.directory.join("utab");
        let before = match std::fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let all = before.split(|&byte| byte == b'\n');
        let mut lines: Vec<_> = all.map(<[u8]>::to_vec).filter(|l| !l.is_empty()).collect();
        change(&mut lines);
        let mut after = lines.join(&b'\n');
        if !after.is_empty() {
            after.push(b'\n');
        }
        let new = self.directory.join(format!("utab.{}", std::process::id()));
        let written = writable(&new).and_then(|mut file| file.write_all(&after));
        let replaced = written.and_then(|()| std::fs::rename(&new, &path));
        replaced.inspect_err(|_| {
            let _ = std::fs::remove_file(&new);
        })
    }

    fn lock(&self) -> io::Result<File> {
        let lock = writable(&self.directory.join("utab.lock"))?;
        let end = Instant::now() + PATIENCE;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < end => {
                    sleep(Duration::from_millis(5));
                }
                locked => return locked.map(|()| lock).map_err(Into::into),
            }
        }
    }
}

fn writable(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o644);
    options.open(path)
}

/// As the kernel writes paths in its table.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => out.extend(format!("\\{byte:03o}").bytes()),
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_and_go_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let at = || UmountTable::at(directory.path().to_owned());
        let path = directory.path().join("utab");
        let read = || std::fs::read_to_string(&path).unwrap();
        let others = "SRC=/dev/a TARGET=/mnt ROOT=/ OPTS=_netdev\n";
        let left = r"SRC=/x TARGET=/a\040b ROOT=/ ATTRS=arrayfs=1";
        std::fs::write(&path, format!("{others}{left}\n")).unwrap();
        let (one, two) = (
            at().note("/data", Path::new("/a b")).unwrap(),
            at().note("/data/d", Path::new("/a b/c")).unwrap(),
        );
        let id = std::process::id();
        let ours = |source: &str, target: &str| {
            format!("SRC={source} TARGET={target} ROOT=/ ATTRS=arrayfs={id}\n")
        };
        let (first, second) = (ours("/data", r"/a\040b"), ours("/data/d", r"/a\040b/c"));
        assert_eq!(read(), format!("{others}{first}{second}"));
        one.remove().unwrap();
        assert_eq!(read(), format!("{others}{second}"));
        two.remove().unwrap();
        one.remove().unwrap();
        assert_eq!(read(), others);
        let files = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 2, "the table and its lock");
    }

    #[test]
    fn a_lock_that_is_held_for_long_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let table = UmountTable::at(directory.path().to_owned());
        let _held = table.lock();
        assert!(table.note("/data", Path::new("/mnt")).is_err());
    }
}
