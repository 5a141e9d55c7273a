//! What makes a stored file the same file, and the same content.
//!
//! What is read is told from what it was before by its [`SourceIdentity`], of which nobody but the
//! store knows what it is made of: of a local file device, inode and time of birth ([`FileId`]),
//! size and modification time ([`FileIdentity`]); of an object what its store calls its version.
//! Compared when a container is opened again and after every read of a local source. Times are
//! exact to what the file system keeps; a change that leaves all of them untouched is not seen.
//! `disk`, inodes and logs know local files, and ask for that of which they are.

use sha2::{Digest, Sha256};

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

/// A local file with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    pub id: FileId,
    pub size: u64,
    pub mtime: Timestamp,
}

/// One content of what is read: what has the same identity has the same bytes. Opaque but for the
/// size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceIdentity {
    size: u64,
    tag: Tag,
}

/// By what a store tells contents apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tag {
    File(FileId, Timestamp),
    Object(ObjectTag),
}

/// What a store of objects calls a version of one, whatever its form: a digest of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ObjectTag([u8; 16]);

/// A content among those of one file, for as many as there are inodes: it takes less room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenContent {
    At(Timestamp, u64),
    Of(ObjectTag, u64),
}

impl SeenContent {
    /// In bytes.
    pub fn size(&self) -> u64 {
        match self {
            SeenContent::At(_, size) | SeenContent::Of(_, size) => *size,
        }
    }
}

impl ObjectTag {
    /// Of an ETag, a version id or the like.
    pub fn of(version: &[u8]) -> ObjectTag {
        let digest = Sha256::digest(version);
        let mut tag = ObjectTag::default();
        tag.0
            .iter_mut()
            .zip(digest)
            .for_each(|(to, from)| *to = from);
        tag
    }
}

impl SourceIdentity {
    pub fn of_object(tag: ObjectTag, size: u64) -> SourceIdentity {
        SourceIdentity {
            size,
            tag: Tag::Object(tag),
        }
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Of what is made of this content alone, and has so many bytes.
    pub fn resized(self, size: u64) -> SourceIdentity {
        SourceIdentity { size, ..self }
    }

    /// The local file that it is of.
    pub fn file(&self) -> Option<FileIdentity> {
        match self.tag {
            Tag::File(id, mtime) => Some(FileIdentity {
                id,
                size: self.size,
                mtime,
            }),
            Tag::Object(_) => None,
        }
    }

    /// One identity for all contents of a local file, and for each version of an object: by which
    /// work that is done for a file is counted.
    pub fn without_content(self) -> SourceIdentity {
        match self.tag {
            Tag::File(id, _) => SourceIdentity {
                size: 0,
                tag: Tag::File(id, Timestamp::default()),
            },
            Tag::Object(_) => self,
        }
    }

    /// What tells it from other contents of the same file.
    pub fn content(&self) -> SeenContent {
        let size = self.size;
        match self.tag {
            Tag::File(_, mtime) => SeenContent::At(mtime, size),
            Tag::Object(tag) => SeenContent::Of(tag, size),
        }
    }
}

impl From<FileIdentity> for SourceIdentity {
    fn from(file: FileIdentity) -> SourceIdentity {
        SourceIdentity {
            size: file.size,
            tag: Tag::File(file.id, file.mtime),
        }
    }
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
    file: Option<SourceIdentity>,
    companions: Vec<Option<SourceIdentity>>,
}

impl Identity {
    /// Of a container that is one file, and of those beside it that belong to it.
    pub fn of_file(stat: &Stat, beside: &[Option<Stat>]) -> Identity {
        Identity {
            file: Some(stat.identity()),
            ..Identity::of_directory(beside)
        }
    }

    /// Of the members of a directory.
    pub fn of_directory(members: &[Option<Stat>]) -> Identity {
        let content = |stat: &Option<Stat>| stat.as_ref().map(Stat::identity);
        Identity {
            file: None,
            companions: members.iter().map(content).collect(),
        }
    }

    /// The container itself, if it is one file.
    pub fn file(&self) -> Option<SourceIdentity> {
        self.file
    }

    /// The members of a directory, or the files beside a file; none for one that is missing.
    pub fn companions(&self) -> impl Iterator<Item = Option<SourceIdentity>> {
        self.companions.iter().copied()
    }

    /// Whether this is the identity of a container that is one file, and of that one.
    pub fn is_of(&self, file: Option<SourceIdentity>) -> bool {
        self.file.is_some() && self.file == file
    }
}
