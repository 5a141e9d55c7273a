//! Entries of containers as inodes.
//!
//! Used by [`super`], and by `listing` and `writing`.

use std::path::Path;
use std::sync::Arc;

use super::Tree;
use super::attr::Attr;
use super::inode::{Dirent, InodeId};
use super::node::Node;
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
        opened: &Arc<OpenContainer>,
        name: EntryIndex,
        link: Dirent,
    ) -> Result<Attr> {
        let entered = self.enter_as_opened(version, opened, name, link.clone())?;
        match self.holds(version, opened, &entered) {
            true => Ok(entered),
            false => self.enter_again(version, &link),
        }
    }

    /// Whether what was entered is the version as it is stored by now. A name that a commit gives
    /// to another entry later is among those that the kernel then forgets.
    fn holds(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        entered: &Attr,
    ) -> bool {
        let holds = opened.is_current(version);
        if !holds {
            self.forget(entered.inode, 1);
        }
        holds
    }

    /// Looks for a name again, in the container as a commit leaves it that is just ending.
    fn enter_again(&self, version: &Arc<ContainerVersion>, link: &Dirent) -> Result<Attr> {
        const TRIES: u32 = 16;
        let directory = match &*self.inodes.get(link.parent)? {
            Node::Entry(_, entry) => *entry,
            _ => EntryIndex::ROOT,
        };
        for _ in 0..TRIES {
            self.live.wait_until_published(version)?;
            let opened = self.live.open_version(version)?;
            let name = opened.find(directory, &link.name).ok_or(Error::NotFound)?;
            let entered = self.enter_as_opened(version, &opened, name, link.clone())?;
            if self.holds(version, &opened, &entered) {
                return Ok(entered);
            }
        }
        Err(self.changed(Path::new(&link.name)))
    }

    fn enter_as_opened(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &Arc<OpenContainer>,
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
