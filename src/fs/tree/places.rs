//! What the tree says of containers to `live`: where they lie, whether they are in use, and how the
//! kernel forgets what no longer holds.
//!
//! Assumes that a container's number is that of its inode. Used by `live`, as its [`Places`], and
//! by all parts of the tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::arrival::node_of;
use super::inode::{Dirent, InodeId, Inodes};
use super::invalidation::Invalidation;
use super::listing_cache::ListingCache;
use super::moves::Moves;
use super::node::Node;
use super::open_file::OpenFiles;
use super::outdated::Outdated;
use super::written_here::WrittenHere;
use crate::cache::VersionId;
use crate::error::{Error, Result};
use crate::live::places::{Forget, Stale};
use crate::live::{ContainerId, LiveContainer, Places};
use crate::source::{FileId, FileKind, Stat, Store};
use crate::sync::RwLockReadGuard;

/// What both the tree and the containers in it look at.
pub(super) struct TreePlaces {
    pub(super) store: Arc<dyn Store>,
    pub(super) inodes: Arc<Inodes>,
    pub(super) moves: Arc<Moves>,
    pub(super) open_files: Arc<OpenFiles>,
    pub(super) written_here: Arc<WrittenHere>,
    pub(super) listing_cache: Arc<ListingCache>,
    pub(super) outdated: Arc<Outdated>,
    pub(super) invalidations: Sender<Invalidation>,
}

impl From<InodeId> for ContainerId {
    fn from(inode: InodeId) -> ContainerId {
        ContainerId(inode.0)
    }
}

impl From<ContainerId> for InodeId {
    fn from(id: ContainerId) -> InodeId {
        InodeId(id.0)
    }
}

impl TreePlaces {
    /// Where the file or directory of the source that an inode stands for lies now, by whichever of
    /// its names.
    pub(super) fn locate(&self, inode: InodeId, node: &Node) -> Result<(PathBuf, Stat)> {
        let mut missing = None;
        for path in self.inodes.paths(inode) {
            let why = match self.store.stat(&path) {
                Ok(stat) if node.is_still(&stat) => return Ok((path, stat)),
                Ok(_) => Error::Changed {
                    path: self.store.display(&path),
                },
                Err(e) => e,
            };
            // What the name looked up last says counts.
            missing.get_or_insert(why);
        }
        Err(missing.unwrap_or(Error::NotFound))
    }

    /// Where a directory of the source lies now.
    pub(super) fn locate_directory(&self, inode: InodeId, node: &Node) -> Result<PathBuf> {
        // The root is not looked for by a name.
        if inode == InodeId::ROOT {
            return self.inodes.path(inode);
        }
        self.locate(inode, node).map(|(path, _)| path)
    }

    pub(super) fn invalidate(&self, inode: InodeId, link: Option<Dirent>) {
        self.send(Invalidation {
            inode,
            content: true,
            name: link.map(|link| (link.parent, link.name)),
        });
    }

    /// The kernel is to ask for attributes again; its pages hold.
    fn forget_attributes(&self, inode: InodeId) {
        self.send(Invalidation {
            inode,
            content: false,
            name: None,
        });
    }

    fn send(&self, invalidation: Invalidation) {
        // No thread listens once the mount is gone.
        let _ = self.invalidations.send(invalidation);
    }

    fn forget_stale(&self, inode: InodeId, stale: Stale) {
        match stale {
            Stale::Nothing => {}
            Stale::Attributes => self.forget_attributes(inode),
            Stale::Pages(of) => self.outdated.add(inode, of),
        }
    }
}

impl Places for TreePlaces {
    fn container(&self, id: ContainerId) -> Result<Arc<LiveContainer>> {
        let node = self.inodes.get(id.into())?;
        node.container().cloned().ok_or(Error::NotADirectory)
    }

    fn path(&self, id: ContainerId) -> Result<PathBuf> {
        let inode = id.into();
        if let Some(parent) = self.inodes.parent(inode)
            && let node = self.inodes.get(parent)?
            && let Node::Directory(_) = &*node
        {
            self.locate_directory(parent, &node)?;
        }
        self.inodes.path(inode)
    }

    fn known_path(&self, id: ContainerId) -> Result<PathBuf> {
        self.inodes.path(id.into())
    }

    fn is_removed(&self, id: ContainerId) -> bool {
        self.inodes.is_unnamed(id.into())
    }

    fn pin(&self) -> RwLockReadGuard<'_, ()> {
        self.moves.pin()
    }

    fn try_pin(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.moves.try_pin()
    }

    fn moves(&self) -> u64 {
        self.moves.mark()
    }

    fn retry(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.moves.retry(work)
    }

    fn retry_briefly(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.moves.retry_briefly(work)
    }

    fn is_in_use(&self, id: ContainerId) -> bool {
        let mut open = self.open_files.inodes().into_iter();
        open.any(|inode| self.inodes.above(inode).contains(&id.into()))
    }

    fn is_open_for_writing(&self, version: VersionId) -> bool {
        let mut entries = self.inodes.of_version(version).into_iter();
        entries.any(|(inode, _)| {
            let open = self.open_files.of_inode(inode);
            open.iter().any(|file| file.array_writer().is_some())
        })
    }

    fn has_written(&self, file: FileId) -> bool {
        self.written_here.contains(file)
    }

    fn hold(&self, id: ContainerId) {
        self.inodes.hold(id.into());
    }

    fn let_go(&self, id: ContainerId) -> Option<Arc<LiveContainer>> {
        for above in self.inodes.let_go(id.into()) {
            self.listing_cache.forget(above);
        }
        let gone = self.inodes.forget(id.into(), 1)?;
        self.listing_cache.forget(id.into());
        gone.container().cloned()
    }

    fn forget(&self, id: ContainerId, what: Forget<'_>) {
        match what {
            Forget::Entries(version) => {
                self.listing_cache.forget(id.into());
                // A program that has synced its directory is shown its times next.
                self.outdated.add(id.into(), None);
                for (inode, links) in version
                    .into_iter()
                    .flat_map(|of| self.inodes.of_version(of))
                {
                    self.invalidate(inode, links.into_iter().next());
                }
            }
            Forget::Attributes(version) => {
                let entries = self.inodes.of_version(version).into_iter();
                entries.for_each(|(inode, _)| self.forget_attributes(inode));
            }
            Forget::Stale(version, stale) => {
                for (inode, _) in self.inodes.of_version(version) {
                    let node = self.inodes.get(inode);
                    if let Ok(Node::Entry(_, entry)) = node.as_deref() {
                        self.forget_stale(inode, stale(*entry));
                    }
                }
            }
        }
    }

    fn draft_removed(&self, id: Option<ContainerId>, path: &Path, stat: &Stat) {
        if stat.nlink < 2 {
            self.written_here.remove(stat.id);
        }
        // With the name of a group the kernel forgets all that was in it.
        let in_root = path.parent() == Some(Path::new(""));
        let (Some(id), true) = (id, in_root) else {
            return;
        };
        let link = Dirent::new(id.into(), path.as_os_str());
        if let Some((inode, _)) = self.inodes.named(&link, stat) {
            match stat.kind {
                FileKind::Directory => self.inodes.replaced(&link, stat),
                _ => drop(self.inodes.unlinked(&link, stat)),
            }
            self.invalidate(inode, Some(link));
        }
    }

    fn exchanged(
        &self,
        id: ContainerId,
        exchange: &mut dyn FnMut() -> Result<Option<Stat>>,
    ) -> Result<()> {
        let moving = self.moves.begin();
        if let Some(stat) = exchange()? {
            self.inodes.becomes(id.into(), node_of(&stat, None))?;
        }
        moving.made();
        Ok(())
    }
}
