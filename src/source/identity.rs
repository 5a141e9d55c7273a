//! What makes a stored file the same file, and the same content.
//!
//! Device, inode and time of birth tell the file ([`FileId`]), size and modification time its content ([`FileIdentity`]).
//! Compared when a container is opened again and after every read of a local source. Times are exact to
//! what the file system keeps; a change that leaves all of them untouched is not seen.

use super::{Stat, Timestamp};

/// A file whatever becomes of its names and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
    /// Nanoseconds, in a number of its own for each time: the system gives an inode's number to another file when the
    /// first one has gone. 0 where nobody knows.
    pub birth: u64,
}

/// A file with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    pub id: FileId,
    pub size: u64,
    pub mtime: Timestamp,
}

/// The mount through which a file was reached; 0 where nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MountId(pub u64);

/// Who may do what with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Access {
    mode: u16,
    uid: u32,
    gid: u32,
}

impl Access {
    fn of(stat: &Stat) -> Access {
        Access {
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
        }
    }
}

/// Identity of a container: of its file and those that belong to it, or of every file of the directory that
/// it is. A file that is missing is part of the identity too; so is who may read it, because it decides who
/// may read the arrays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    access: Access,
    /// None for a directory, whose own size and times say nothing.
    file: Option<FileIdentity>,
    companions: Vec<Option<(FileIdentity, Access)>>,
}

impl Identity {
    /// Of a container that is one file, and of those beside it that belong to it.
    pub fn of_file(stat: &Stat, beside: &[Option<Stat>]) -> Identity {
        Identity {
            file: Some(stat.identity),
            ..Identity::of_directory(stat, beside)
        }
    }

    /// Of a directory and the members in it.
    pub fn of_directory(directory: &Stat, members: &[Option<Stat>]) -> Identity {
        let member = |stat: &Stat| (stat.identity, Access::of(stat));
        Identity {
            access: Access::of(directory),
            file: None,
            companions: members
                .iter()
                .map(|stat| stat.as_ref().map(member))
                .collect(),
        }
    }

    /// The container itself, if it is one file.
    pub fn file(&self) -> Option<FileIdentity> {
        self.file
    }

    /// The members of a directory, or the files beside a file; none for one that is missing.
    pub fn companions(&self) -> impl Iterator<Item = Option<FileIdentity>> {
        self.companions
            .iter()
            .map(|companion| companion.map(|(file, _)| file))
    }

    /// Whether this is the identity of a container that is one file, and of that one.
    pub fn is_of(&self, file: Option<FileIdentity>) -> bool {
        self.file.is_some() && self.file == file
    }
}
