//! Entries of containers: opening them to be read, and what they look like, with what is staged.
//!
//! Used by [`super`] and by `writing`.

use std::sync::Arc;

use super::entry_table::{ArrayNumber, EntryIndex};
use super::inode::Dirent;
use super::node::Node;
use super::open_container::OpenContainer;
use super::open_file::{FileContent, OpenArray, OpenFile};
use super::pinned::pinned;
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
        if let Some(derived) = opened.derived(entry).filter(|_| self.disk.is_some()) {
            return self.open_derived(version, opened, entry, derived);
        }
        if opened.is_stored(entry) {
            return self.open_stored(version, opened);
        }
        match opened.array_at(entry) {
            Some(number) if self.disk.is_some() && opened.is_outermost(number) => {
                let shared = version.staged.share(number, &opened, &self.cache)?;
                let content = FileContent::Array(OpenArray::new(shared, None));
                Ok(OpenFile::inside(content, opened))
            }
            _ => opened.open(entry, &self.cache),
        }
    }

    /// The file that a container is, as it is stored now.
    pub(super) fn open_stored(
        &self,
        version: &ContainerVersion,
        opened: Arc<OpenContainer>,
    ) -> Result<OpenFile> {
        let path = self.container_path(version.container)?;
        let source = pinned(&self.store, version, &path).open(&path)?;
        Ok(OpenFile::inside(FileContent::Stored(source), opened))
    }

    /// Whether the kernel's pages of what was opened hold: of an array they always do, for we never change it behind the kernel's
    /// back; of what follows from arrays, as long as these are what they were. Two may open it at once, and the answer to
    /// the first, for which the kernel drops its pages, may be on its way still: so an edition counts once a handle of it is closed.
    pub(super) fn keeps_pages(&self, inode: InodeId, opened: &OpenFile) -> bool {
        let holds = opened.derived().is_none_or(|derived| {
            let staged = &derived.version.staged;
            staged.edition_of_pages(derived.entry) == derived.edition
        });
        holds && !self.outdated.has(inode)
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
        attr.follows = self.disk.is_some() && opened.derived(entry).is_some();
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
        if let Some(size) = self.restated_size(version, opened, entry)? {
            attr.size = size;
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
