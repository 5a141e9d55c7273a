//! What an inode is called: its number, and its names. Used by [`super::inodes`] and all of `tree`.

use std::ffi::{OsStr, OsString};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeId(pub u64);

impl InodeId {
    pub const ROOT: InodeId = InodeId(1);
}

/// A name in a directory of the mount.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dirent {
    pub(crate) parent: InodeId,
    pub(crate) name: OsString,
}

impl Dirent {
    pub(crate) fn new(parent: InodeId, name: &OsStr) -> Dirent {
        Dirent {
            parent,
            name: name.to_owned(),
        }
    }

    pub(crate) fn link(&self) -> NameIn<'_> {
        NameIn {
            parent: self.parent,
            name: &self.name,
        }
    }
}

/// A name in a directory of the mount, as it lies in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NameIn<'a> {
    pub(crate) parent: InodeId,
    pub(crate) name: &'a OsStr,
}

impl From<NameIn<'_>> for Dirent {
    fn from(link: NameIn<'_>) -> Dirent {
        Dirent::new(link.parent, link.name)
    }
}
