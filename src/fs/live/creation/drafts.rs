//! The drafts of new containers: the files that are put into one until it is packed.
//!
//! A container is made as an empty one, under its name only when it is whole, and beside it before
//! that the hidden directory of its drafts. Used by `tree::writing`; [`super::pack`] ends what
//! begins here.

use std::path::{Path, PathBuf};

use super::content::read_description;
use super::roles::DraftRules;
use crate::commit::Spot;
use crate::commit::drafts::{DraftsState, drafts_path, is_of, is_pristine, left_drafts};
use crate::commit::new_container::{NewContainer, NewContainerPlace, NewModes};
use crate::commit::tidy::{remove_directory, remove_left, remove_tree};
use crate::container::Recognised;
use crate::container::creation::{Creation, GivenContent};
use crate::disk::{Caller, Disk, NewAttributes, NewEntry, Place, Target};
use crate::error::{Error, Result};
use crate::live::directory::SourceDirectory;
use crate::live::places::Forget;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::live::{ContainerId, Containers, LiveContainer, refused};
use crate::source::{FileId, FileKind};
use crate::stage::new_name;

/// An empty container has no more bytes than that.
const SMALL: u64 = 1 << 10;

/// Of a directory of drafts: others reach them through the mount alone.
pub(crate) const CLOSED: u32 = 0o700;

impl Containers {
    /// Makes an empty container, and beside it the directory of its drafts. Says which that is;
    /// none where the file system keeps neither modes nor owners.
    pub(crate) fn make_empty(
        &self,
        spot: &Spot,
        creation: &dyn Creation,
        mode: u32,
        owner: Caller,
    ) -> Result<Option<FileId>> {
        let path = spot.directory.join(&spot.name);
        self.make_way(&drafts_path(&path))?;
        // The file is not executable; users who may read it may enter the directory.
        let modes = NewModes {
            files: mode & 0o666,
            directory: mode,
        };
        let at = self.new_place(spot, creation, owner)?;
        let new = self.write_empty(&at, creation, modes, &NewAttributes::default())?;
        let drafts = match self.make_drafts(&path, owner) {
            Ok(drafts) => Some(drafts.id),
            // It remains an empty container, whose arrays can be written.
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
        Ok(drafts)
    }

    /// Where a new container is written, which is not in use meanwhile.
    pub(crate) fn new_place<'a>(
        &'a self,
        spot: &'a Spot,
        creation: &dyn Creation,
        owner: Caller,
    ) -> Result<NewContainerPlace<'a>> {
        Ok(NewContainerPlace {
            disk: self.ground.writable()?,
            store: &self.ground.store,
            spot,
            layout: creation.layout(),
            owner,
            go_on: &|| true,
        })
    }

    /// A container without arrays, which has no name yet.
    pub(crate) fn write_empty<'a>(
        &self,
        at: &'a NewContainerPlace<'a>,
        creation: &dyn Creation,
        modes: NewModes,
        to: &NewAttributes,
    ) -> Result<NewContainer<'a>> {
        at.write(modes, to, |write| {
            let (nothing, budget) = (GivenContent::default(), self.ground.cache.budget());
            let told = creation.recipe(&nothing, self.ground.settings.preferences, budget, write);
            told.map(drop)
        })
    }

    /// Has a new container waited for. It is not forgotten meanwhile.
    pub(crate) fn watch(&self, container: ContainerId) {
        if self.new.add(container) {
            self.ground.places.hold(container);
        }
    }

    pub(crate) fn watch_no_more(&self, container: ContainerId) {
        if self.new.remove(container) {
            self.versions.let_go(container);
        }
    }

    /// The directory of a container's drafts, while it is new.
    pub(crate) fn drafts(&self, id: ContainerId) -> Result<Option<SourceDirectory>> {
        let Some(drafts) = self.ground.places.container(id)?.new.drafts() else {
            return Ok(None);
        };
        let path = drafts_path(&self.ground.places.path(id)?);
        Ok(Some(SourceDirectory::new(path, drafts)))
    }

    /// Where these lie, if there are any.
    pub(crate) fn drafts_at(&self, container: ContainerId) -> Result<Option<PathBuf>> {
        Ok(self.drafts(container)?.map(|drafts| drafts.path))
    }

    /// Where the drafts of a container lie, for a caller that changes something in it: the
    /// container is being used.
    pub(crate) fn drafts_to_change(&self, id: ContainerId) -> Result<SourceDirectory> {
        let drafts = self.drafts(id)?.ok_or(Error::ReadOnly)?;
        self.new.used(id);
        Ok(drafts)
    }

    /// Whether something has been put into it.
    pub(crate) fn has_drafts(&self, container: ContainerId) -> Result<bool> {
        let Some(path) = self.drafts_at(container)? else {
            return self.has_added(container);
        };
        let mut any = false;
        self.ground.store.list(&path, &mut |_| any = true)?;
        Ok(any)
    }

    /// Something that lies where the drafts of a container are to be may belong to anyone: it is
    /// kept, unless it is an empty directory.
    pub(crate) fn make_way(&self, drafts: &Path) -> Result<()> {
        if self
            .ground
            .store
            .stat(drafts)
            .is_err_and(|e| e.is_not_found())
        {
            return Ok(());
        }
        let spot = self.ground.spot(drafts)?;
        let removed = self.ground.writable()?.remove_directory(Place {
            directory: &spot.directory,
            id: spot.id,
            name: &spot.name,
        });
        match removed {
            Err(Error::Io { cause, .. }) if is_full(&cause) => {
                let shown = self.ground.store.display(drafts);
                log::warn!(
                    "{}: left by another container, or not of arrayfs; look into it, and move or remove it",
                    shown.display()
                );
                Err(refused("make", drafts, libc::EEXIST))
            }
            other => other,
        }
    }

    /// Makes a container that is as empty as it was made a new one.
    pub(crate) fn make_drafts(&self, container: &Path, owner: Caller) -> Result<SourceDirectory> {
        let path = drafts_path(container);
        match self.make_hidden(container, path.clone(), owner) {
            // Of a container that had this name before.
            Err(e) if e.is_already_there() => {
                self.make_way(&path)?;
                self.make_hidden(container, path, owner)
            }
            made => made,
        }
    }

    /// Makes a hidden directory of a container, if nothing lies there.
    pub(super) fn make_hidden(
        &self,
        container: &Path,
        path: PathBuf,
        owner: Caller,
    ) -> Result<SourceDirectory> {
        let (disk, spot) = (self.ground.writable()?, self.ground.spot(container)?);
        let place = Place {
            directory: &spot.directory,
            id: spot.id,
            name: path.file_name().ok_or(Error::Unsuitable)?,
        };
        disk.make(place, NewEntry::Directory { mode: CLOSED }, owner)?;
        let made = self.ground.store.stat(&path)?;
        // Where modes and owners are not kept, the recovery would not believe after a crash that
        // this is the container's.
        if !is_of(&made, owner.uid) {
            disk.remove_directory(place)?;
            let shown = self.ground.store.display(&path);
            log::warn!("{}: its mode or owner is not kept here", shown.display());
            return Err(refused("make", &path, libc::EOPNOTSUPP));
        }
        let id = made.id;
        Ok(SourceDirectory::new(path, id))
    }

    /// Whether a container is an empty one as it was made.
    pub(crate) fn is_pristine(&self, recognised: &Recognised, path: &Path) -> Result<bool> {
        is_pristine(
            recognised,
            &*self.ground.store,
            path,
            self.ground.cache.budget(),
        )
    }

    /// Goes on with a container that was new when a daemon ended: the drafts that are left are
    /// shown again.
    pub(crate) fn resume_drafts(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        recognised: &Recognised,
        path: &Path,
    ) -> Result<()> {
        let is_small = || {
            self.ground
                .store
                .stat(path)
                .is_ok_and(|stat| stat.kind == FileKind::Directory || stat.size <= SMALL)
        };
        // Beside the source itself there is no place for drafts.
        let has_place = path.file_name().is_some() && recognised.format.creation().is_some();
        let may_be_new = has_place && is_small();
        if self.ground.disk.is_none() && !may_be_new {
            return Ok(());
        }
        let left = left_drafts(
            recognised,
            &*self.ground.store,
            path,
            self.ground.cache.budget(),
        )?;
        if self.ground.disk.is_none() {
            if left.is_some_and(|left| left.recovery_state == DraftsState::New && !left.is_empty) {
                let path = self.ground.store.display(path);
                log::warn!(
                    "{}: what was put into it is shown by a writable mount",
                    path.display()
                );
            }
            return Ok(());
        }
        match left.as_ref().map(|left| left.recovery_state) {
            Some(DraftsState::New) => {
                let drafts = left.map_or_else(FileId::default, |left| left.id);
                container.new.begin(drafts);
                self.watch(id);
            }
            // The empty container is removed with the leftovers of commits.
            Some(DraftsState::Packed) => {
                let drafts = drafts_path(path);
                if let Some(creation) = recognised.format.creation() {
                    let described = read_description(&self.ground, &drafts.join(ARRAYS_JSON)).ok();
                    let description = described.as_ref().map(|(description, _)| description);
                    let rules = DraftRules::new(creation, description);
                    self.carry_over(&rules, creation, &drafts, path)?;
                }
                self.remove_drafts(None, &drafts)?;
                self.clear_replaced(recognised, path)?;
            }
            Some(DraftsState::Foreign) => {
                let path = self.ground.store.display(&drafts_path(path));
                log::warn!("{}: not of the container beside it", path.display());
            }
            None if may_be_new => self.clear_replaced(recognised, path)?,
            None => {}
        }
        Ok(())
    }

    /// Removes an empty container that one has replaced which is a directory: a crash may have left
    /// it.
    fn clear_replaced(&self, recognised: &Recognised, path: &Path) -> Result<()> {
        let layout = recognised.layout();
        if !layout.is_file() {
            let (disk, spot) = (self.ground.writable()?, self.ground.spot(path)?);
            let hidden = new_name(&spot.name);
            if let Err(e) = remove_left(disk, &*self.ground.store, &spot, &hidden, layout) {
                log::warn!("{}", e.told_of(&self.ground.store.display(path), ""));
            }
        }
        Ok(())
    }

    /// Removes a new container that has nothing in it; None if it is not new any more.
    pub(crate) fn remove_new(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        place: Place<'_>,
    ) -> Option<Result<()>> {
        let _locked = container.new.lock_creation();
        let disk = match self.ground.writable() {
            Ok(disk) => disk,
            Err(e) => return Some(Err(e)),
        };
        if !container.new.is_new() {
            return None;
        }
        Some(self.remove_pristine(id, container, disk, place))
    }

    fn remove_pristine(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        disk: &dyn Disk,
        place: Place<'_>,
    ) -> Result<()> {
        let path = self.ground.places.path(id)?;
        let recognised = container.known().recognised.clone();
        if !self.is_pristine(&recognised, &path)? {
            // Another process has changed it: the drafts of ours are reported when it is looked
            // into.
            container.new.end();
            self.watch_no_more(id);
            self.forget_entries(id);
            return Err(self.ground.changed(&path));
        }
        self.end_empty(id, container)?;
        remove_tree(
            disk,
            &*self.ground.store,
            &self.ground.spot(&path)?,
            place.name,
        )
    }

    /// A new container into which nothing has been put is new no more, and as empty as it was made.
    pub(crate) fn end_empty(&self, id: ContainerId, container: &LiveContainer) -> Result<()> {
        let Some(drafts) = self.drafts(id)? else {
            return Ok(());
        };
        let (spot, name) = (self.ground.spot(&drafts.path)?, drafts.path.file_name());
        self.ground.writable()?.remove_directory(Place {
            directory: &spot.directory,
            id: spot.id,
            name: name.ok_or(Error::Unsuitable)?,
        })?;
        container.new.end();
        self.watch_no_more(id);
        Ok(())
    }

    /// Removes the drafts of a container, and their names in the tree.
    pub(crate) fn remove_drafts(&self, container: Option<ContainerId>, path: &Path) -> Result<()> {
        let disk = self.ground.writable()?;
        remove_directory(disk, &*self.ground.store, path, &mut |path, stat| {
            self.ground.places.draft_removed(container, path, stat);
        })
    }

    /// Another owner of a new container is that of its drafts.
    pub(crate) fn give_drafts(&self, id: ContainerId, to: &NewAttributes) -> Result<()> {
        let (Some(drafts), true) = (self.drafts(id)?, to.uid.or(to.gid).is_some()) else {
            return Ok(());
        };
        let owner = NewAttributes {
            uid: to.uid,
            gid: to.gid,
            ..NewAttributes::default()
        };
        let (path, id) = (&*drafts.path, drafts.id);
        self.ground
            .writable()?
            .set_attributes(Target::Named { path, id }, &owner)
    }

    /// The kernel is to look up entries of a container again.
    pub(crate) fn forget_entries(&self, id: ContainerId) {
        let container = self.ground.places.container(id).ok();
        let version = container.and_then(|container| {
            let known = container.known();
            known.version.as_ref().map(|version| version.id)
        });
        self.ground.places.forget(id, Forget::Entries(version));
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
