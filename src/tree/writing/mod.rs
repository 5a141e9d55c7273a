//! The tree, changed: ordinary files and directories of the source, and arrays of containers.
//!
//! Every operation finds the place where an inode is now, has the disk change it, and lets the table of inodes follow.
//! What is written to arrays is staged, and committed later; a container is renamed or removed as the file
//! or directory that it is. Assumes that the kernel has let the caller in. Used by `kernel::adapter`.

mod added;
mod ahead;
mod arrays;
mod attributes;
mod changes;
mod commit;
mod content;
mod later;
mod made;
mod moved_new;
mod names;
mod packing;
mod publish;
mod recovery;
mod remembered;
mod removal;
mod rename;
mod replaced_array;
mod requests;
mod retyped;
#[cfg(test)]
mod tests;
mod turned;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use content::Hole;
pub use packing::InUse;
pub(super) use recovery::Settled;
pub(super) use remembered::StagedVersions;
pub use removal::COMES_BACK;

use super::listing::is_shown;
use super::node::Node;
use super::open_container::OpenContainer;
use super::{InodeId, Tree};
use crate::disk::{Disk, Place};
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind};

/// A directory of the source, as it is known.
struct SourceDirectory {
    path: PathBuf,
    id: FileId,
    /// The container that the directory is.
    container: Option<Arc<OpenContainer>>,
}

impl SourceDirectory {
    fn new(path: PathBuf, id: FileId) -> SourceDirectory {
        SourceDirectory {
            path,
            id,
            container: None,
        }
    }

    /// For something new: names of ours, and those of a container's own, are nobody else's.
    fn new_place<'a>(&'a self, name: &'a OsStr) -> Result<Place<'a>> {
        let kept_by = match &self.container {
            _ if !is_shown(name) => "arrayfs",
            Some(container) if !container.shows_beside(name) => "the container",
            _ => return Ok(self.place(name)),
        };
        Err(Error::Computed(format!(
            "{} is a name that {kept_by} keeps for itself",
            name.to_string_lossy()
        )))
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

    /// The directory of the source that an inode is. Of a container that is new it is the directory of its drafts; of another
    /// one that of what lies beside its arrays. NotFound if it has none.
    fn directory(&self, inode: InodeId) -> Result<SourceDirectory> {
        match &*self.inodes.get(inode)? {
            Node::Directory(at) => Ok(SourceDirectory::new(self.inodes.path(inode)?, at.id)),
            Node::Container(container) if container.new.is_new() => self.drafts_to_change(inode),
            Node::Container(container) => self.directory_beside(inode, container),
            Node::Entry(..) => Err(Error::ReadOnly),
            Node::File(_) | Node::Special(..) => Err(Error::NotADirectory),
            Node::Unseen(_) => Err(self.unseen(inode)),
        }
    }

    /// The same for who puts something of this name into it: made, if there is none yet.
    fn directory_to_fill(&self, inode: InodeId, name: &OsStr) -> Result<SourceDirectory> {
        let node = self.inodes.get(inode)?;
        match node.container() {
            Some(container) if container.stored == FileKind::File && !container.new.is_new() => {
                self.added_made(inode, container, name)
            }
            _ => self.directory(inode),
        }
    }

    /// What is shown of a directory has changed.
    fn names_changed(&self, directory: InodeId) {
        self.kept_names.forget(directory);
    }
}

/// A failure that names the path, with a number of the system.
fn refused(doing: &str, path: &Path, code: i32) -> Error {
    refused_saying(format!("{doing} {}", path.display()), code)
}

/// The same in other words.
fn refused_saying(doing: String, code: i32) -> Error {
    let cause = std::io::Error::from_raw_os_error(code);
    Error::io(format!("cannot {doing}"), cause)
}
