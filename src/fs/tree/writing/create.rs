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
use crate::error::Result;
use crate::live::refused;
use crate::live::shown::entry_table::ARRAYS_JSON;

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
        if self.fs.store.stat(&path).is_ok() {
            return Err(refused("make", &path, libc::EEXIST));
        }
        let spot = Spot {
            directory: directory.path,
            id: directory.id,
            name: name.to_owned(),
        };
        let drafts = self.fs.live.make_empty(&spot, creation, mode, owner)?;
        self.names_changed(parent);
        let attr = self
            .names
            .enter_source(Dirent::new(parent, name), &spot.directory)?;
        if let Some(container) = self.fs.inodes.get(attr.inode)?.container()
            && let Some(id) = drafts
        {
            container.new.begin(id);
            self.fs.live.watch(attr.inode.into());
        }
        Ok(attr)
    }

    /// A file is closed after it was written. If it is to describe a new container, it must be
    /// understood.
    pub(super) fn check_description(&self, handle: HandleId) -> Result<()> {
        if self.fs.live.new.is_empty() {
            return Ok(());
        }
        let inode = self.fs.open_files.inode_of(handle)?;
        let Some((container, file)) = self.described_container(inode) else {
            return Ok(());
        };
        let format = container
            .container()
            .map(|container| container.known().recognised.format);
        let creation = format.and_then(|format| format.creation());
        let (Some(creation), true) = (creation, self.fs.store.stat(&file)?.size > 0) else {
            return Ok(());
        };
        let (description, _charged) = self.fs.live.read_description(&file)?;
        creation.accepts(&description)
    }

    /// The new container in which a file is an `arrays.json`, its own or a group's, and where that
    /// lies.
    fn described_container(&self, file: InodeId) -> Option<(Arc<Node>, PathBuf)> {
        let (container, node) = self.fs.enclosing.new_above(self.fs.inodes.parent(file)?)?;
        let drafts = self.fs.live.drafts(container.into()).ok()??;
        let mut paths = self.fs.inodes.paths(file).into_iter();
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
        match self.fs.open_files.inode_of(handle) {
            Ok(inode) if !self.fs.live.new.is_empty() => {
                let above = self.fs.inodes.above(inode).into_iter();
                let mut new = above.filter(|above| self.fs.live.new.has((*above).into()));
                new.try_for_each(|container| self.fs.live.sync_drafts(container.into()))
            }
            _ => Ok(()),
        }
    }
}
