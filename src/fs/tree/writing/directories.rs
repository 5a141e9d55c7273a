//! The directories of the source that are changed: where they lie, which names in them the kernel
//! knows, and files in the directory of a container that are no part of it.
//!
//! In a container that is a directory such files lie where they are shown. Beside one that is a
//! file they lie in a hidden directory, those of its groups in directories named like these, made
//! when something is put into them and removed when nothing is left; it goes where the container
//! goes through the mount. Used by all of `writing`; what reads added files is
//! `tree::container_directory`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::listing_cache::ListingCache;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::written_here::WrittenHere;
use crate::commit::Spot;
use crate::commit::added::{added_path, make_below, remove_empty};
use crate::disk::{NewAttributes, Place, Target};
use crate::error::{Error, Result};
use crate::live::creation::added::owner_of;
use crate::live::directory::SourceDirectory;
use crate::live::{LiveContainer, refused};
use crate::source::{FileId, FileKind, Stat};

/// A name that is renamed, and what it led to before.
pub(super) struct Side {
    pub(super) link: Dirent,
    pub(super) directory: SourceDirectory,
    pub(super) stat: Stat,
}

impl Side {
    pub(super) fn place(&self) -> Place<'_> {
        self.directory.place(&self.link.name)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.link.name)
    }
}

/// Finds directories of the source, and notes what becomes of the names in them.
pub(crate) struct SourceDirectories {
    pub(super) fs: Arc<MountedFs>,
    pub(super) written_here: Arc<WrittenHere>,
    pub(super) listing_cache: Arc<ListingCache>,
}

impl SourceDirectories {
    /// The directory of the source that an inode is. Of a container that is new it is the directory
    /// of its drafts; of another one that of what lies beside its arrays. NotFound if it has none.
    pub(super) fn find(&self, inode: InodeId) -> Result<SourceDirectory> {
        match &*self.fs.inodes.get(inode)? {
            Node::Directory(at) => Ok(SourceDirectory {
                takes_any_name: self.fs.has_no_containers(),
                ..SourceDirectory::new(self.fs.inodes.path(inode)?, at.id)
            }),
            Node::Container(container) if container.new.is_new() => {
                self.fs.live.drafts.to_change(inode.into())
            }
            Node::Container(_) | Node::Entry(..) => {
                let directory = ContainerDirectory::find(&self.fs, inode)?;
                self.beside(&directory.ok_or(Error::ReadOnly)?)
            }
            Node::File(_) | Node::Special(..) => Err(Error::NotADirectory),
            Node::Unseen(_) => Err(self.fs.unseen(inode)),
        }
    }

    /// The directory of the source that an inode is, for putting something of this name into it:
    /// made, if there is none yet.
    pub(super) fn find_to_fill(&self, inode: InodeId, name: &OsStr) -> Result<SourceDirectory> {
        match ContainerDirectory::find(&self.fs, inode)? {
            Some(directory) if directory.container.stored == FileKind::File => {
                self.added_made(&directory, name)
            }
            _ => self.find(inode),
        }
    }

    /// What is renamed.
    pub(super) fn side(&self, (parent, name): (InodeId, &OsStr)) -> Result<Side> {
        let directory = self.find(parent)?;
        Ok(Side {
            stat: self.fs.store.stat(&directory.join(name))?,
            link: Dirent::new(parent, name),
            directory,
        })
    }

    /// What the kernel has looked up under a name, and let the caller change. If the name leads to
    /// something else by now, the kernel is to look again, and to ask who may change that.
    pub(super) fn as_looked_up(&self, link: &Dirent, stat: &Stat) -> Result<(InodeId, Arc<Node>)> {
        let known = self.fs.inodes.named(link, stat);
        let path = || self.fs.path_in(link.parent, &link.name);
        known.ok_or_else(|| self.fs.live.ground.changed(&path()))
    }

    /// Whether the kernel knows what a name leads to as a container.
    pub(super) fn is_named_container(&self, link: &Dirent, stat: &Stat) -> bool {
        let known = self.fs.inodes.named(link, stat);
        known.is_some_and(|(_, node)| node.container().is_some())
    }

    pub(super) fn is_empty(&self, path: &Path) -> Result<bool> {
        let mut empty = true;
        self.fs.store.list(path, &mut |_| empty = false)?;
        Ok(empty)
    }

    /// A name led to this, and is gone.
    pub(super) fn forget_name(&self, link: &Dirent, stat: &Stat) {
        let is_last = stat.kind != FileKind::File || stat.nlink < 2;
        if is_last
            && let Some((_, node)) = self.fs.inodes.named(link, stat)
            && let Some(container) = node.container()
        {
            self.fs.live.lasting.forget_of(container);
        }
        if let Some(Node::Container(container)) = self.fs.inodes.unlinked(link, stat).as_deref() {
            self.fs.live.versions.close(container);
        }
        if is_last && stat.kind == FileKind::File {
            self.written_here.remove(stat.id);
        }
        self.names_changed(link.parent);
    }

    /// What is shown of a directory has changed.
    pub(super) fn names_changed(&self, directory: InodeId) {
        self.listing_cache.forget(directory);
    }

    /// The directory of files beside the entries of one of a container.
    fn beside(&self, directory: &ContainerDirectory) -> Result<SourceDirectory> {
        let path = directory.beside(&self.fs)?;
        let id = self.fs.store.stat(&path)?.id;
        Ok(SourceDirectory {
            container: Some((Arc::clone(&directory.opened), directory.at)),
            ..SourceDirectory::new(path, id)
        })
    }

    /// The directory of files beside the entries of a container that is a file, made if there is
    /// none yet, so that it can get a file of this name.
    fn added_made(&self, directory: &ContainerDirectory, name: &OsStr) -> Result<SourceDirectory> {
        let (id, container) = (directory.inode.into(), &directory.container);
        self.fs.live.drafts.watch_added(id, container);
        let made = self.beside(directory);
        if !made.as_ref().is_err_and(Error::is_not_found) {
            return made;
        }
        let path = self.fs.container_path(directory.inode)?;
        let now = self.fs.store.stat(&path)?;
        let new = SourceDirectory {
            container: Some((Arc::clone(&directory.opened), directory.at)),
            ..SourceDirectory::new(added_path(&path), now.id)
        };
        new.new_place(name)?;
        let top = self.fs.live.added.added_or_made(&path)?;
        let (disk, store) = (self.fs.live.ground.writable()?, &*self.fs.store);
        make_below(disk, store, top, (&directory.below, owner_of(&now)))?;
        self.beside(directory)
    }

    pub(super) fn refuse_in_container(&self, directory: InodeId, name: &OsStr) -> Result<()> {
        match self.fs.enclosing.takes_only_files(directory)? {
            true => Err(self.only_files((directory, name))),
            false => Ok(()),
        }
    }

    pub(super) fn only_files(&self, (directory, name): (InodeId, &OsStr)) -> Error {
        let path = self.fs.path_in(directory, name);
        refused("put anything but a file at", &path, libc::EPERM)
    }

    /// Something has gone from a directory: if it was the last added file of a container, or of a
    /// group, their directory goes as well. A request that is about to put something into it tries
    /// again, as after a move.
    pub(super) fn tidy_added(&self, inode: InodeId) {
        let Ok(Some(directory)) = ContainerDirectory::find(&self.fs, inode) else {
            return;
        };
        let (Ok(path), FileKind::File) = (
            self.fs.container_path(directory.inode),
            directory.container.stored,
        ) else {
            return;
        };
        if let Ok(Some(own)) = directory.found_beside(&self.fs)
            && self.is_empty(&own).is_ok_and(|is_empty| is_empty)
        {
            let _moving = self.fs.moves.begin();
            let removed = self.fs.live.ground.spot(&path).and_then(|spot| {
                let disk = self.fs.live.ground.writable()?;
                remove_empty(disk, &*self.fs.store, &spot)
            });
            if let Err(e) = removed {
                log::debug!("{e}");
            }
        }
    }

    /// Returns when the names of what lies beside the entries of a directory have reached the disk.
    pub(super) fn sync_beside(&self, directory: &ContainerDirectory) -> Result<()> {
        match directory.found_beside(&self.fs)? {
            Some(path) => self.sync_up(&path, (directory.inode, &directory.container)),
            None => Ok(()),
        }
    }

    /// Returns when the names of this directory, and of all that lie between it and the container,
    /// have reached the disk.
    fn sync_up(&self, from: &Path, (container, of): (InodeId, &LiveContainer)) -> Result<()> {
        let (disk, path) = (
            self.fs.live.ground.writable()?,
            self.fs.container_path(container)?,
        );
        // Of a container that is a file, the directory in which it lies has the last of them.
        let last = match of.stored {
            FileKind::Directory => Some(&*path),
            _ => path.parent(),
        };
        for path in from.ancestors() {
            let id = self.fs.store.stat(path)?.id;
            disk.sync(Target::Named { path, id }, false)?;
            if Some(path) == last {
                break;
            }
        }
        Ok(())
    }

    /// A file has been synced. One beside the arrays of a container is found after a crash.
    pub(super) fn sync_added_above(&self, file: InodeId) -> Result<()> {
        let Some(parent) = self.fs.inodes.parent(file) else {
            return Ok(());
        };
        let container = match self.fs.inodes.get(parent).ok().as_deref() {
            Some(Node::Container(_)) => parent,
            Some(Node::Entry(version, _)) => version.container.into(),
            _ => return Ok(()),
        };
        let node = self.fs.inodes.get(container)?;
        match (node.container(), self.fs.inodes.path(file)?.parent()) {
            (Some(of), Some(path)) if !of.new.is_new() => self.sync_up(path, (container, of)),
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
        let disk = self.fs.live.ground.writable()?;
        disk.set_attributes(Target::Named { path, id }, &owner)
    }
}

/// The place of a name, of which more is going to be there than a file.
pub(super) fn spot_in(directory: &SourceDirectory, name: &OsStr) -> Spot {
    Spot {
        directory: directory.path.clone(),
        id: directory.id,
        name: name.to_owned(),
    }
}
