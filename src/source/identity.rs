//! What makes a stored file the same file, and the same content.
//!
//! Device, inode and time of birth tell the file ([`FileId`]), size and modification time its
//! content ([`FileIdentity`]). Compared when a container is opened again and after every read of a
//! local source. Times are exact to what the file system keeps; a change that leaves all of them
//! untouched is not seen.

use super::{Stat, Timestamp};

/// A file whatever becomes of its names and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
    /// Nanoseconds, in a number of its own for each time: the system gives an inode's number to
    /// another file when the first one has gone. 0 where the system does not say.
    pub birth: u64,
}

/// A file with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    pub id: FileId,
    pub size: u64,
    pub mtime: Timestamp,
}

/// The mount through which a file was reached; 0 where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MountId(pub u64);

/// Identity of a container's content: of its file and those that belong to it, or of every file of
/// the directory that it is. A file that is missing is part of the identity too. Owner and mode are
/// not: they may change while the content stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// None for a directory, whose own size and times say nothing.
    file: Option<FileIdentity>,
    companions: Vec<Option<FileIdentity>>,
}

impl Identity {
    /// Of a container that is one file, and of those beside it that belong to it.
    pub fn of_file(stat: &Stat, beside: &[Option<Stat>]) -> Identity {
        Identity {
            file: Some(stat.identity),
            ..Identity::of_directory(beside)
        }
    }

    /// Of the members of a directory.
    pub fn of_directory(members: &[Option<Stat>]) -> Identity {
        let content = |stat: &Option<Stat>| stat.as_ref().map(|stat| stat.identity);
        Identity {
            file: None,
            companions: members.iter().map(content).collect(),
        }
    }

    /// The container itself, if it is one file.
    pub fn file(&self) -> Option<FileIdentity> {
        self.file
    }

    /// The members of a directory, or the files beside a file; none for one that is missing.
    pub fn companions(&self) -> impl Iterator<Item = Option<FileIdentity>> {
        self.companions.iter().copied()
    }

    /// Whether this is the identity of a container that is one file, and of that one.
    pub fn is_of(&self, file: Option<FileIdentity>) -> bool {
        self.file.is_some() && self.file == file
    }
}
