//! Files in the directory of a container that are no part of it.
//!
//! In a container that is a directory they lie where they are shown. Beside one that is a file they
//! lie in a hidden directory, made when something is put into it and removed when nothing is left;
//! it goes where the container goes through the mount. Used by [`super`]; what reads them is
//! `tree::arrival`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::{InodeId, Tree};
use super::{SourceDirectory, refused};
use crate::commit::added::{added_of, added_path, remove_empty};
use crate::disk::{NewAttributes, Target};
use crate::error::{Error, Result};
use crate::live::LiveContainer;
use crate::live::creation::carried::owner_of;
use crate::source::{FileId, FileKind};
use crate::tree::Node;

impl Tree {
    /// The directory of files beside a container's arrays.
    pub(super) fn directory_beside(
        &self,
        inode: InodeId,
        container: &LiveContainer,
    ) -> Result<SourceDirectory> {
        let version = self.live.current(inode.into(), container)?;
        let path = self.beside(inode, container)?;
        Ok(SourceDirectory {
            id: self.store.stat(&path)?.identity.id,
            path,
            container: Some(self.live.open_version(&version)?),
        })
    }

    /// The same of a container that is a file, made if there is none yet, so that it can get a file
    /// of this name.
    pub(super) fn added_made(
        &self,
        inode: InodeId,
        container: &LiveContainer,
        name: &OsStr,
    ) -> Result<SourceDirectory> {
        self.live.watch_added(inode.into(), container);
        let made = self.directory_beside(inode, container);
        if !made.as_ref().is_err_and(Error::is_not_found) {
            return made;
        }
        let version = self.live.current(inode.into(), container)?;
        let opened = self.live.open_version(&version)?;
        let path = self.container_path(inode)?;
        let now = self.store.stat(&path)?;
        let new = SourceDirectory {
            container: Some(opened),
            ..SourceDirectory::new(added_path(&path), now.identity.id)
        };
        new.new_place(name)?;
        let made = self
            .live
            .make_hidden(&path, new.path.clone(), owner_of(&now));
        match made {
            // Another thread was faster; or it is not believed.
            Err(e) if e.is_already_there() => self.directory_beside(inode, container).or(Err(e)),
            Err(e) => Err(e),
            Ok(made) => Ok(SourceDirectory { id: made.id, ..new }),
        }
    }

    /// Nothing but files can be put into the directory of a container that is a file.
    pub(super) fn takes_only_files(&self, directory: InodeId) -> bool {
        let node = self.inodes.get(directory);
        node.is_ok_and(|node| {
            node.container().is_some_and(|container| {
                container.stored == FileKind::File && !container.new.is_new()
            })
        })
    }

    pub(super) fn refuse_in_container(&self, directory: InodeId, name: &OsStr) -> Result<()> {
        let in_group = matches!(&*self.inodes.get(directory)?, Node::Entry(..));
        match in_group || self.takes_only_files(directory) {
            true => Err(self.only_files((directory, name))),
            false => Ok(()),
        }
    }

    pub(super) fn only_files(&self, (directory, name): (InodeId, &OsStr)) -> Error {
        let path = self.inodes.path(directory).unwrap_or_default().join(name);
        refused("put anything but a file at", &path, libc::EPERM)
    }

    /// Something has gone from a directory: if it was the last added file of a container, their
    /// directory goes as well. A request that is about to put something into it tries again, as
    /// after a move.
    pub(super) fn tidy_added(&self, inode: InodeId) {
        let Ok(node) = self.inodes.get(inode) else {
            return;
        };
        let is_file = |container: &&Arc<LiveContainer>| {
            container.stored == FileKind::File && !container.new.is_new()
        };
        let Some(_) = node.container().filter(is_file) else {
            return;
        };
        let Ok(path) = self.container_path(inode) else {
            return;
        };
        if let Ok(Some((added, _))) = added_of(&*self.store, &path)
            && self.is_empty(&added).is_ok_and(|is_empty| is_empty)
        {
            let _moving = self.moves.begin();
            let spot = self.live.spot(&path);
            if let Err(e) = spot.and_then(|spot| remove_empty(self.live.writable()?, &spot)) {
                log::debug!("{e}");
            }
        }
    }

    /// Returns when the names of what lies beside a container's arrays have reached the disk.
    pub(super) fn sync_beside(&self, inode: InodeId, container: &LiveContainer) -> Result<()> {
        let Some(path) = found(self.beside(inode, container))? else {
            return Ok(());
        };
        let id = self.store.stat(&path)?.identity.id;
        let target = Target::Named { path: &path, id };
        let disk = self.live.writable()?;
        disk.sync(target, false)?;
        if container.stored == FileKind::Directory {
            return Ok(());
        }
        // The name of that directory as well.
        let spot = self.live.spot(&path)?;
        let (path, id) = (&*spot.directory, spot.id);
        disk.sync(Target::Named { path, id }, false)
    }

    /// A file has been synced. One beside the arrays of a container is found after a crash.
    pub(super) fn sync_added_above(&self, file: InodeId) -> Result<()> {
        let parent = self.inodes.parent(file);
        let Some((parent, node)) = parent.and_then(|at| Some((at, self.inodes.get(at).ok()?)))
        else {
            return Ok(());
        };
        match node.container() {
            Some(container) if !container.new.is_new() => self.sync_beside(parent, container),
            _ => Ok(()),
        }
    }

    /// Another owner of a container is that of the directory of its added files, which would else
    /// not be believed. `added`: as it was found before.
    pub(super) fn give_added(
        &self,
        added: Option<(PathBuf, FileId)>,
        to: &NewAttributes,
    ) -> Result<()> {
        let (Some((path, id)), true) = (added, to.uid.or(to.gid).is_some()) else {
            return Ok(());
        };
        let owner = NewAttributes {
            uid: to.uid,
            gid: to.gid,
            ..NewAttributes::default()
        };
        let path = &*path;
        self.live
            .writable()?
            .set_attributes(Target::Named { path, id }, &owner)
    }
}

/// None instead of NotFound.
fn found<T>(what: Result<T>) -> Result<Option<T>> {
    match what {
        Err(e) if e.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}
