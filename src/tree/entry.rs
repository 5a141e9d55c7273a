//! Entries of containers: opening them to be read, and what they look like, with what is staged.
//!
//! Used by [`super`] and by `writing`.

use std::sync::Arc;

use super::entry_table::{ArrayNumber, EntryIndex};
use super::inode::Dirent;
use super::node::Node;
use super::open_container::OpenContainer;
use super::open_file::{FileContent, OpenArray, OpenFile};
use super::staged::staged_array;
use super::version::ContainerVersion;
use super::{Attr, InodeId, Tree};
use crate::error::Result;
use crate::source::FileKind;

/// Bits of a mode that let somebody write.
pub(super) const WRITABLE: u16 = 0o222;

impl Tree {
    /// Opens an entry of a container, to be read. Handles of an array that may be written share what they show.
    pub(super) fn open_entry(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
    ) -> Result<OpenFile> {
        let opened = self.open_version(version)?;
        match opened.array_at(entry) {
            Some(number) if self.disk.is_some() && opened.is_outermost(number) => {
                let shared = version.staged.share(number, &opened, &self.cache)?;
                let content = FileContent::Array(OpenArray::new(shared, None));
                Ok(OpenFile::inside(content, opened))
            }
            _ => opened.open(entry, &self.cache),
        }
    }

    /// Whether the kernel's pages of an entry hold: of an array they always do, for we never change it behind the kernel's
    /// back; what follows from arrays is another one after a commit.
    pub(super) fn keeps_pages(
        &self,
        inode: InodeId,
        version: &ContainerVersion,
        entry: EntryIndex,
    ) -> Result<bool> {
        let is_array = self.open_version(version)?.array_at(entry).is_some();
        let holds = is_array || !version.staged.was_committed();
        Ok(holds && !self.outdated.has(inode))
    }

    /// What an entry of a container looks like, with what is staged.
    pub(super) fn entry_attr(
        &self,
        version: &ContainerVersion,
        opened: &OpenContainer,
        entry: EntryIndex,
        inode: InodeId,
    ) -> Result<Attr> {
        let mut attr = opened.attr(entry, inode, &version.owner(), &self.settings)?;
        // In a mount that is only read, modes say what they say in the source.
        if self.disk.is_some() && attr.kind == FileKind::File && !opened.is_written(entry) {
            attr.mode &= !WRITABLE;
        }
        let Some(container) = version.staged.now() else {
            return Ok(attr);
        };
        if let Some(written) = container.stage.last_write() {
            (attr.mtime, attr.ctime) = (attr.mtime.max(written), attr.ctime.max(written));
        }
        if let Some(number) = opened.array_at(entry)
            && opened.is_outermost(number)
        {
            attr.size = container.stage.len(staged_array(number)?);
            attr.is_written = true;
        }
        Ok(attr)
    }

    /// The array that an inode stands for.
    pub(super) fn array_of(&self, inode: InodeId) -> Option<ArrayNumber> {
        match &*self.inodes.get(inode).ok()? {
            Node::Entry(version, entry) => self.open_version(version).ok()?.array_at(*entry),
            _ => None,
        }
    }

    /// An entry of a container, with its inode.
    pub(super) fn enter(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &OpenContainer,
        entry: EntryIndex,
        link: Dirent,
    ) -> Result<Attr> {
        let mut attr = self.entry_attr(version, opened, entry, InodeId::ROOT)?;
        let node = Node::Entry(Arc::clone(version), entry);
        (attr.inode, _) = self.inodes.enter(link, node)?;
        Ok(attr)
    }
}
