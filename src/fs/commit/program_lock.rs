//! Other programs that have a container's file open, and say so with a lock.
//!
//! Programs of HDF5 lock what they read (shared) and what they write (alone), with flock(2). A file
//! that somebody writes is not replaced: what he writes later would be lost; a file that somebody
//! reads is not changed in place: he keeps in memory where its chunks lie. The lock is held until
//! the commit is done. Where there are no locks nothing is known, and nothing is refused. Used by
//! [`super`], for formats whose programs lock, and by `live::creation`.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, major, minor, open};
use rustix::io::Errno;

use crate::error::Result;
use crate::source::{Source, on_descriptor};

/// A lock that has gone by the time that its holder is looked for is tried for again, so often.
const TRIES: usize = 3;

/// Keeps other programs from what it was taken against.
pub struct ProgramLock {
    file: Option<OwnedFd>,
}

impl Drop for ProgramLock {
    /// Closing is not enough: a process that is being started has all descriptors until it becomes
    /// another program, and the lock with them.
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Takes the lock of a file, or says who has it. `alone`: against readers, too.
pub fn take(source: &dyn Source, alone: bool) -> Result<std::result::Result<ProgramLock, String>> {
    take_as(std::process::id(), source, alone)
}

/// Takes the lock of a file for a process that may have locked the file itself: one that is mounted
/// by itself is locked by its daemon.
fn take_as(
    own: u32,
    source: &dyn Source,
    alone: bool,
) -> Result<std::result::Result<ProgramLock, String>> {
    // Locks are those of an opened file: not of the source's own descriptor, which others share.
    let opened = on_descriptor(source, |fd| {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        open(path, flags, Mode::empty())
    });
    let Ok(Ok(file)) = opened else {
        return Ok(Ok(ProgramLock { file: None }));
    };
    let operation = match alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    for _ in 0..TRIES {
        match flock(&file, operation) {
            Err(Errno::AGAIN) => match &holders(&file)[..] {
                [] => {}
                all => {
                    return Ok(match all.iter().find(|pid| **pid != own) {
                        Some(pid) => Err(format!("{} has the file open", named(*pid))),
                        None => Ok(ProgramLock { file: None }),
                    });
                }
            },
            // File systems without locks.
            Err(_) => return Ok(Ok(ProgramLock { file: None })),
            Ok(()) => return Ok(Ok(ProgramLock { file: Some(file) })),
        }
    }
    Ok(Err("another program has the file open".into()))
}

/// Which other process has locked a file against such a change, as the system tells it: no lock is
/// taken for that, which could be in the program's way.
pub fn held_by(source: &dyn Source, alone: bool) -> Option<String> {
    let stat = on_descriptor(source, |fd| fstat(fd)).ok()?.ok()?;
    let device = (major(stat.st_dev), minor(stat.st_dev));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let in_the_way = |line: &&str| alone || line.split_whitespace().any(|word| word == "WRITE");
    let mut holders = locks.lines().filter(in_the_way);
    let holder = holders.find_map(|line| {
        let holder = holder_of(line, stat.st_ino, Some(device))?;
        (holder != std::process::id()).then_some(holder)
    });
    holder.map(|pid| format!("{} has the file open", named(pid)))
}

/// The processes that have locked a file, as the system tells them.
fn holders(file: &OwnedFd) -> Vec<u32> {
    let inode = fstat(file.as_fd()).map(|stat| stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks");
    let (Ok(inode), Ok(locks)) = (inode, locks) else {
        return Vec::new();
    };
    let holders = locks
        .lines()
        .filter_map(|line| holder_of(line, inode, None));
    holders.collect()
}

/// `1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF`; those who wait have an arrow before.
/// Some file systems have another device there than a file says: without one the inode decides.
fn holder_of(line: &str, inode: u64, device: Option<(u32, u32)>) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let kind = words.iter().position(|word| *word == "FLOCK")?;
    let pid: u32 = words.get(kind + 3)?.parse().ok()?;
    let place = words.get(kind + 4)?;
    let mut place = place.split(':');
    let mut number = || u32::from_str_radix(place.next()?, 16).ok();
    let on = (number()?, number()?);
    let of: u64 = place.next()?.parse().ok()?;
    let is_there = device.is_none_or(|device| device == on);
    (of == inode && is_there && !words.contains(&"->")).then_some(pid)
}

fn named(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    format!("process {pid} ({})", name.unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Store;
    use crate::source::local::LocalStore;
    use std::path::Path;

    #[test]
    fn readers_are_in_the_way_of_changes_and_writers_of_both() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "x").unwrap();
        let store = LocalStore::open(dir.path(), dir.path()).unwrap();
        let source = store.open(Path::new("f")).unwrap();
        let free = |alone| take_as(0, &*source, alone).unwrap().is_ok();
        assert!(free(true) && free(false));
        let program = std::fs::File::open(dir.path().join("f")).unwrap();
        program.lock_shared().unwrap();
        assert!(!free(true) && free(false));
        program.lock().unwrap();
        assert!(!free(true) && !free(false));
        // What this process has locked itself is in nobody's way.
        assert!(take(&*source, true).unwrap().is_ok());
        // Not only closed: another test may be starting a process, which has the descriptor, too.
        program.unlock().unwrap();
        assert!(free(true));
    }

    /// As a process has it that is being started at this moment.
    #[test]
    fn a_lock_goes_although_its_descriptor_has_been_copied() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "x").unwrap();
        let store = LocalStore::open(dir.path(), dir.path()).unwrap();
        let source = store.open(Path::new("f")).unwrap();
        let taken = take_as(0, &*source, true).unwrap().ok().unwrap();
        let _copied = taken.file.as_ref().unwrap().try_clone().unwrap();
        assert!(take_as(0, &*source, false).unwrap().is_err());
        drop(taken);
        assert!(take_as(0, &*source, true).unwrap().is_ok());
    }

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let line = "7: FLOCK  ADVISORY  READ 4242 fd:00:131 0 EOF";
        assert_eq!(holder_of(line, 131, None), Some(4242));
        assert_eq!(holder_of(line, 13, None), None);
        assert_eq!(holder_of(line, 131, Some((0xfd, 0))), Some(4242));
        assert_eq!(holder_of(line, 131, Some((8, 2))), None);
        assert_eq!(
            holder_of("7: POSIX ADVISORY READ 4242 fd:00:131 0 EOF", 131, None),
            None
        );
        let waits = "8: -> FLOCK ADVISORY WRITE 1 00:01:9 0 EOF";
        assert_eq!(holder_of(waits, 9, None), None);
    }
}
