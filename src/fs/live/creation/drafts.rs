//! The drafts of new containers: the files that are put into one until it is packed.
//!
//! A container is made as an empty one, under its name only when it is whole, and beside it before
//! that the hidden directory of its drafts. Used by `tree::writing`; [`super::pack`] ends what
//! begins here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::NewContainers;
use crate::commit::Spot;
use crate::commit::drafts::{drafts_path, is_of, is_pristine};
use crate::commit::new_container::{NewContainer, NewContainerPlace, NewModes};
use crate::commit::tidy::{remove_directory, remove_tree};
use crate::container::Recognised;
use crate::container::creation::{Creation, GivenContent};
use crate::disk::{Caller, Disk, NewAttributes, NewEntry, Place};
use crate::error::{Error, Result};
use crate::live::container::LiveContainer;
use crate::live::directory::SourceDirectory;
use crate::live::ground::Ground;
use crate::live::lasting::LastingTable;
use crate::live::places::{ContainerId, Forget};
use crate::live::refusal::refused;
use crate::live::versions::Versions;
use crate::source::FileId;

/// Of a directory of drafts: others reach them through the mount alone.
pub(crate) const CLOSED: u32 = 0o700;

/// Makes and removes the drafts of new containers.
pub(crate) struct Drafts {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) new: Arc<NewContainers>,
}

impl Drafts {
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
        let at = self.ground.new_place((spot, creation), owner, &|| true)?;
        let new = self.write_empty(&at, creation, modes, &NewAttributes::default())?;
        let drafts = match self.make(&path, owner) {
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

    /// A container without arrays, which has no name yet.
    pub(crate) fn write_empty<'a>(
        &self,
        at: &'a NewContainerPlace<'a>,
        creation: &dyn Creation,
        modes: NewModes,
        to: &NewAttributes,
    ) -> Result<NewContainer<'a>> {
        at.write(modes, to, |write| {
            let (nothing, budget) = (GivenContent::default(), self.ground.budget());
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

    /// Something is about to be put beside the arrays of a container that is a file, or changed
    /// there. Whether it may become an array.
    pub(crate) fn watch_added(&self, id: ContainerId, container: &LiveContainer) -> bool {
        let takes = self.lasting.facts_of(container).takes_later;
        if takes {
            self.watch(id);
        }
        takes
    }

    pub(crate) fn sync(&self, id: ContainerId) -> Result<()> {
        let Some(drafts) = self.of(id)? else {
            return Ok(());
        };
        let spot = self.ground.spot(&drafts.path)?;
        self.ground.sync(&drafts.path, drafts.id)?;
        self.ground.sync(&spot.directory, spot.id)
    }

    pub(crate) fn watch_no_more(&self, container: ContainerId) {
        if self.new.remove(container) {
            self.versions.let_go(container);
        }
    }

    /// The directory of a container's drafts, while it is new.
    pub(crate) fn of(&self, id: ContainerId) -> Result<Option<SourceDirectory>> {
        let Some(drafts) = self.ground.places.container(id)?.new.drafts() else {
            return Ok(None);
        };
        let path = drafts_path(&self.ground.places.path(id)?);
        Ok(Some(SourceDirectory::new(path, drafts)))
    }

    /// Where these lie, if there are any.
    pub(crate) fn at(&self, container: ContainerId) -> Result<Option<PathBuf>> {
        Ok(self.of(container)?.map(|drafts| drafts.path))
    }

    /// Where the drafts of a container lie, for a caller that changes something in it: the
    /// container is being used.
    pub(crate) fn to_change(&self, id: ContainerId) -> Result<SourceDirectory> {
        let drafts = self.of(id)?.ok_or(Error::ReadOnly)?;
        self.new.used(id);
        Ok(drafts)
    }

    /// Something that lies where the drafts of a container are to be may belong to anyone: it is
    /// kept, unless it is an empty directory.
    pub(crate) fn make_way(&self, drafts: &Path) -> Result<()> {
        let found = self.ground.store.stat(drafts);
        if found.is_err_and(|e| e.is_not_found()) {
            return Ok(());
        }
        let spot = self.ground.spot(drafts)?;
        let disk = self.ground.writable()?;
        match disk.remove_directory(spot.place(&spot.name)) {
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
    pub(crate) fn make(&self, container: &Path, owner: Caller) -> Result<SourceDirectory> {
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
        let place = spot.place(path.file_name().ok_or(Error::Unsuitable)?);
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
        is_pristine(recognised, &*self.ground.store, path, self.ground.budget())
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
        let spot = self.ground.spot(&path)?;
        remove_tree(disk, &*self.ground.store, &spot, place.name)
    }

    /// A new container into which nothing has been put is new no more, and as empty as it was made.
    pub(crate) fn end_empty(&self, id: ContainerId, container: &LiveContainer) -> Result<()> {
        let Some(drafts) = self.of(id)? else {
            return Ok(());
        };
        let spot = self.ground.spot(&drafts.path)?;
        let disk = self.ground.writable()?;
        disk.remove_directory(spot.place(&spot.name))?;
        container.new.end();
        self.watch_no_more(id);
        Ok(())
    }

    /// Removes the drafts of a container, and their names in the tree.
    pub(crate) fn remove(&self, container: Option<ContainerId>, path: &Path) -> Result<()> {
        let disk = self.ground.writable()?;
        remove_directory(disk, &*self.ground.store, path, &mut |path, stat| {
            self.ground.places.draft_removed(container, path, stat);
        })
    }

    /// Another owner of a new container is that of its drafts.
    pub(crate) fn give(&self, id: ContainerId, to: &NewAttributes) -> Result<()> {
        let (Some(drafts), true) = (self.of(id)?, to.uid.or(to.gid).is_some()) else {
            return Ok(());
        };
        let owner = NewAttributes {
            uid: to.uid,
            gid: to.gid,
            ..NewAttributes::default()
        };
        self.ground.set_attributes(&drafts.path, drafts.id, &owner)
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
