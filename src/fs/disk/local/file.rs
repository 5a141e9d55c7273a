//! A local file that is opened for writing. Used by [`super`] alone.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{self, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::caller::Privilege;
use crate::disk::{Allocation, Caller, DiskFile, Durability, Putting};
use crate::error::{Error, Result};
use crate::source::local::LocalSource;
use crate::source::{Source, on_descriptor};

pub(super) struct LocalFile {
    source: LocalSource,
    path: PathBuf,
}

impl LocalFile {
    /// `path`: for messages. Something else than a regular file is EINVAL.
    pub(super) fn new(fd: OwnedFd, path: PathBuf) -> rustix::io::Result<LocalFile> {
        Ok(LocalFile {
            source: LocalSource::new(fd, path.clone())?,
            path,
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.source.descriptor()
    }

    fn failed(&self, doing: &str, cause: Errno) -> Error {
        Error::io(format!("cannot {doing} {}", self.path.display()), cause)
    }
}

/// Runs a call again that a signal has interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => continue,
            other => return other,
        }
    }
}

fn flags_of(how: Putting) -> ReadWriteFlags {
    let mut flags = ReadWriteFlags::empty();
    flags.set(ReadWriteFlags::APPEND, how.append);
    flags.set(ReadWriteFlags::DSYNC, how.durable == Durability::Data);
    flags.set(ReadWriteFlags::SYNC, how.durable == Durability::All);
    flags
}

impl DiskFile for LocalFile {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        let (fd, flags) = (self.descriptor(), flags_of(how));
        let put = caller.run(Privilege::None, || {
            let mut done = 0;
            while done < bytes.len() {
                let (at, rest) = (offset + done as u64, &bytes[done..]);
                let n = uninterrupted(|| match flags.is_empty() {
                    true => rustix::io::pwrite(fd, rest, at),
                    false => rustix::io::pwritev2(fd, &[IoSlice::new(rest)], at, flags),
                });
                match n {
                    Ok(0) => break,
                    Ok(n) => done += n,
                    // The bytes written are returned; the next write finds the disk as full.
                    Err(_) if done > 0 => break,
                    Err(e) => return Err(e),
                }
            }
            Ok(done)
        });
        put.map_err(|e| self.failed("write", e))
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()> {
        let fd = self.descriptor();
        let set = caller.run(Privilege::None, || uninterrupted(|| fs::ftruncate(fd, len)));
        set.map_err(|e| self.failed("change the length of", e))
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        let fd = self.descriptor();
        let mode = FallocateFlags::from_bits_retain(what.mode);
        let done = caller.run(Privilege::None, || {
            uninterrupted(|| fs::fallocate(fd, mode, what.offset, what.len))
        });
        done.map_err(|e| self.failed("allocate a range of", e))
    }

    fn begin_writeback(&self, range: Range<u64>) {
        use std::os::fd::AsRawFd;
        let (offset, len) = (range.start, range.end.saturating_sub(range.start));
        let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
            return;
        };
        let (fd, flags) = (self.descriptor().as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
        // SAFETY: the descriptor is open as long as `self` lives; no memory is handed over.
        unsafe { libc::sync_file_range(fd, offset, len, flags) };
    }

    fn copy(&self, from: &dyn Source, range: Range<u64>, to: u64, caller: Caller) -> Result<usize> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let fd = self.descriptor();
        let copy = |source: BorrowedFd<'_>| {
            caller.run(Privilege::None, || {
                uninterrupted(|| {
                    let (mut at, mut to) = (range.start, to);
                    fs::copy_file_range(source, Some(&mut at), fd, Some(&mut to), len)
                })
            })
        };
        on_descriptor(from, copy)?.map_err(|e| self.failed("copy to", e))
    }
}
