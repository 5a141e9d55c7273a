//! Changes of the source: the one trait through which anything in it is made, written, renamed or
//! removed.
//!
//! [`Disk`] is a handful of POSIX primitives on names in directories and on opened files. It knows
//! no format and keeps no state, so code that is built on it (ordinary files, the log of a stage, a
//! commit) can be tested against one that records every call, or fails at any of them. A
//! [`crate::source::Store`] reads, a `Disk` writes; both have the same paths. Assumes that the
//! caller's permissions were checked: the kernel has done that by the attributes shown. Used by
//! `stage`, `commit`, `live` and `tree`.

#[cfg(test)]
pub mod failing;
pub mod local;
#[cfg(test)]
pub mod recording;
pub mod reopened;

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::source::{FileId, Source, SpecialKind, Timestamp};

/// A name in a directory of the source. Another process may have moved the directory, and put
/// another one in its place: then the call fails with [`crate::error::Error::Changed`], and nothing
/// happens.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub directory: &'a Path,
    /// Which directory it must be.
    pub id: FileId,
    pub name: &'a OsStr,
}

/// A file or directory that exists.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// By its name, which must still lead to this file.
    Named { path: &'a Path, id: FileId },
    /// Whatever became of its names.
    Open(&'a dyn Source),
}

/// The user for whom something is done, who owns what is made, and whose quota is used. A daemon
/// that is not root's does everything as its own user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// Bits that the mode of what is made for him does not get, unless the directory has a default
    /// access control list.
    pub umask: u32,
}

impl Caller {
    /// For whom modes are taken as they are.
    pub const fn of(uid: u32, gid: u32) -> Caller {
        let umask = 0;
        Caller { uid, gid, umask }
    }
}

/// What a new name leads to; a regular file is made by [`Disk::create`].
#[derive(Debug, Clone, Copy)]
pub enum NewEntry<'a> {
    Directory {
        mode: u32,
    },
    /// An empty file that is not opened.
    File {
        mode: u32,
    },
    /// `device`: of a device file, as `st_rdev`.
    Special {
        kind: SpecialKind,
        mode: u32,
        device: u32,
    },
    Symlink {
        target: &'a OsStr,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renaming {
    /// What has the new name is replaced.
    Over,
    /// It is an error that something has the new name.
    NoReplace,
    /// Both names are there, and change places.
    Exchange,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    Now,
    At(Timestamp),
}

/// Attributes to set; the others stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewAttributes {
    /// Permission bits, and those of set-user-id, set-group-id and sticky.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub atime: Option<NewTime>,
    pub mtime: Option<NewTime>,
}

impl NewAttributes {
    pub fn is_empty(&self) -> bool {
        *self == NewAttributes::default()
    }

    /// Whether an identity of content would see it.
    pub fn changes_times(&self) -> bool {
        self.atime.is_some() || self.mtime.is_some()
    }
}

/// Whether an extended attribute must not, or must be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrSetting {
    Any,
    Create,
    Replace,
}

/// What to do with a range of a file: as fallocate(2) does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The bits of fallocate(2).
    pub mode: u32,
    pub offset: u64,
    pub len: u64,
}

impl Allocation {
    pub const KEEP_SIZE: u32 = 0x01;
    pub const PUNCH_HOLE: u32 = 0x02;
    pub const ZERO_RANGE: u32 = 0x10;

    pub fn of(mode: u32, range: &Range<u64>) -> Allocation {
        Allocation {
            mode,
            offset: range.start,
            len: range.end.saturating_sub(range.start),
        }
    }
}

/// How it is found out whether a file can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// By making one.
    Made,
    /// By the rights of the directory, which costs little: some file systems refuse more than these
    /// say.
    Rights,
}

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Putting {
    /// To the end of the file, wherever that is by now, instead of the offset.
    pub append: bool,
    /// Out of the kernel's page cache, because a mapping has changed a page.
    pub of_mapping: bool,
    pub durable: Durability,
}

/// What has reached the disk when a write returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing need have.
    #[default]
    Later,
    /// The bytes, and what is needed to find them.
    Data,
    /// All attributes of the file.
    All,
}

/// Primitives that change the source. Paths are relative to its root and never leave it.
pub trait Disk: Send + Sync {
    /// Whether it may be that another file can share the bytes of this one ([`Disk::share`]), as
    /// far as that can be said without trying.
    fn may_share(&self, of: &dyn Source) -> bool;

    /// Makes an empty file hold what another one does, the two sharing it on the disk until one of
    /// them changes; false if they cannot, for whatever reason. Then it may hold anything.
    fn share(&self, file: &dyn DiskFile, all_of: &dyn Source, caller: Caller) -> bool;

    /// Makes a regular file that was not there (EEXIST) and opens it for reading and writing.
    fn create(&self, place: Place<'_>, mode: u32, caller: Caller) -> Result<Arc<dyn DiskFile>>;

    /// Fails as [`Disk::create`] would. Leaves nothing, and the directory's time where the file
    /// system lets it.
    fn try_create(&self, place: Place<'_>, trial: Trial, caller: Caller) -> Result<()>;

    /// Opens a regular file for writing, and for reading where that is allowed.
    fn open(&self, path: &Path, id: FileId) -> Result<Arc<dyn DiskFile>>;

    fn make(&self, place: Place<'_>, what: NewEntry<'_>, caller: Caller) -> Result<()>;

    /// Gives an existing file another name.
    fn link(&self, file: Target<'_>, place: Place<'_>) -> Result<()>;

    /// Removes the name of something that is no directory.
    fn unlink(&self, place: Place<'_>) -> Result<()>;

    fn remove_directory(&self, place: Place<'_>) -> Result<()>;

    fn rename(&self, from: Place<'_>, to: Place<'_>, how: Renaming) -> Result<()>;

    fn set_attributes(&self, of: Target<'_>, to: &NewAttributes) -> Result<()>;

    fn set_xattr(
        &self,
        of: Target<'_>,
        name: &OsStr,
        value: &[u8],
        how: XattrSetting,
    ) -> Result<()>;

    fn remove_xattr(&self, of: Target<'_>, name: &OsStr) -> Result<()>;

    /// Returns when a file, or the names in a directory, have reached the disk. `data`: without
    /// what is not needed to find the bytes.
    fn sync(&self, of: Target<'_>, data: bool) -> Result<()>;

    /// [`Disk::sync`] of several files, which may cost less than each of them alone.
    fn sync_many(&self, of: &[Target<'_>]) -> Result<()> {
        of.iter().try_for_each(|of| self.sync(*of, false))
    }

    /// Returns when everything has reached the disk that was changed in the file system of a
    /// directory, as far as that can be asked for: of others, when the directory has.
    fn sync_all(&self, directory: Target<'_>) -> Result<()> {
        self.sync(directory, false)
    }

    /// Returns when a file that has just been made, or got its name, has reached the disk with that
    /// name, which is in this directory, and with all that was done to names there before.
    fn sync_named(&self, file: &dyn Source, directory: Target<'_>) -> Result<()>;

    /// Puts what is held back where it belongs: of one file, or of all. What cannot be put there is
    /// in [`Disk::held_back`] afterwards, with the reason.
    fn settle(&self, _one: Option<FileId>, _how: Settling) {}

    /// What of the files' bytes is not where it belongs; none if nothing is ever held back.
    fn held_back(&self) -> Option<HeldBack> {
        None
    }
}

/// How thoroughly [`Disk::settle`] works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    Everything,
    /// Where very much would have to be moved for it, it is enough that the next mount finds it.
    IfCheap,
}

/// What a disk holds back for a while.
#[derive(Debug, Clone, Default)]
pub struct HeldBack {
    /// Files of which something is held back, and how many bytes.
    pub files: u64,
    pub bytes: u64,
    /// Files whose changes are safe, and stay where they are until much may be moved.
    pub logged: Vec<PathBuf>,
    /// Files whose changes are safe, but could not be put where they belong when that was asked
    /// for, and why.
    pub unmerged: Vec<(PathBuf, Error)>,
    /// Bytes that were encoded since the mount began, and what became of them.
    pub encoded: [u64; 2],
    /// What could not be put in its place the last time, and why.
    pub failed: Vec<(PathBuf, Error)>,
}

/// A regular file that is opened for writing.
pub trait DiskFile: Send + Sync {
    /// This file, to be read (where that is allowed), described and synced.
    fn source(&self) -> &dyn Source;

    /// Writes at an offset, and says how many bytes: fewer than asked for only if the disk is full.
    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize>;

    /// Writes all bytes, or fails.
    fn put_all(&self, offset: u64, bytes: &[u8], caller: Caller) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset.saturating_add(done as u64);
            match self.put(at, &bytes[done..], Putting::default(), caller)? {
                0 => return Err(Error::io("cannot write a file", Errno::NOSPC)),
                n => done += n,
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()>;

    /// What was put there will be synced soon: the disk may begin. Says nothing of failures, which
    /// the sync reports.
    fn begin_writeback(&self, _range: Range<u64>) {}

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()>;

    /// Copies a range of another file to an offset, within the file system if it can; says how many
    /// bytes, fewer at the end of the other file.
    fn copy(&self, from: &dyn Source, range: Range<u64>, to: u64, caller: Caller) -> Result<usize>;

    /// A descriptor of a program is closed, perhaps not the last one: the errors of what was put
    /// there that come later than the call are returned.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// No descriptor is left of those that shared this one.
    fn release(&self) -> Result<()> {
        Ok(())
    }
}
