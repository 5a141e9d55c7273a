//! Making containers: `mkdir x.blp`, and what is put into a new container.
//!
//! The container is made as an empty one, under its name only when it is whole, and beside it before that the hidden directory of
//! its drafts. Used by [`super`]; [`super::packing`] ends what begins here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::RwLockReadGuard;

use super::super::inode::Dirent;
use super::super::node::{ContainerNode, Node};
use super::super::{Attr, InodeId, Tree};
use super::{SourceDirectory, refused};
use crate::commit::Spot;
use crate::commit::drafts::{DraftsStanding, drafts_path, is_of, is_pristine, left_drafts};
use crate::commit::new_container::{NewContainerPlace, NewModes};
use crate::commit::tidy::{remove_directory, remove_left, remove_tree};
use crate::container::Recognised;
use crate::container::creation::Creation;
use crate::disk::{Caller, Disk, NewAttributes, NewEntry, Place, Target};
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind};
use crate::stage::new_name;

/// An empty container has no more bytes than that.
const SMALL: u64 = 1 << 10;

/// Of a directory of drafts: others reach them through the mount alone.
const CLOSED: u32 = 0o700;

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
        self.make_way(&drafts_path(&path))?;
        let spot = Spot {
            directory: directory.path,
            id: directory.id,
            name: name.to_owned(),
        };
        let at = NewContainerPlace {
            disk: self.writable()?,
            store: &self.store,
            spot: &spot,
            members: creation.members(),
            owner,
            go_on: &|| true,
        };
        let budget = self.cache.budget();
        // Nobody executes it; who may read it may enter.
        let modes = NewModes {
            files: mode & 0o666,
            directory: mode,
        };
        let new = at.write(modes, &NewAttributes::default(), |write| {
            creation.recipe(&[], None, budget, write)
        })?;
        let drafts = match self.make_drafts(&path, owner) {
            Ok(drafts) => Some(drafts.id),
            // It is what it is: an empty container, whose arrays can be written.
            Err(e) if is_unsupported(&e) => None,
            Err(e) => {
                new.discard();
                return Err(e);
            }
        };
        if let Err(e) = new.appear() {
            self.make_way(&drafts_path(&path))?;
            return Err(e);
        }
        self.names_changed(parent);
        let attr = self.enter_source(Dirent::new(parent, name), &spot.directory)?;
        if let Some(container) = self.inodes.get(attr.inode)?.container()
            && let Some(id) = drafts
        {
            container.new.begin(id);
            self.watch(attr.inode);
        }
        Ok(attr)
    }

    /// Has a new container waited for. It is not forgotten meanwhile.
    pub(super) fn watch(&self, container: InodeId) {
        if self.new_containers.add(container) {
            self.inodes.hold(container);
        }
    }

    pub(super) fn watch_no_more(&self, container: InodeId) {
        if self.new_containers.remove(container) {
            self.forget(container, 1);
        }
    }

    /// The directory in which what is put into a container lies, while that is new.
    pub(super) fn drafts(&self, inode: InodeId) -> Result<Option<SourceDirectory>> {
        let node = self.inodes.get(inode)?;
        let Some(id) = node.container().and_then(|of| of.new.drafts()) else {
            return Ok(None);
        };
        let path = drafts_path(&self.container_path(inode)?);
        Ok(Some(SourceDirectory::new(path, id)))
    }

    /// Where these lie, if there are any.
    pub(in crate::tree) fn drafts_at(&self, container: InodeId) -> Result<Option<PathBuf>> {
        Ok(self.drafts(container)?.map(|drafts| drafts.path))
    }

    /// Finds what was put into a new container. Counts one look-up.
    pub(in crate::tree) fn lookup_draft(&self, container: InodeId, link: Dirent) -> Result<Attr> {
        let path = self.drafts_at(container)?.ok_or(Error::NotFound)?;
        self.enter_source(link, &path)
    }

    /// The same for whoever changes something in it: it is being used.
    pub(super) fn drafts_to_change(&self, inode: InodeId) -> Result<SourceDirectory> {
        let drafts = self.drafts(inode)?.ok_or(Error::ReadOnly)?;
        self.new_containers.used(inode);
        Ok(drafts)
    }

    /// Whether something has been put into it.
    pub(in crate::tree) fn has_drafts(&self, container: InodeId) -> Result<bool> {
        let mut any = false;
        if let Some(path) = self.drafts_at(container)? {
            self.store.list(&path, &mut |_, _| any = true)?;
        }
        Ok(any)
    }

    /// What lies where the drafts of a container are to be is somebody's, who knows whose: it stays, unless it is an empty
    /// directory.
    pub(super) fn make_way(&self, drafts: &Path) -> Result<()> {
        if self.store.stat(drafts).is_err_and(|e| e.is_not_found()) {
            return Ok(());
        }
        let spot = self.spot(drafts)?;
        let removed = self.writable()?.remove_directory(Place {
            directory: &spot.directory,
            id: spot.id,
            name: &spot.name,
        });
        match removed {
            Err(Error::Io { cause, .. }) if is_full(&cause) => {
                let shown = self.store.display(drafts);
                log::warn!(
                    "{}: left by another container, or not ours; look into it, and move or remove it",
                    shown.display()
                );
                Err(refused("make", drafts, libc::EEXIST))
            }
            other => other,
        }
    }

    /// Makes a container that is as empty as it was made a new one.
    pub(super) fn make_drafts(&self, container: &Path, owner: Caller) -> Result<SourceDirectory> {
        self.make_hidden(container, drafts_path(container), owner)
    }

    /// Makes a hidden directory of a container.
    pub(super) fn make_hidden(
        &self,
        container: &Path,
        path: PathBuf,
        owner: Caller,
    ) -> Result<SourceDirectory> {
        let (disk, spot) = (self.writable()?, self.spot(container)?);
        let place = Place {
            directory: &spot.directory,
            id: spot.id,
            name: path.file_name().ok_or(Error::Unsuitable)?,
        };
        let make = || disk.make(place, NewEntry::Directory { mode: CLOSED }, owner);
        match make() {
            // Of a container that had this name before.
            Err(e) if e.is_already_there() => {
                self.make_way(&path)?;
                make()
            }
            other => other,
        }?;
        let made = self.store.stat(&path)?;
        // Where modes and owners are not kept, nobody would believe after a crash that this is the container's.
        if !is_of(&made, owner.uid) {
            disk.remove_directory(place)?;
            let shown = self.store.display(&path);
            log::warn!("{}: its mode or owner is not kept here", shown.display());
            return Err(refused("make", &path, libc::EOPNOTSUPP));
        }
        let id = made.identity.id;
        Ok(SourceDirectory::new(path, id))
    }

    /// Whether a container is an empty one as it was made.
    pub(super) fn is_pristine(&self, recognised: &Recognised, path: &Path) -> Result<bool> {
        is_pristine(recognised, &*self.store, path, self.cache.budget())
    }

    /// Goes on with a container that was new when a daemon ended: what is left of its drafts is shown again.
    pub(in crate::tree) fn resume_drafts(
        &self,
        inode: InodeId,
        container: &ContainerNode,
        recognised: &Recognised,
        path: &Path,
    ) -> Result<()> {
        let is_small = || {
            self.store
                .stat(path)
                .is_ok_and(|stat| stat.kind == FileKind::Directory || stat.identity.size <= SMALL)
        };
        // Beside the source itself there is no place for drafts.
        let has_place = path.file_name().is_some() && recognised.format.creation().is_some();
        let may_be_new = has_place && is_small();
        if self.disk.is_none() && !may_be_new {
            return Ok(());
        }
        let left = left_drafts(recognised, &*self.store, path, self.cache.budget())?;
        if self.disk.is_none() {
            if left.is_some_and(|left| left.standing == DraftsStanding::New && !left.is_empty) {
                let path = self.store.display(path);
                log::warn!(
                    "{}: what was put into it is shown by a writable mount",
                    path.display()
                );
            }
            return Ok(());
        }
        match left.as_ref().map(|left| left.standing) {
            Some(DraftsStanding::New) => {
                let id = left.map_or_else(FileId::default, |left| left.id);
                container.new.begin(id);
                self.watch(inode);
            }
            // What else was left is removed with what commits leave.
            Some(DraftsStanding::Packed) => {
                let drafts = drafts_path(path);
                if let Some(creation) = recognised.format.creation() {
                    self.carry_over(creation, &drafts, path)?;
                }
                self.remove_drafts(None, &drafts)?;
                self.clear_replaced(recognised, path)?;
            }
            Some(DraftsStanding::Foreign) => {
                let path = self.store.display(&drafts_path(path));
                log::warn!("{}: not of the container beside it", path.display());
            }
            None if may_be_new => self.clear_replaced(recognised, path)?,
            None => {}
        }
        Ok(())
    }

    /// Removes an empty container that one has replaced which is a directory: a crash may have left it.
    fn clear_replaced(&self, recognised: &Recognised, path: &Path) -> Result<()> {
        if !recognised.format.members().is_empty() {
            let (disk, spot) = (self.writable()?, self.spot(path)?);
            let (hidden, members) = (new_name(&spot.name), recognised.format.members());
            if let Err(e) = remove_left(disk, &*self.store, &spot, &hidden, members) {
                log::warn!("{e}");
            }
        }
        Ok(())
    }

    /// Removes a new container that has nothing in it; None if it is not new any more.
    pub(super) fn remove_new(
        &self,
        inode: InodeId,
        container: &ContainerNode,
        place: Place<'_>,
    ) -> Option<Result<()>> {
        let _turn = container.new.take_turn();
        let disk = match self.writable() {
            Ok(disk) => disk,
            Err(e) => return Some(Err(e)),
        };
        if !container.new.is_new() {
            return None;
        }
        Some(self.remove_pristine(inode, container, disk, place))
    }

    fn remove_pristine(
        &self,
        inode: InodeId,
        container: &ContainerNode,
        disk: &dyn Disk,
        place: Place<'_>,
    ) -> Result<()> {
        let path = self.container_path(inode)?;
        let recognised = container.known().recognised.clone();
        if !self.is_pristine(&recognised, &path)? {
            // Somebody else's: what was put into ours is told of when it is looked into.
            container.new.end();
            self.watch_no_more(inode);
            self.forget_entries(inode);
            return Err(self.changed(&path));
        }
        self.end_empty(inode, container)?;
        remove_tree(disk, &*self.store, &self.spot(&path)?, place.name)
    }

    /// A new container into which nothing has been put is new no more, and as empty as it was made.
    pub(super) fn end_empty(&self, inode: InodeId, container: &ContainerNode) -> Result<()> {
        let Some(drafts) = self.drafts(inode)? else {
            return Ok(());
        };
        let (spot, name) = (self.spot(&drafts.path)?, drafts.path.file_name());
        self.writable()?.remove_directory(Place {
            directory: &spot.directory,
            id: spot.id,
            name: name.ok_or(Error::Unsuitable)?,
        })?;
        container.new.end();
        self.watch_no_more(inode);
        Ok(())
    }

    /// Removes the drafts of a container, and the names by which the kernel knows them.
    pub(super) fn remove_drafts(&self, container: Option<InodeId>, path: &Path) -> Result<()> {
        let disk = self.writable()?;
        remove_directory(disk, &*self.store, path, &mut |name, stat| {
            if stat.nlink < 2 {
                self.ours.remove(stat.identity.id);
            }
            let Some(parent) = container else {
                return;
            };
            let link = Dirent::new(parent, name);
            if let Some((inode, _)) = self.inodes.named(&link, stat) {
                self.inodes.unlinked(&link, stat);
                self.invalidate(inode, Some(link));
            }
        })
    }

    /// Another owner of a new container is that of its drafts.
    pub(super) fn give_drafts(&self, inode: InodeId, to: &NewAttributes) -> Result<()> {
        let (Some(drafts), true) = (self.drafts(inode)?, to.uid.or(to.gid).is_some()) else {
            return Ok(());
        };
        let owner = NewAttributes {
            uid: to.uid,
            gid: to.gid,
            ..NewAttributes::default()
        };
        let (path, id) = (&*drafts.path, drafts.id);
        self.writable()?
            .set_attributes(Target::Named { path, id }, &owner)
    }

    /// The kernel is to look again what lies in a container.
    pub(super) fn forget_entries(&self, inode: InodeId) {
        self.names_changed(inode);
        self.invalidate(inode, None);
        if let Ok(node) = self.inodes.get(inode)
            && let Some(container) = node.container()
            && let Some(version) = container.known().version.clone()
        {
            for (entry, links) in self.inodes.of_version(version.id) {
                self.invalidate(entry, links.into_iter().next());
            }
        }
    }

    /// Whether something in a new container is open.
    pub(super) fn is_in_use(&self, container: InodeId) -> bool {
        let mut open = self.open_files.inodes().into_iter();
        open.any(|inode| self.inodes.above(inode).contains(&container))
    }

    /// An inode and all directories above it, by whichever names.
    fn with_above(&self, inode: InodeId) -> impl Iterator<Item = InodeId> {
        std::iter::once(inode).chain(self.inodes.above(inode))
    }

    /// Somebody has changed this, or had it open: if it is, or lies in, a new container, that has been used until now.
    pub(in crate::tree) fn note_use(&self, inode: InodeId) {
        if !self.new_containers.is_empty() {
            let all = self.with_above(inode);
            all.for_each(|directory| self.new_containers.used(directory));
        }
    }

    /// The same of who has it open no more.
    pub(in crate::tree) fn note_let_go(&self, inode: InodeId) {
        if !self.new_containers.is_empty() {
            let all = self.with_above(inode);
            all.for_each(|directory| self.new_containers.let_go(directory));
        }
    }

    /// Keeps drafts what they are for a moment, if this is one of them or their container. For others nobody has to wait.
    pub(super) fn stay_in_new(&self, inode: InodeId) -> Option<RwLockReadGuard<'_, ()>> {
        let is_new = |inode| self.new_containers.has(inode);
        let in_new = !self.new_containers.is_empty() && self.with_above(inode).any(is_new);
        in_new.then(|| self.new_containers.stay())
    }

    /// Whether a directory is, or lies in, that of a container, new or not: what is made there is no container.
    pub(super) fn is_below_container(&self, directory: InodeId) -> bool {
        let node = |inode| self.inodes.get(inode).ok();
        let is_container = |inode| node(inode).is_some_and(|node| node.container().is_some());
        self.with_above(directory).any(is_container)
    }

    /// Whether a directory shows drafts: whatever these look like, they are shown as they are.
    pub(in crate::tree) fn shows_drafts(&self, directory: InodeId) -> bool {
        let is_new = |node: &Node| node.container().is_some_and(|c| c.new.is_new());
        !self.new_containers.is_empty()
            && self.inodes.get(directory).is_ok_and(|node| is_new(&node))
    }
}

/// The file system keeps no modes or owners.
fn is_unsupported(e: &Error) -> bool {
    matches!(e, Error::Io { cause, .. } if cause.raw_os_error() == Some(libc::EOPNOTSUPP))
}

/// Why a directory could not be removed: it has something in it, or is none.
fn is_full(cause: &std::io::Error) -> bool {
    let code = cause.raw_os_error();
    [libc::ENOTEMPTY, libc::EEXIST, libc::ENOTDIR]
        .iter()
        .any(|one| code == Some(*one))
}
