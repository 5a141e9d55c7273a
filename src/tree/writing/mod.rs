//! The tree, changed: ordinary files and directories of the source, and arrays of containers.
//!
//! Every operation finds the place where an inode is now, has the disk change it, and lets the table of inodes follow.
//! What is written to arrays is staged, and committed later; a container is renamed or removed as the file
//! or directory that it is. Assumes that the kernel has let the caller in. Used by `kernel::adapter`.

mod ahead;
mod arrays;
mod attributes;
mod commit;
mod content;
mod guests;
mod made;
mod names;
mod packing;
mod recovery;
mod removal;
mod rename;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use content::Hole;
pub(super) use guests::Guests;
pub use packing::InUse;

use super::listing::is_shown;
use super::node::Node;
use super::{InodeId, Tree};
use crate::disk::{Disk, Place};
use crate::error::{Error, Result};
use crate::source::FileId;

/// A directory of the source, as it is known.
struct SourceDirectory {
    path: PathBuf,
    id: FileId,
}

impl SourceDirectory {
    /// For something new: names of ours are nobody else's.
    fn new_place<'a>(&'a self, name: &'a OsStr) -> Result<Place<'a>> {
        match is_shown(name) {
            true => Ok(self.place(name)),
            false => Err(Error::Computed(format!(
                "{} is a name that arrayfs keeps for itself",
                name.to_string_lossy()
            ))),
        }
    }

    fn place<'a>(&'a self, name: &'a OsStr) -> Place<'a> {
        Place {
            directory: &self.path,
            id: self.id,
            name,
        }
    }

    fn join(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }
}

impl Tree {
    fn writable(&self) -> Result<&dyn Disk> {
        self.disk.as_deref().ok_or(Error::ReadOnly)
    }

    /// The directory of the source that an inode is. That of a container cannot be changed, unless it is new: then it is the
    /// directory of its drafts.
    fn directory(&self, inode: InodeId) -> Result<SourceDirectory> {
        match &*self.inodes.get(inode)? {
            Node::Directory(at) => Ok(SourceDirectory {
                path: self.inodes.path(inode)?,
                id: at.id,
            }),
            Node::Container(_) => self.drafts_made(inode),
            Node::Entry(..) => Err(Error::ReadOnly),
            Node::File(_) | Node::Special(..) => Err(Error::NotADirectory),
            Node::Unseen(_) => Err(self.unseen(inode)),
        }
    }

    /// What is shown of a directory has changed.
    fn names_changed(&self, directory: InodeId) {
        self.kept_names.forget(directory);
    }
}

/// A failure that names the path, with a number of the system.
fn refused(doing: &str, path: &Path, code: i32) -> Error {
    let cause = std::io::Error::from_raw_os_error(code);
    Error::io(format!("cannot {doing} {}", path.display()), cause)
}
