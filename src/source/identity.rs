//! What makes a stored file the same file: device, inode, size and modification time.
//!
//! Compared when a container is opened again and after every read of a local source. Times are exact to
//! what the file system keeps; a change that leaves all four untouched is not seen.

use super::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub mtime: Timestamp,
}

/// Identity of a container: of its file, or of every file of the directory that it is. A member that is
/// missing is part of the identity too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity(pub Vec<Option<FileIdentity>>);

impl Identity {
    /// Whether this is the identity of one file, and of that one.
    pub fn is_of(&self, file: Option<FileIdentity>) -> bool {
        file.is_some() && self.0 == [file]
    }
}
