//! Where stored bytes come from: the one seam between formats and storage.
//!
//! A [`Store`] is a tree of files that can be listed; a [`Source`] is one opened file that is read
//! by ranges, several at a time. Today both are local ([`local`]); an object store fits behind the
//! same two traits, so nothing above them assumes a descriptor, a mapping or low latency. Used by
//! `container` (to recognise and decode) and by `tree` (to list and to pass files through).

pub(crate) mod acl;
pub mod bound;
mod current;
pub mod descriptors;
mod forward;
mod identity;
pub mod local;
mod memory;
pub mod passing;
mod reopened;
pub mod switched;

pub use forward::ForwardWindow;
pub use identity::{FileId, FileIdentity, Identity, MountId};
pub use memory::BytesSource;
pub use reopened::{ReopenedSource, open_same};

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use acl::AccessList;

/// One range to fetch: `buf.len()` bytes from `offset` on.
pub struct Fetch<'a> {
    pub offset: u64,
    pub buf: &'a mut [u8],
}

/// An opened file of fixed identity. Reading fails with [`crate::error::Error::Changed`] when the
/// file is no longer what was opened, so bytes of two versions never mix; it never signals.
pub trait Source: Send + Sync {
    /// Length in bytes when it was opened.
    fn len(&self) -> u64;

    fn identity(&self) -> FileIdentity;

    /// As it is now, wherever it lies by now.
    fn stat(&self) -> Result<Stat> {
        Err(crate::error::Error::Unsupported)
    }

    /// Fills every range completely, in any order. A range beyond the end is a fault of the
    /// caller's arithmetic or of the file's claims; it is answered with an error.
    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()>;

    /// Fills one range.
    fn fetch_one(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.fetch(&mut [Fetch { offset, buf }])
    }

    /// Reads at most `buf.len()` bytes: less only at the end. For files shown as they are.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Value of an extended attribute of the file, whatever became of its name.
    fn xattr(&self, _name: &OsStr) -> Result<Vec<u8>> {
        Err(crate::error::Error::Unsupported)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        Err(crate::error::Error::Unsupported)
    }

    /// What it was like when it was opened.
    fn stat_opened(&self) -> Result<Stat> {
        self.stat()
    }

    /// The next data at or behind an offset, or the next hole, as lseek(2) finds them.
    fn seek(&self, _offset: u64, _hole: bool) -> Result<u64> {
        Err(crate::error::Error::Unsupported)
    }

    /// Runs `with` on the local descriptor, where there is one ([`on_descriptor`]).
    fn with_descriptor(&self, _with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        Err(crate::error::Error::Unsupported)
    }

    /// The file that it is now, of one that may become another.
    fn switched(&self) -> Option<Arc<dyn Source>> {
        None
    }
}

/// Runs `with` on the local descriptor of a file, which stays open meanwhile;
/// [`crate::error::Error::Unsupported`] if it has none.
pub fn on_descriptor<T>(source: &dyn Source, with: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T> {
    let (mut with, mut done) = (Some(with), None);
    source.with_descriptor(&mut |fd| done = with.take().map(|with| with(fd)))?;
    done.ok_or(crate::error::Error::Unsupported)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    /// Pipes, sockets and devices: shown, never opened.
    Other(SpecialKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecialKind {
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// What `lstat` says; with a list the mode may say less ([`Store::serve_others`]).
#[derive(Debug, Clone)]
pub struct Stat {
    pub kind: FileKind,
    pub identity: FileIdentity,
    pub mount: MountId,
    /// 512-byte units.
    pub blocks: u64,
    pub mode: u16,
    /// By which users are let in where it can be shown, with the mode that belongs to it. Read only
    /// for other users.
    pub list: Option<Arc<AccessList>>,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    pub atime: Timestamp,
    pub ctime: Timestamp,
}

/// Seconds and nanoseconds since 1970 (negative seconds before).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp {
    pub secs: i64,
    pub nanos: u32,
}

impl Timestamp {
    pub fn now() -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        Timestamp {
            secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        }
    }

    /// None if no number holds them.
    pub fn as_nanos(self) -> Option<i64> {
        let nanos = self.secs.checked_mul(1_000_000_000);
        nanos.and_then(|nanos| nanos.checked_add(self.nanos.into()))
    }

    pub fn of_nanos(nanos: i64) -> Timestamp {
        Timestamp {
            secs: nanos.div_euclid(1_000_000_000),
            nanos: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// By the clock with which file systems stamp changes: coarser, and behind the other.
    pub fn tick() -> Timestamp {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Timestamp {
            secs: now.tv_sec,
            nanos: u32::try_from(now.tv_nsec).unwrap_or(0),
        }
    }
}

/// Free and total space of the file system that holds the store, as `statvfs`.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub block_size: u32,
    pub fragment_size: u32,
    pub name_max: u32,
}

/// A tree of files. Paths are relative to its root and never leave it: no symbolic link is
/// followed.
pub trait Store: Send + Sync {
    /// Does not follow a symbolic link.
    fn stat(&self, path: &Path) -> Result<Stat>;

    /// An entry of a directory that must be the one which `is_it` knows; none if it is another by
    /// now.
    fn stat_in(
        &self,
        directory: &Path,
        is_it: &dyn Fn(&Stat) -> bool,
        name: &OsStr,
    ) -> Result<Option<Stat>> {
        match is_it(&self.stat(directory)?) {
            true => self.stat(&directory.join(name)).map(Some),
            false => Ok(None),
        }
    }

    /// A file that has just been made, as [`Store::stat`] would return it.
    fn stat_made(&self, file: &dyn Source) -> Result<Stat> {
        file.stat_opened()
    }

    /// The same as [`Store::stat`], always with the list.
    fn stat_with_list(&self, path: &Path) -> Result<Stat> {
        self.stat(path)
    }

    /// Tells each name in a directory and its kind, without `.` and `..`, in the order of the
    /// storage. Takes the same memory however many there are.
    fn list(&self, path: &Path, each: &mut dyn FnMut(&OsStr, FileKind)) -> Result<()>;

    /// The first bytes of a regular file: less than `buf.len()` only if it is shorter. One round
    /// trip.
    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize>;

    /// The same, and what lies at an offset: says how much there is of either.
    fn ends(&self, path: &Path, head: &mut [u8], tail: Fetch<'_>) -> Result<[usize; 2]> {
        let source = self.open(path)?;
        Ok([source.read(0, head)?, source.read(tail.offset, tail.buf)?])
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>>;

    fn read_link(&self, path: &Path) -> Result<OsString>;

    /// Users other than that of this process will be let in by the modes that `stat` says: from now
    /// on these allow no user more than the store does.
    fn serve_others(&self) {}

    fn space(&self) -> Result<Space>;

    /// Value of an extended attribute of what is shown as it is; `file`: which file the entry must
    /// be, or it has changed.
    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>>;

    /// Names of its extended attributes.
    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>>;

    /// What to call `path` in messages.
    fn display(&self, path: &Path) -> PathBuf;
}
