//! Files that are put into a container after it was packed: they become arrays of it, if this mount
//! has made it and its format can have any array.
//!
//! Until then they are added files ([`super::carried`]), and the container is watched as a new one
//! is. When one would be packed, it is written anew, of its arrays as they are shown and of those
//! files, and takes its own place. After a crash before that they are added files as before, and
//! after it they are both, and the added file gets another name. Nothing of the container may be
//! open, and nothing be staged. Used by [`super::pack`], and by `tree::writing`.

use std::path::Path;

use super::content::DraftContent;
use super::pack::{PackOutcome, is_busy};
use crate::commit::Spot;
use crate::commit::added::{added_of, remove_empty};
use crate::commit::tidy::remove_tree;
use crate::container::creation::{Creation, GivenContent};
use crate::disk::Place;
use crate::error::{Error, Result};
use crate::live::committing::Effort;
use crate::live::creation::pack::InUse;
use crate::live::directory::SourceDirectory;
use crate::live::version::ContainerVersion;
use crate::live::{ContainerId, Containers, LiveContainer, refused};
use crate::source::{FileKind, Stat};
use crate::stage::new_name;

/// A container that is written anew, as it was when that began.
struct Remaking<'a> {
    id: ContainerId,
    path: &'a Path,
    added: &'a SourceDirectory,
    creation: &'static dyn Creation,
    now: Stat,
    content: DraftContent,
}

impl Containers {
    /// Something is about to be put beside the arrays of a container that is a file, or changed
    /// there. Whether it may become an array.
    pub(crate) fn watch_added(&self, id: ContainerId, container: &LiveContainer) -> bool {
        let takes = container.new.takes_later();
        if takes {
            self.watch(id);
        }
        takes
    }

    /// A container has been packed: files may follow. It is not forgotten, unless many have been
    /// packed since.
    pub(super) fn await_later(&self, id: ContainerId, container: &LiveContainer) {
        container.new.take_later();
        self.places.hold(id);
        if let Some(oldest) = self.new.note_made(id) {
            self.let_go(oldest);
        }
    }

    /// Before the directory of a container is synced that is not new: added files become arrays if
    /// they can.
    pub(super) fn sync_later(&self, id: ContainerId) -> Result<()> {
        if !self.new.has(id) {
            return Ok(());
        }
        match self.pack_now(id, InUse::Spared) {
            Err(e) if !is_busy(&e) => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes arrays of a container's added files.
    pub(super) fn take_added(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        may: &dyn Fn() -> bool,
    ) -> Result<PackOutcome> {
        let path = &*self.places.path(id)?;
        let Some((added, added_id)) = added_of(&*self.store, path)? else {
            return Ok(PackOutcome::Packed);
        };
        let added = &SourceDirectory::new(added, added_id);
        let version = self.current(id, container)?;
        self.commit(&version, Effort::All)?;
        if !may() || !is_settled(&version) {
            return Err(refused("pack", path, libc::EBUSY));
        }
        let format = container.known().recognised.format;
        let creation = format.creation().ok_or(Error::ReadOnly)?;
        let now = self.store.stat(path)?;
        let opened = self.open_version(&version)?;
        let shown = |name: &Path| opened.shows_beside(name.as_os_str());
        let content = self.read_added(added, (creation, &now), &shown)?;
        if content.given.arrays.is_empty() {
            return Ok(PackOutcome::Packed);
        }
        self.check_replaceable(path, &now)?;
        let budget = self.cache.budget();
        let (mut given, _charge) = GivenContent::of_container(opened.outermost()?, budget)?;
        content.add_to(creation, &mut given)?;
        let remaking = Remaking {
            id,
            path,
            added,
            creation,
            now,
            content,
        };
        self.remake(&remaking, (container, &version), &given, may)?;
        Ok(PackOutcome::Packed)
    }

    /// Writes the container anew, in its own place.
    fn remake(
        &self,
        remaking: &Remaking<'_>,
        (container, version): (&LiveContainer, &ContainerVersion),
        given: &GivenContent,
        may: &dyn Fn() -> bool,
    ) -> Result<()> {
        let Remaking { path, creation, .. } = *remaking;
        let (now, content) = (&remaking.now, &remaking.content);
        let spot = self.spot(path)?;
        let at = self.place_of_packed(creation, (&spot, now), may)?;
        let attributes = content.attributes(now);
        let (new, not_kept) = self.write_packed(&at, creation, given, (now, &attributes))?;
        let alone = self.new.exclusive();
        let still = self.are_still(remaking.added, (content, creation), (path, now));
        let is_shown = version
            .identity()
            .file()
            .is_some_and(|file| file == now.identity);
        if !may() || !is_settled(version) || !is_shown || !matches!(still, Ok(true)) {
            new.discard();
            // A change by another process counts as a use, too.
            self.new.used(remaking.id);
            return still.and_then(|_| Err(refused("pack", path, libc::EBUSY)));
        }
        new.replace(now.identity)?;
        let removed = self.remove_taken(remaking, &spot);
        drop(alone);
        self.note_not_kept(remaking.id, container, not_kept);
        for (name, stat) in content.read_files() {
            self.places.draft_removed(Some(remaking.id), name, stat);
        }
        // The container is another one by now, whether or not the rest can be removed.
        if let Err(e) = removed {
            log::warn!("{e}");
        }
        // The kernel is to forget what it knows of the version before.
        self.current(remaking.id, container).map(drop)
    }

    /// What has been taken into the container goes, and the file that it was before.
    fn remove_taken(&self, remaking: &Remaking<'_>, spot: &Spot) -> Result<()> {
        let (disk, added) = (self.writable()?, remaking.added);
        for (name, _) in remaking.content.read_files() {
            disk.unlink(Place {
                directory: &added.path,
                id: added.id,
                name: name.as_os_str(),
            })?;
        }
        remove_tree(disk, &*self.store, spot, &new_name(&spot.name))?;
        let mut others = false;
        self.store.list(&added.path, &mut |_, _| others = true)?;
        match others {
            true => Ok(()),
            false => remove_empty(disk, spot),
        }
    }

    /// A new file has one name, and none of the attributes that users gave to the old one.
    fn check_replaceable(&self, path: &Path, now: &Stat) -> Result<()> {
        let why = match self.store.xattr_names(path, Some(now.identity.id)) {
            _ if now.nlink > 1 => "it has several names",
            Ok(names) if !names.is_empty() => "it has extended attributes",
            Ok(_) | Err(Error::Unsupported) => return Ok(()),
            Err(e) => return Err(e),
        };
        Err(Error::Invalid(format!(
            "{why}, which a file that is written anew would not have: what is put into it stays a file"
        )))
    }

    /// Whether something lies beside the arrays of a container that is watched.
    pub(super) fn has_added(&self, id: ContainerId) -> Result<bool> {
        let (mut any, path) = (false, self.places.path(id)?);
        if let (true, Some((added, _))) = (self.new.has(id), added_of(&*self.store, &path)?) {
            self.store.list(&added, &mut |name, kind| {
                any |= kind == FileKind::File && !name.as_encoded_bytes().starts_with(b".");
            })?;
        }
        Ok(any)
    }
}

/// Whether nothing is staged of it.
fn is_settled(version: &ContainerVersion) -> bool {
    let staged = &version.staged;
    staged.unsettled().is_none() && staged.now().is_none_or(|now| now.stage.is_gone())
}
