//! Renaming of new containers: the container in the source and the directory of its drafts have two
//! names, and both change.
//!
//! At every instant what was put into it is found under one of the two names: an empty container is
//! made under the new name, the drafts go there, and the old one, which is as empty as it was made,
//! is removed. A crash in between leaves an empty container too many. Used by [`super::rename`].

use std::ffi::OsStr;
use std::sync::Arc;

use super::super::inode::{Dirent, InodeId};
use super::super::mounted_fs::MountedFs;
use super::super::named::ErrorLines;
use super::directories::{Side, SourceDirectories, spot_in};
use crate::commit::Spot;
use crate::commit::drafts::drafts_path;
use crate::commit::new_container::{NewContainerPlace, NewModes};
use crate::commit::tidy::remove_tree;
use crate::container::creation::{GivenContent, format_named};
use crate::disk::{Caller, NewAttributes, NewTime, Renaming};
use crate::error::{Error, Result};
use crate::live::{LiveContainer, refused};
use crate::source::Stat;
use crate::stage::drafts_name;

/// Containers that were new and empty, and are so again when this is dropped: meanwhile they are
/// moved, or replaced, as the empty containers that they are.
pub(super) struct Emptied<'a> {
    renames: &'a RenamesOfNew,
    containers: Vec<InodeId>,
}

impl<'a> Emptied<'a> {
    pub(super) fn new(renames: &'a RenamesOfNew) -> Self {
        let containers = Vec::new();
        Emptied {
            renames,
            containers,
        }
    }

    pub(super) fn add(&mut self, inode: InodeId, container: &LiveContainer) -> Result<()> {
        let _locked = container.new.lock_creation();
        let _alone = self.renames.fs.live.new.exclusive();
        self.renames
            .fs
            .live
            .drafts
            .end_empty(inode.into(), container)?;
        self.containers.push(inode);
        Ok(())
    }
}

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        for inode in &self.containers {
            match self.renames.renew(*inode) {
                // It has been replaced.
                Ok(()) | Err(Error::NotFound) => {}
                Err(e) => log::warn!("{}", self.renames.error_lines.named(*inode, None, &e)),
            }
        }
    }
}

/// Renames new containers, and has empty ones step aside.
pub(crate) struct RenamesOfNew {
    pub(super) fs: Arc<MountedFs>,
    pub(super) directories: Arc<SourceDirectories>,
    pub(super) error_lines: Arc<ErrorLines>,
}

impl RenamesOfNew {
    /// Renames a container that is new, to a name that nothing has. False if it is another case.
    pub(super) fn rename(
        &self,
        moved: &Side,
        to: (InodeId, &OsStr),
        how: Renaming,
    ) -> Result<bool> {
        let Some((inode, node)) = self.fs.inodes.named(&moved.link, &moved.stat) else {
            return Ok(false);
        };
        let Some(container) = node.container() else {
            return Ok(false);
        };
        // What a daemon before has left is found when it is looked into.
        self.fs.live.current.version_of(inode.into(), container)?;
        let is_free = || -> Result<bool> {
            let found = self.fs.store.stat(&self.directories.find(to.0)?.join(to.1));
            Ok(found.is_err_and(|e| e.is_not_found()))
        };
        if !container.new.is_new() || how == Renaming::Exchange || !is_free()? {
            return Ok(false);
        }
        let format = container.known().recognised.format;
        let is_its = format_named(to.1).is_some_and(|other| other.name() == format.name());
        if format.goes_by_name() && !is_its {
            // An empty one of that name would not be taken for one.
            return Ok(false);
        }
        let path = moved.path();
        // In a container there are no containers: with EXDEV `mv` copies its files.
        if self.fs.enclosing.is_below_container(to.0) {
            return Err(refused("rename", &path, libc::EXDEV));
        }
        let Some(_locked) = container.new.try_lock_creation() else {
            log::info!(
                "{}: is being packed",
                self.fs.store.display(&path).display()
            );
            return Err(refused("rename", &path, libc::EBUSY));
        };
        self.fs.moves.let_others_through();
        let alone = self.fs.live.new.exclusive();
        let moving = self.fs.moves.begin();
        if !container.new.is_new() || !is_free()? {
            return Ok(false);
        }
        self.move_new((inode, container), moved, to)?;
        moving.made();
        self.directories.names_changed(moved.link.parent);
        self.directories.names_changed(to.0);
        drop((moving, alone));
        Ok(true)
    }

    fn move_new(
        &self,
        (inode, container): (InodeId, &LiveContainer),
        moved: &Side,
        to: (InodeId, &OsStr),
    ) -> Result<()> {
        let (disk, drafts) = (
            self.fs.live.ground.writable()?,
            self.fs.live.drafts.of(inode.into())?,
        );
        let (from, path) = (
            drafts.ok_or(Error::NotFound)?,
            self.fs.container_path(inode)?,
        );
        let stat = self.fs.store.stat(&path)?;
        let recognised = container.known().recognised.clone();
        if !self.fs.live.drafts.is_pristine(&recognised, &path)? {
            return Err(self.fs.live.ground.changed(&path));
        }
        let directory = self.directories.find(to.0)?;
        directory.new_place(to.1)?;
        let (old, new) = (self.fs.live.ground.spot(&path)?, spot_in(&directory, to.1));
        self.fs
            .live
            .drafts
            .make_way(&drafts_path(&directory.join(to.1)))?;
        self.make_empty_as(&new, container, &stat)?;
        let (old_drafts, new_drafts) = (drafts_name(&old.name), drafts_name(to.1));
        let renamed = disk.rename(
            old.place(&old_drafts),
            new.place(&new_drafts),
            Renaming::NoReplace,
        );
        if let Err(e) = renamed {
            remove_tree(disk, &*self.fs.store, &new, to.1)?;
            return Err(e);
        }
        if let Err(e) = remove_tree(disk, &*self.fs.store, &old, &old.name) {
            let shown = self.fs.store.display(&path);
            log::warn!("{}: an empty container is left: {e}", shown.display());
        }
        let link = Dirent::new(to.0, to.1);
        self.fs.inodes.renamed(&moved.link, &link, &moved.stat);
        // The empty container is another file now.
        self.fs.live.versions.close(container);
        container.known().version = None;
        container.new.begin(from.id);
        self.fs.live.new.used(inode.into());
        Ok(())
    }

    /// Makes an empty container under another name, with the rights that one has.
    fn make_empty_as(&self, spot: &Spot, container: &LiveContainer, stat: &Stat) -> Result<()> {
        let recognised = container.known().recognised.clone();
        let creation = recognised.format.creation().ok_or(Error::ReadOnly)?;
        let at = NewContainerPlace {
            disk: self.fs.live.ground.writable()?,
            store: &self.fs.store,
            spot,
            layout: creation.layout(),
            owner: Caller::of(stat.uid, stat.gid),
            go_on: &|| true,
        };
        let mode = u32::from(stat.mode);
        let modes = NewModes {
            files: mode & 0o666,
            directory: mode & 0o1777,
        };
        let times = NewAttributes {
            mtime: Some(NewTime::At(stat.mtime)),
            ..NewAttributes::default()
        };
        let new = at.write(modes, &times, |write| {
            let (nothing, budget) = (GivenContent::default(), &self.fs.budget);
            let told = creation.recipe(&nothing, recognised.preferences, budget, write);
            told.map(drop)
        })?;
        new.appear()
    }

    /// An empty container is new again.
    fn renew(&self, inode: InodeId) -> Result<()> {
        let node = self.fs.inodes.get(inode)?;
        let Some(container) = node.container() else {
            return Ok(());
        };
        let _locked = container.new.lock_creation();
        let path = self.fs.container_path(inode)?;
        let recognised = container.known().recognised.clone();
        if container.new.is_new() || !self.fs.live.drafts.is_pristine(&recognised, &path)? {
            return Ok(());
        }
        let stat = self.fs.store.stat(&path)?;
        let owner = Caller::of(stat.uid, stat.gid);
        let drafts = self.fs.live.drafts.make(&path, owner)?;
        container.new.begin(drafts.id);
        self.fs.live.drafts.watch(inode.into());
        self.fs.live.drafts.forget_entries(inode.into());
        Ok(())
    }
}
