//! An opened local file as a [`Source`]: read with `pread`, and compared with what it was when it
//! was opened.
//!
//! Used by [`super`], and by `disk` for files that are written, too.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::{attributes, proc_name, status};
use crate::error::{Error, Result};
use crate::source::{Fetch, FileKind, PosixFile, Source, SourceIdentity, Stat, Timestamp};

pub struct LocalSource {
    fd: OwnedFd,
    opened: Stat,
    /// Whether every change from now on shows in the identity.
    is_past_tick: AtomicBool,
    path: PathBuf,
}

/// A file system's clock ticks every 1 to 10 ms.
const TICK: Duration = Duration::from_millis(1);
const TICK_MOST: Duration = Duration::from_millis(20);

/// Whether a change could leave the time as it is. One that lies further ahead (of a machine whose
/// clock is fast) goes back with the next change, so there is no need to wait for it.
fn is_of_this_tick(mtime: Timestamp, now: Timestamp) -> bool {
    let nanos = |time: Timestamp| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    let ahead = nanos(mtime) - nanos(now);
    (0..=TICK_MOST.as_nanos() as i128).contains(&ahead)
}

impl LocalSource {
    /// `path`: for messages. Something else than a regular file is EINVAL.
    pub fn new(fd: OwnedFd, path: PathBuf) -> std::result::Result<Self, Errno> {
        let now = Timestamp::tick();
        let found = status::of_file(fd.as_fd())?;
        if found.kind != FileKind::File {
            return Err(Errno::INVAL);
        }
        Ok(LocalSource {
            fd,
            is_past_tick: AtomicBool::new(!is_of_this_tick(found.mtime, now)),
            opened: found,
            path,
        })
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn failed(&self, cause: Errno) -> Error {
        Error::io(format!("cannot read {}", self.path.display()), cause)
    }

    /// File systems stamp changes with a clock that ticks coarsely: a file changed twice within a
    /// tick keeps its identity if it gets its size back. So a file of this very tick is read after
    /// the tick.
    fn wait_out_tick(&self) -> Result<()> {
        if self.is_past_tick.load(Ordering::Acquire) {
            return Ok(());
        }
        while is_of_this_tick(self.opened.mtime, Timestamp::tick()) {
            std::thread::sleep(TICK);
        }
        self.check_unchanged()?;
        self.is_past_tick.store(true, Ordering::Release);
        Ok(())
    }

    /// Asked after the bytes were read: write(2) stamps the time before it changes bytes, so an
    /// unchanged identity proves that what was read is the version that was opened. (A write
    /// through a mapping stamps it at the first one to each page, and later ones are not seen until
    /// the next stamp.)
    fn check_unchanged(&self) -> Result<()> {
        if self.stat()?.identity() == self.identity() {
            Ok(())
        } else {
            Err(Error::Changed {
                path: self.path.clone(),
            })
        }
    }
}

impl Source for LocalSource {
    fn len(&self) -> u64 {
        self.identity().size()
    }

    fn identity(&self) -> SourceIdentity {
        self.opened.identity()
    }

    fn stat_opened(&self) -> Result<Stat> {
        Ok(self.opened.clone())
    }

    fn stat(&self) -> Result<Stat> {
        status::of_file(self.fd.as_fd()).map_err(|e| self.failed(e))
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.wait_out_tick()?;
        for range in ranges.iter_mut() {
            let n = read_full(&self.fd, range.offset, range.buf).map_err(|e| self.failed(e))?;
            if n < range.buf.len() {
                self.check_unchanged()?;
                let end = range.offset.saturating_add(range.buf.len() as u64);
                let fault = crate::error::Fault::new("the stored bytes end early")
                    .bytes(range.offset..end)
                    .expected(format_args!("{} bytes", range.buf.len()))
                    .found(n);
                return Err(fault.into());
            }
        }
        self.check_unchanged()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_full(&self.fd, offset, buf).map_err(|e| self.failed(e))
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl PosixFile for LocalSource {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        attributes::value(&proc_name(self.fd.as_fd()), name).map_err(|e| match e {
            Errno::NODATA => Error::NoAttribute,
            Errno::OPNOTSUPP => Error::Unsupported,
            e => self.failed(e),
        })
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        attributes::names(&proc_name(self.fd.as_fd())).map_err(|e| self.failed(e))
    }

    /// The position of the descriptor, which this moves, is not used.
    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        let to = match hole {
            true => SeekFrom::Hole(offset),
            false => SeekFrom::Data(offset),
        };
        match rustix::fs::seek(&self.fd, to) {
            Err(Errno::NXIO) => Err(Error::BeyondTheEnd),
            found => found.map_err(|e| self.failed(e)),
        }
    }

    fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        with(self.fd.as_fd());
        Ok(())
    }
}

/// `pread` until `buf` is full or the file ends.
pub(super) fn read_full(
    fd: &OwnedFd,
    offset: u64,
    buf: &mut [u8],
) -> std::result::Result<usize, Errno> {
    let mut done = 0;
    while done < buf.len() {
        let at = offset.checked_add(done as u64).ok_or(Errno::OVERFLOW)?;
        match rustix::io::pread(fd, &mut buf[done..], at) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_of_this_tick_is_waited_for() {
        let at = |secs, nanos| Timestamp { secs, nanos };
        let now = at(100, 999_000_000);
        assert!(is_of_this_tick(now, now));
        assert!(is_of_this_tick(at(101, 3_000_000), now));
        assert!(!is_of_this_tick(at(100, 998_999_999), now));
        assert!(!is_of_this_tick(at(101, 999_000_000), now));
        assert!(!is_of_this_tick(at(i64::MAX, 0), now));
        assert!(!is_of_this_tick(at(i64::MIN, 0), now));
    }
}
