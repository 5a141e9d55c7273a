//! Entries of containers as inodes.
//!
//! Used by [`super`], and by `listing` and `writing`.

use std::path::Path;
use std::sync::Arc;

use super::inode::Dirent;
use super::node::Node;
use super::{Attr, InodeId, Tree};
use crate::error::{Error, Result};
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::shown::open_entry::OpenEntry;
use crate::live::version::ContainerVersion;

impl Tree {
    /// Whether the kernel's pages of what was opened hold: of an array they always do, for we never
    /// change it behind the kernel's back; of what follows from arrays, as long as these are what
    /// they were. Two may open it at once, and the answer to the first, for which the kernel drops
    /// its pages, may be on its way still: so an edition counts once a handle of it is closed.
    pub(super) fn keeps_pages(&self, inode: InodeId, opened: &OpenEntry) -> bool {
        let holds = opened.derived().is_none_or(|derived| {
            let staged = &derived.version.staged;
            staged.edition_of_pages(derived.entry) == derived.edition
        });
        holds && !self.outdated.has(inode)
    }

    /// What a name in a container leads to, with its inode.
    pub(super) fn enter(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &OpenContainer,
        name: EntryIndex,
        link: Dirent,
    ) -> Result<Attr> {
        let entry = opened.file_of(name);
        let stat = self.live.entry_stat(version, opened, entry)?;
        let node = Node::Entry(Arc::clone(version), entry);
        let (inode, _) = self.inodes.enter(link, node)?;
        Ok(Attr::of_entry(inode, &stat, &self.settings))
    }

    /// The listing of an opened container, which the kernel keeps, goes when the container changes.
    pub(super) fn notice_change(&self, inode: InodeId, node: &Node) {
        if let Some(container) = node.container() {
            self.live.notice_change(inode.into(), container);
        }
    }

    /// Another process has changed what lies at this path: the kernel is to look again.
    pub(super) fn changed(&self, path: &Path) -> Error {
        self.live.changed(path)
    }

    pub(super) fn invalidate(&self, inode: InodeId, link: Option<Dirent>) {
        self.places.invalidate(inode, link);
    }
}
