//! Files that are put into a container and are no part of it: where they go when the container is
//! packed or moved.
//!
//! In a container that is a directory such files lie where they are shown; beside one that is a
//! file, in a hidden directory, which goes where the container goes. Used by [`super::pack`], by
//! [`crate::live::current`], and by `tree::writing`.

use crate::live::places::ContainerId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::drafts::Drafts;
use super::roles::{DraftRole, DraftRules};
use super::state::NewContainers;
use crate::commit::added::{
    added_of, added_path, announce_move, finish_move, make_below, remove_empty,
};
use crate::commit::drafts::is_of;
use crate::container::creation::Creation;
use crate::disk::{Caller, Place, Renaming};
use crate::error::{Error, Result};
use crate::live::ground::Ground;
use crate::live::opening::Opener;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::source::{FileId, FileKind, Listed, Stat};

/// Looks after the added files of containers.
pub(crate) struct AddedFiles {
    pub(crate) ground: Arc<Ground>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) new: Arc<NewContainers>,
}

impl AddedFiles {
    /// The added files of a container that has been given this name follow it, if they have not
    /// yet.
    pub(crate) fn finish_moving_added(&self, path: &Path) {
        let (Some(disk), Some(_)) = (self.ground.disk.as_deref(), path.file_name()) else {
            return;
        };
        let spot = self.ground.spot(path);
        if let Err(e) = spot.and_then(|spot| finish_move(disk, &*self.ground.store, &spot)) {
            log::warn!("{}", e.told_of(&self.ground.store.display(path), ""));
        }
    }

    /// An array that has come later has its name: an added file of that name gets another one.
    pub(crate) fn give_way_to_arrays(&self, version: &Arc<ContainerVersion>, path: &Path) {
        let moved = || {
            let (Some(_), Some((added, _))) =
                (&self.ground.disk, added_of(&*self.ground.store, path)?)
            else {
                return Ok(());
            };
            self.give_way_in(&*self.opener.open(version)?, (&added, EntryIndex::ROOT))
        };
        if let Err(e) = moved() {
            log::warn!("{}", self.ground.told(version.container, &e));
        }
    }

    fn give_way_in(
        &self,
        opened: &OpenContainer,
        (directory, at): (&Path, EntryIndex),
    ) -> Result<()> {
        let mut taken = Vec::new();
        self.ground
            .store
            .list(directory, &mut |Listed { name, kind, .. }| {
                if !opened.shows_beside(at, name) {
                    taken.push((name.to_owned(), kind));
                }
            })?;
        for (name, kind) in taken {
            let path = directory.join(&name);
            let group = opened.find(at, &name);
            let group = group.filter(|group| opened.group_path(*group).is_some());
            if let (FileKind::Directory, Some(group)) = (kind, group) {
                self.give_way_in(opened, (&path, group))?;
                continue;
            }
            let place = self.ground.spot(&path)?;
            self.move_in(place.place(&name), place.place(&name))?;
        }
        Ok(())
    }

    /// A container is about to get the name `to`, and its added files are to follow it. None if it
    /// has none. `replaces`: a container of that name, which must not have any: they would belong
    /// to no container.
    pub(crate) fn begin_moving_added(
        &self,
        from: &Path,
        to: &Path,
        (how, replaces): (Renaming, bool),
    ) -> Result<Option<PathBuf>> {
        let (disk, store) = (self.ground.writable()?, &*self.ground.store);
        let (from_spot, to_spot) = (self.ground.spot(from)?, self.ground.spot(to)?);
        let has_added = added_of(store, from)?.is_some();
        if how != Renaming::Exchange && (has_added || replaces) {
            // Files that were left there, and followed no container, are this container's from then
            // on.
            remove_empty(disk, store, &to_spot)?;
        }
        let follows = announce_move(disk, store, &from_spot, &to_spot)?;
        Ok(follows.then(|| to.to_owned()))
    }

    /// What lay beside the arrays in a new container are its added files from then on, or lie
    /// beside the files of one that is a directory.
    pub(super) fn keep_beside(
        &self,
        rules: &DraftRules<'_>,
        creation: &dyn Creation,
        drafts: &Path,
        container: &Path,
    ) -> Result<()> {
        let mut foreign = rules.walk(&*self.ground.store, drafts)?;
        foreign.retain(|(_, role)| *role == DraftRole::Beside);
        if foreign.is_empty() {
            return Ok(());
        }
        let (disk, store, now) = (
            self.ground.writable()?,
            &*self.ground.store,
            self.ground.store.stat(container)?,
        );
        let top = match creation.layout().is_file() {
            true => self.room_for_added(container)?,
            false => (container.to_owned(), now.id),
        };
        for (entry, _) in &foreign {
            let old = self.ground.spot(&drafts.join(&entry.path))?;
            let group = entry.path.parent().unwrap_or(Path::new(""));
            let (directory, id) = make_below(disk, store, top.clone(), (group, owner_of(&now)))?;
            let new = Place {
                directory: &directory,
                id,
                name: &old.name,
            };
            self.move_in(old.place(&old.name), new)?;
            self.ground.sync(&directory, id)?;
        }
        self.ground.sync(&top.0, top.1)
    }

    /// The directory of added files of a container, made if there is none. Of programs that put
    /// files into two groups at the same moment each may make it, and none takes away what another
    /// one has just made.
    pub(crate) fn added_or_made(&self, container: &Path) -> Result<(PathBuf, FileId)> {
        const TRIES: usize = 16;
        let (store, path) = (&*self.ground.store, added_path(container));
        let owner = owner_of(&store.stat(container)?);
        let mut made = Err(Error::NotFound);
        for _ in 0..TRIES {
            if let Some(found) = added_of(store, container)? {
                return Ok(found);
            }
            made = self.drafts.make_hidden(container, path.clone(), owner);
            if !made.as_ref().is_err_and(Error::is_already_there) {
                break;
            }
            match store.stat(&path) {
                Ok(found) if !is_of(&found, owner.uid) => self.drafts.make_way(&path)?,
                // Another thread was faster, or has removed it again.
                _ => {}
            }
        }
        made.map(|made| (made.path, made.id))
    }

    /// The directory of added files of a container, made if there is none, with its name on the
    /// disk.
    fn room_for_added(&self, container: &Path) -> Result<(PathBuf, FileId)> {
        let room = self.added_or_made(container)?;
        let spot = self.ground.spot(container)?;
        self.ground.sync(&spot.directory, spot.id)?;
        Ok(room)
    }

    /// Whether something has been put into it.
    pub(crate) fn has_drafts(&self, container: ContainerId) -> Result<bool> {
        let Some(path) = self.drafts.at(container)? else {
            return self.has_added(container);
        };
        let mut any = false;
        self.ground.store.list(&path, &mut |_| any = true)?;
        Ok(any)
    }

    /// Whether something lies beside the arrays of a container that is watched.
    pub(super) fn has_added(&self, id: ContainerId) -> Result<bool> {
        let path = self.ground.places.path(id)?;
        let (true, Some((added, _))) = (self.new.has(id), added_of(&*self.ground.store, &path)?)
        else {
            return Ok(false);
        };
        let (mut any, mut groups) = (false, vec![added]);
        while let (false, Some(group)) = (any, groups.pop()) {
            self.ground
                .store
                .list(&group, &mut |Listed { name, kind, .. }| match kind {
                    FileKind::Directory => groups.push(group.join(name)),
                    kind => {
                        any |= kind == FileKind::File && !name.as_encoded_bytes().starts_with(b".");
                    }
                })?;
        }
        Ok(any)
    }

    /// Under another name, if another process has made something of this one meanwhile.
    fn move_in(&self, old: Place<'_>, new: Place<'_>) -> Result<()> {
        const TRIES: u32 = 100;
        let disk = self.ground.writable()?;
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

pub(crate) fn owner_of(container: &Stat) -> Caller {
    Caller::of(container.uid, container.gid)
}
