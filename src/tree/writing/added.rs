//! Files in the directory of a container that are no part of it.
//!
//! In a container that is a directory they lie where they are shown. Beside one that is a file they lie in a hidden
//! directory, made when something is put into it and removed when nothing is left; it goes where the container goes
//! through the mount. Used by [`super`]; what reads them is `tree::arrival`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::node::ContainerNode;
use super::super::version::ContainerVersion;
use super::super::{InodeId, Tree};
use super::turned::is_foreign;
use super::{SourceDirectory, refused};
use crate::commit::added::{added_of, added_path, announce_move, finish_move, remove_empty};
use crate::container::creation::Creation;
use crate::disk::{Caller, NewAttributes, Place, Renaming, Target};
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind, Stat};

impl Tree {
    /// The directory of files beside a container's arrays.
    pub(super) fn directory_beside(
        &self,
        inode: InodeId,
        container: &ContainerNode,
    ) -> Result<SourceDirectory> {
        let version = self.current(inode, container)?;
        let path = self.beside(inode, container)?;
        Ok(SourceDirectory {
            id: self.store.stat(&path)?.identity.id,
            path,
            container: Some(self.open_version(&version)?),
        })
    }

    /// The same of a container that is a file, made if there is none yet, so that it can get a file of this name.
    pub(super) fn added_made(
        &self,
        inode: InodeId,
        container: &ContainerNode,
        name: &OsStr,
    ) -> Result<SourceDirectory> {
        let made = self.directory_beside(inode, container);
        if !made.as_ref().is_err_and(Error::is_not_found) {
            return made;
        }
        let version = self.current(inode, container)?;
        let opened = self.open_version(&version)?;
        let path = self.container_path(inode)?;
        let now = self.store.stat(&path)?;
        let new = SourceDirectory {
            container: Some(opened),
            ..SourceDirectory::new(added_path(&path), now.identity.id)
        };
        new.new_place(name)?;
        let made = self.make_hidden(&path, new.path.clone(), owner_of(&now));
        match made {
            // Somebody else was faster; or it is not believed.
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
        match self.takes_only_files(directory) {
            true => {
                let path = self.inodes.path(directory).unwrap_or_default().join(name);
                Err(refused("put anything but a file at", &path, libc::EPERM))
            }
            false => Ok(()),
        }
    }

    /// Something has gone from a directory: if it was the last added file of a container, their directory goes as well. Who
    /// is about to put something into it tries again, as after a move.
    pub(super) fn tidy_added(&self, inode: InodeId) {
        let Ok(node) = self.inodes.get(inode) else {
            return;
        };
        let is_file = |container: &&ContainerNode| {
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
            let spot = self.spot(&path);
            if let Err(e) = spot.and_then(|spot| remove_empty(self.writable()?, &spot)) {
                log::debug!("{e}");
            }
        }
    }

    /// Returns when the names of what lies beside a container's arrays have reached the disk.
    pub(super) fn sync_beside(&self, inode: InodeId, container: &ContainerNode) -> Result<()> {
        let Some(path) = found(self.beside(inode, container))? else {
            return Ok(());
        };
        let id = self.store.stat(&path)?.identity.id;
        let target = Target::Named { path: &path, id };
        let disk = self.writable()?;
        disk.sync(target, false)?;
        if container.stored == FileKind::Directory {
            return Ok(());
        }
        // The name of that directory as well.
        let spot = self.spot(&path)?;
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

    /// Another owner of a container is that of the directory of its added files, which would else not be believed.
    /// `added`: as it was found before.
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
        self.writable()?
            .set_attributes(Target::Named { path, id }, &owner)
    }

    /// The added files of a container that has been given this name follow it, if they have not yet.
    pub(in crate::tree) fn finish_moving_added(&self, path: &Path) {
        let (Some(disk), Some(_)) = (self.disk.as_deref(), path.file_name()) else {
            return;
        };
        let spot = self.spot(path);
        if let Err(e) = spot.and_then(|spot| finish_move(disk, &*self.store, &spot)) {
            log::warn!("{e}");
        }
    }

    /// An array that has come later has its name: an added file of that name gets another one.
    pub(in crate::tree) fn give_way_to_arrays(&self, version: &Arc<ContainerVersion>, path: &Path) {
        let moved = || {
            let (Some(_), Some((added, id))) = (&self.disk, added_of(&*self.store, path)?) else {
                return Ok(());
            };
            let (opened, mut taken) = (self.open_version(version)?, Vec::new());
            self.store.list(&added, &mut |name, _| {
                if !opened.shows_beside(name) {
                    taken.push(name.to_owned());
                }
            })?;
            taken.iter().try_for_each(|name| {
                let place = Place {
                    directory: &added,
                    id,
                    name,
                };
                self.move_in(place, place)
            })
        };
        if let Err(e) = moved() {
            log::warn!("{e}");
        }
    }

    /// A container is about to get the name `to`, and its added files are to follow it. None if it has none.
    /// `replaces`: a container of that name, which must not have any: they would be nobody's.
    pub(super) fn begin_moving_added(
        &self,
        from: &Path,
        to: &Path,
        (how, replaces): (Renaming, bool),
    ) -> Result<Option<PathBuf>> {
        let (disk, store) = (self.writable()?, &*self.store);
        let (from_spot, to_spot) = (self.spot(from)?, self.spot(to)?);
        let has_added = added_of(store, from)?.is_some();
        if how != Renaming::Exchange && (has_added || replaces) {
            // What others have left there, and nothing follows to, are the container's from then on.
            remove_empty(disk, &to_spot)?;
        }
        let follows = announce_move(disk, store, &from_spot, &to_spot)?;
        Ok(follows.then(|| to.to_owned()))
    }

    /// What lay beside the arrays in a new container are its added files from then on, or lie beside the files of one that
    /// is a directory.
    pub(super) fn carry_over(
        &self,
        creation: &dyn Creation,
        drafts: &Path,
        container: &Path,
    ) -> Result<()> {
        let mut foreign = Vec::new();
        self.store.list(drafts, &mut |name, kind| {
            if is_foreign(creation, name, kind) {
                foreign.push(name.to_owned());
            }
        })?;
        if foreign.is_empty() {
            return Ok(());
        }
        let (disk, from) = (self.writable()?, self.store.stat(drafts)?);
        let (to, id) = match creation.members().is_empty() {
            true => self.room_for_added(container)?,
            false => (
                container.to_owned(),
                self.store.stat(container)?.identity.id,
            ),
        };
        for name in &foreign {
            let old = Place {
                directory: drafts,
                id: from.identity.id,
                name,
            };
            let new = Place {
                directory: &to,
                id,
                name,
            };
            self.move_in(old, new)?;
        }
        let path = &*to;
        disk.sync(Target::Named { path, id }, false)
    }

    /// The directory of added files of a container, whose name is on the disk.
    fn room_for_added(&self, container: &Path) -> Result<(PathBuf, FileId)> {
        let found = added_of(&*self.store, container)?;
        let room = match found {
            Some(found) => found,
            None => {
                let now = self.store.stat(container)?;
                let made = self.make_hidden(container, added_path(container), owner_of(&now))?;
                (made.path, made.id)
            }
        };
        let spot = self.spot(container)?;
        let (path, id) = (&*spot.directory, spot.id);
        self.writable()?.sync(Target::Named { path, id }, false)?;
        Ok(room)
    }

    /// Under another name, if somebody has made something of this one meanwhile.
    fn move_in(&self, old: Place<'_>, new: Place<'_>) -> Result<()> {
        const TRIES: u32 = 100;
        let disk = self.writable()?;
        let mut moved = disk.rename(old, new, Renaming::NoReplace);
        for number in 0..TRIES {
            if !moved.as_ref().is_err_and(Error::is_already_there) {
                break;
            }
            let mut name = new.name.to_owned();
            name.push(format!("~{number}"));
            let other = Place { name: &name, ..new };
            moved = disk.rename(old, other, Renaming::NoReplace);
        }
        moved
    }
}

fn owner_of(container: &Stat) -> Caller {
    Caller {
        uid: container.uid,
        gid: container.gid,
    }
}

/// None instead of NotFound.
fn found<T>(what: Result<T>) -> Result<Option<T>> {
    match what {
        Err(e) if e.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}
