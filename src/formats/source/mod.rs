//! Where stored bytes come from: the one seam between formats and storage.
//!
//! A [`Store`] is a tree of files that can be listed; a [`Source`] is one opened file that is read
//! by ranges, several at a time. Today both are local ([`local`]), or in memory ([`memory`]); an
//! object store fits behind the same two traits, so nothing above them assumes a descriptor, a
//! mapping or low latency, nor knows what tells contents apart. What only a POSIX file system has
//! is in a [`PosixStore`], for `tree` and for those who write. Used by `container` (to recognise
//! and decode) and by `tree` (to list and to pass files through).

pub mod acl;
pub mod descriptors;
mod far_traffic;
mod forward;
mod identity;
pub mod local;
pub mod memory;
mod patched;
pub mod remote;
mod reopened;
mod stored;
pub mod switched;
pub mod wrapping;

pub use far_traffic::FarTraffic;
pub use forward::ForwardWindow;
pub use identity::{
    FileId, FileIdentity, Identity, MountId, ObjectTag, SeenContent, SourceIdentity,
};
pub use memory::BytesSource;
pub use patched::{PatchedSource, SourcePatches};
pub use reopened::{ReopenedSource, open_same};
pub use stored::StoredRanges;

use std::ffi::{OsStr, OsString};
use std::ops::Range;
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

    fn identity(&self) -> SourceIdentity;

    /// Which entry of its store it is, as [`Stat::id`] says.
    fn id(&self) -> FileId {
        self.identity()
            .file()
            .map_or_else(FileId::default, |file| file.id)
    }

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

    /// Whether each fetch takes so long that what will be fetched is to be told before.
    fn is_far(&self) -> bool {
        false
    }

    /// What has been found out about its bytes and kept by this name, by who opened the same
    /// version with the same program; to be believed as little as the source is.
    fn kept(&self, _what: &str) -> Option<Vec<u8>> {
        None
    }

    /// Keeps what has been found out, if that takes no time.
    fn keep(&self, _what: &str, _found: &[u8]) {}

    /// Told what will be fetched soon: ranges in order, with gaps between them. One that is far
    /// away asks for all of them at once, and fetches find them there.
    fn expect(&self, _ranges: &[Range<u64>]) {}

    /// Reads at most `buf.len()` bytes: less only at the end. For files shown as they are.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// What it was like when it was opened.
    fn stat_opened(&self) -> Result<Stat> {
        self.stat()
    }

    /// What it has beside, if it is a file of a POSIX file system.
    fn as_posix(&self) -> Option<&dyn PosixFile> {
        None
    }
}

impl dyn Source + '_ {
    /// What only files of a POSIX file system have; [`crate::error::Error::Unsupported`] elsewhere.
    pub fn posix(&self) -> Result<&dyn PosixFile> {
        self.as_posix().ok_or(crate::error::Error::Unsupported)
    }
}

/// What a [`Source`] has beside bytes where it is a file of a POSIX file system.
pub trait PosixFile {
    /// Value of an extended attribute of the file, whatever became of its name.
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>>;

    fn xattr_names(&self) -> Result<Vec<OsString>>;

    /// The next data at or behind an offset, or the next hole, as lseek(2) finds them.
    fn seek(&self, _offset: u64, _hole: bool) -> Result<u64> {
        Err(crate::error::Error::Unsupported)
    }

    /// Runs `with` on the local descriptor, where there is one ([`on_descriptor`]).
    fn with_descriptor(&self, _with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        Err(crate::error::Error::Unsupported)
    }
}

/// Runs `with` on the local descriptor of a file, which stays open meanwhile;
/// [`crate::error::Error::Unsupported`] if it has none.
pub fn on_descriptor<T>(source: &dyn Source, with: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T> {
    let (mut with, mut done) = (Some(with), None);
    source
        .posix()?
        .with_descriptor(&mut |fd| done = with.take().map(|with| with(fd)))?;
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
    /// Of a store of objects: numbers that stand for a key.
    pub id: FileId,
    /// In bytes.
    pub size: u64,
    pub mtime: Timestamp,
    /// Of a store that tells contents by more than what stands here.
    pub tag: Option<ObjectTag>,
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

impl Stat {
    /// Of an object, or of a directory of objects, which is read only.
    pub fn of_object(kind: FileKind, size: u64, tag: Option<ObjectTag>) -> Stat {
        Stat {
            kind,
            id: FileId::default(),
            size,
            mtime: Timestamp::default(),
            tag,
            mount: MountId(0),
            blocks: size.div_ceil(512),
            mode: match kind {
                FileKind::Directory => 0o555,
                _ => 0o444,
            },
            list: None,
            uid: 0,
            gid: 0,
            nlink: 1,
            rdev: 0,
            atime: Timestamp::default(),
            ctime: Timestamp::default(),
        }
    }

    /// Of the content that it had.
    pub fn identity(&self) -> SourceIdentity {
        match self.tag {
            Some(tag) => SourceIdentity::of_object(tag, self.size),
            None => self.file().into(),
        }
    }

    /// The local file.
    pub fn file(&self) -> FileIdentity {
        FileIdentity {
            id: self.id,
            size: self.size,
            mtime: self.mtime,
        }
    }
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

impl Space {
    /// Of a store that has no end.
    pub const UNKNOWN: Space = Space {
        blocks: 0,
        free: 0,
        available: 0,
        files: 0,
        files_free: 0,
        block_size: 4096,
        fragment_size: 4096,
        name_max: 255,
    };
}

/// A name in a directory, as a store lists it.
pub struct Listed<'a> {
    pub name: &'a OsStr,
    pub kind: FileKind,
    /// Of a store that lists its entries with what they are.
    pub stat: Option<&'a Stat>,
}

impl Listed<'_> {
    pub fn new(name: &OsStr, kind: FileKind) -> Listed<'_> {
        Listed {
            name,
            kind,
            stat: None,
        }
    }
}

/// A tree of files that is read. Paths are relative to its root and never leave it: no symbolic
/// link is followed.
pub trait Store: Send + Sync {
    /// Does not follow a symbolic link.
    fn stat(&self, path: &Path) -> Result<Stat>;

    /// [`Store::stat`] of several, in their order: a store that is far away asks for all at once.
    fn stat_all(&self, paths: &[PathBuf]) -> Vec<Result<Stat>> {
        paths.iter().map(|path| self.stat(path)).collect()
    }

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

    /// Tells each name in a directory and its kind, without `.` and `..`, in the order of the
    /// storage. Takes the same memory however many there are.
    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()>;

    /// The first bytes of a regular file: less than `buf.len()` only if it is shorter. One round
    /// trip.
    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize>;

    /// The first bytes of a regular file, and what lies at an offset: says how much there is of
    /// either.
    fn ends(&self, path: &Path, head: &mut [u8], tail: Fetch<'_>) -> Result<[usize; 2]> {
        let source = self.open(path)?;
        Ok([source.read(0, head)?, source.read(tail.offset, tail.buf)?])
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>>;

    /// Whether its sources are ([`Source::is_far`]).
    fn is_far(&self) -> bool {
        false
    }

    /// Whether a file may be looked into to find out what it is: one that is far away, if its name
    /// says so, or somebody has asked ([`Store::refresh`]).
    fn is_looked_into(&self, _path: &Path) -> bool {
        true
    }

    /// Whether names that a directory does not have take no request to find out.
    fn knows_all_names(&self, _directory: &Path) -> bool {
        true
    }

    /// Told of which files the first bytes will be read soon ([`Store::head`]).
    fn expect_heads(&self, _paths: &mut dyn Iterator<Item = PathBuf>) {}

    /// Somebody wants to know anew what lies at a path and below it.
    fn refresh(&self, _path: &Path) {}

    /// What one that is far away has asked for.
    fn traffic(&self) -> Option<FarTraffic> {
        None
    }

    /// What to call `path` in messages.
    fn display(&self, path: &Path) -> PathBuf;

    /// What it has beside, if its files are those of a POSIX file system.
    fn as_posix(&self) -> Option<&dyn PosixStore> {
        None
    }
}

impl dyn Store + '_ {
    /// Each name with what it is, as [`Store::list`] tells them: asked for one by one if the store
    /// lists names alone. What has gone meanwhile, or cannot be looked at, is left out.
    pub fn list_stats(&self, path: &Path, each: &mut dyn FnMut(&OsStr, &Stat)) -> Result<()> {
        self.list(path, &mut |listed| match listed.stat {
            Some(stat) => each(listed.name, stat),
            None => {
                if let Ok(stat) = self.stat(&path.join(listed.name)) {
                    each(listed.name, &stat);
                }
            }
        })
    }

    /// What only a POSIX file system has; [`crate::error::Error::Unsupported`] elsewhere.
    pub fn posix(&self) -> Result<&dyn PosixStore> {
        self.as_posix().ok_or(crate::error::Error::Unsupported)
    }
}

/// What a [`Store`] of a POSIX file system has beside files to be read.
pub trait PosixStore {
    /// A file that has just been made, as [`Store::stat`] would return it.
    fn stat_made(&self, file: &dyn Source) -> Result<Stat> {
        file.stat_opened()
    }

    /// What [`Store::stat`] says, always with the list.
    fn stat_with_list(&self, path: &Path) -> Result<Stat>;

    fn read_link(&self, path: &Path) -> Result<OsString>;

    /// Users other than that of this process will be let in by the modes that `stat` says: from now
    /// on these allow no user more than the store does.
    fn serve_others(&self);

    /// Whether its file system has access control lists.
    fn has_lists(&self) -> bool;

    fn space(&self) -> Result<Space>;

    /// Value of an extended attribute of what is shown as it is; `file`: which file the entry must
    /// be, or it has changed.
    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>>;

    /// Names of its extended attributes.
    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>>;
}
