//! Making containers: `mkdir x.blp`, and what is put into a new container.
//!
//! Used by [`super`]; `live::creation` makes the container in the source, and packs it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::Tree;
use super::super::attr::Attr;
use super::super::inode::{Dirent, InodeId};
use super::super::node::Node;
use super::super::open_file::HandleId;
use crate::commit::Spot;
use crate::container::creation::Creation;
use crate::disk::Caller;
use crate::error::{Error, Result};
use crate::live::refused;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::sync::RwLockReadGuard;

impl Tree {
    /// Makes an empty container. Counts one look-up of its inode.
    pub(super) fn make_container(
        &self,
        parent: InodeId,
        name: &OsStr,
        creation: &dyn Creation,
        mode: u32,
        owner: Caller,
    ) -> Result<Attr> {
        let directory = self.directory(parent)?;
        directory.new_place(name)?;
        let path = directory.join(name);
        if self.store.stat(&path).is_ok() {
            return Err(refused("make", &path, libc::EEXIST));
        }
        let spot = Spot {
            directory: directory.path,
            id: directory.id,
            name: name.to_owned(),
        };
        let drafts = self.live.make_empty(&spot, creation, mode, owner)?;
        self.names_changed(parent);
        let attr = self.enter_source(Dirent::new(parent, name), &spot.directory)?;
        if let Some(container) = self.inodes.get(attr.inode)?.container()
            && let Some(id) = drafts
        {
            container.new.begin(id);
            self.live.watch(attr.inode.into());
        }
        Ok(attr)
    }

    /// Finds what was put into a new container. Counts one look-up.
    pub(crate) fn lookup_draft(&self, container: InodeId, link: Dirent) -> Result<Attr> {
        let path = self
            .live
            .drafts_at(container.into())?
            .ok_or(Error::NotFound)?;
        self.enter_source(link, &path)
    }

    /// An inode and all directories above it, by whichever names.
    fn with_above(&self, inode: InodeId) -> impl Iterator<Item = InodeId> {
        std::iter::once(inode).chain(self.inodes.above(inode))
    }

    /// A program has changed this, or had it open: if it is, or lies in, a new container, that has
    /// been used until now.
    pub(crate) fn note_use(&self, inode: InodeId) {
        if !self.live.new.is_empty() {
            let all = self.with_above(inode);
            all.for_each(|directory| self.live.new.used(directory.into()));
        }
    }

    /// A program has closed this: if it is, or lies in, a new container, that has been used until
    /// now.
    pub(crate) fn note_let_go(&self, inode: InodeId) {
        if !self.live.new.is_empty() {
            let all = self.with_above(inode);
            all.for_each(|directory| self.live.new.let_go(directory.into()));
        }
    }

    /// Keeps drafts what they are for a moment, if this is one of them or their container. For
    /// others there is nothing to wait for.
    pub(super) fn share_new(&self, inode: InodeId) -> Option<RwLockReadGuard<'_, ()>> {
        let is_new = |inode: InodeId| self.live.new.has(inode.into());
        let in_new = !self.live.new.is_empty() && self.with_above(inode).any(is_new);
        in_new.then(|| self.live.new.shared())
    }

    /// Whether a directory is, or lies in, that of a container, new or not: what is made there is
    /// no container.
    pub(super) fn is_below_container(&self, directory: InodeId) -> bool {
        let node = |inode| self.inodes.get(inode).ok();
        let is_container = |inode| node(inode).is_some_and(|node| node.container().is_some());
        self.with_above(directory).any(is_container)
    }

    /// Whether a directory shows drafts: whatever these look like, they are shown as they are.
    pub(crate) fn shows_drafts(&self, directory: InodeId) -> bool {
        self.new_above(directory).is_some()
    }

    /// The new container that a directory is, or lies in.
    pub(crate) fn new_above(&self, directory: InodeId) -> Option<(InodeId, Arc<Node>)> {
        if self.live.new.is_empty() {
            return None;
        }
        let known = |inode| Some((inode, self.inodes.get(inode).ok()?));
        let mut all = self.with_above(directory).filter_map(known);
        all.find(|(_, node)| node.container().is_some_and(|c| c.new.is_new()))
    }

    /// A file is closed after it was written. If it is to describe a new container, it must be
    /// understood.
    pub(super) fn check_description(&self, handle: HandleId) -> Result<()> {
        if self.live.new.is_empty() {
            return Ok(());
        }
        let inode = self.open_files.inode_of(handle)?;
        let Some((container, file)) = self.described_container(inode) else {
            return Ok(());
        };
        let format = container
            .container()
            .map(|container| container.known().recognised.format);
        let creation = format.and_then(|format| format.creation());
        let (Some(creation), true) = (creation, self.store.stat(&file)?.size > 0) else {
            return Ok(());
        };
        let (description, _charged) = self.live.read_description(&file)?;
        creation.accepts(&description)
    }

    /// The new container in which a file is an `arrays.json`, its own or a group's, and where that
    /// lies.
    fn described_container(&self, file: InodeId) -> Option<(Arc<Node>, PathBuf)> {
        let (container, node) = self.new_above(self.inodes.parent(file)?)?;
        let drafts = self.live.drafts(container.into()).ok()??;
        let mut paths = self.inodes.paths(file).into_iter();
        let format = node.container()?.known().recognised.format;
        let has_groups = format
            .creation()
            .is_some_and(|creation| creation.has_links());
        let is_it = |path: &PathBuf| {
            let is_own = path.parent() == Some(&*drafts.path);
            path.file_name() == Some(OsStr::new(ARRAYS_JSON))
                && (is_own || has_groups && path.starts_with(&drafts.path))
        };
        paths.find(is_it).map(|path| (node, path))
    }

    /// A file has been synced. One of a new container is found after a crash.
    pub(super) fn sync_new_above(&self, handle: HandleId) -> Result<()> {
        match self.open_files.inode_of(handle) {
            Ok(inode) if !self.live.new.is_empty() => {
                let above = self.inodes.above(inode).into_iter();
                let mut new = above.filter(|above| self.live.new.has((*above).into()));
                new.try_for_each(|container| self.live.sync_drafts(container.into()))
            }
            _ => Ok(()),
        }
    }
}
