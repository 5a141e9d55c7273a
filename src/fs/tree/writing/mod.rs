//! The tree, changed: ordinary files and directories of the source, and arrays of containers.
//!
//! Every operation finds the place where an inode is now, has the disk change it, and lets the
//! table of inodes follow. What is written to arrays is staged, and committed later; a container is
//! renamed or removed as the file or directory that it is. Assumes that the kernel has let the
//! caller in. Used by `kernel::adapter`.

mod added;
mod arrays;
mod attributes;
mod content;
mod copies;
mod create;
mod names;
mod promote;
mod removal;
mod rename;
mod rename_into;
mod rename_new;
mod replace;
mod requests;
mod retyped;
mod strays;
#[cfg(test)]
pub(crate) mod tests;
mod whiteout;

use std::ffi::OsStr;

use super::Tree;
use super::container_directory::ContainerDirectory;
use super::inode::InodeId;
use super::node::Node;
use crate::error::{Error, Result};
use crate::live::directory::SourceDirectory;
use crate::source::FileKind;

pub use content::Hole;
pub use removal::COMES_BACK;

impl Tree {
    /// The directory of the source that an inode is. Of a container that is new it is the directory
    /// of its drafts; of another one that of what lies beside its arrays. NotFound if it has none.
    fn directory(&self, inode: InodeId) -> Result<SourceDirectory> {
        match &*self.fs.inodes.get(inode)? {
            Node::Directory(at) => Ok(SourceDirectory {
                takes_any_name: self.fs.has_no_containers(),
                ..SourceDirectory::new(self.fs.inodes.path(inode)?, at.id)
            }),
            Node::Container(container) if container.new.is_new() => {
                self.fs.live.drafts_to_change(inode.into())
            }
            Node::Container(_) | Node::Entry(..) => {
                let directory = ContainerDirectory::find(&self.fs, inode)?;
                self.directory_beside(&directory.ok_or(Error::ReadOnly)?)
            }
            Node::File(_) | Node::Special(..) => Err(Error::NotADirectory),
            Node::Unseen(_) => Err(self.fs.unseen(inode)),
        }
    }

    /// The directory of the source that an inode is, for putting something of this name into it:
    /// made, if there is none yet.
    fn directory_to_fill(&self, inode: InodeId, name: &OsStr) -> Result<SourceDirectory> {
        match ContainerDirectory::find(&self.fs, inode)? {
            Some(directory) if directory.container.stored == FileKind::File => {
                self.added_made(&directory, name)
            }
            _ => self.directory(inode),
        }
    }

    /// What is shown of a directory has changed.
    fn names_changed(&self, directory: InodeId) {
        self.listing_cache.forget(directory);
    }
}
