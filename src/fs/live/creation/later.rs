//! Files that are put into a container after it was packed: they become arrays of it, if this mount
//! has made it, its format can have any array, and nobody else has changed it since.
//!
//! Until then they are added files ([`super::added`]), and the container is watched as a new one
//! is. When one would be packed, it is written anew, of its arrays as they are shown and of those
//! files, and takes its own place: what a commit heeds is heeded here, too. Nothing of the
//! container may be open, staged, removed or damaged, no other program may have it open, and
//! nothing of it may be lost; else the files stay files. After a crash before that they are added
//! files as before, and after it they are both, and the added file gets another name. Used by
//! [`super::pack`], and by `tree::writing`.

use std::path::Path;
use std::sync::Arc;

use super::content::DraftContent;
use super::outcome::PackOutcome;
use super::packed::PackWriter;
use super::state::NewContainers;
use crate::commit::added::{added_of, remove_empty};
use crate::commit::tidy::remove_tree;
use crate::commit::{Spot, is_given, program_lock};
use crate::container::creation::{Creation, GivenContent};
use crate::disk::{Caller, NewAttributes, NewTime};
use crate::error::{Error, Result};
use crate::live::committing::{Committer, Effort};
use crate::live::container::LiveContainer;
use crate::live::current::CurrentVersions;
use crate::live::directory::SourceDirectory;
use crate::live::ground::Ground;
use crate::live::lasting::LastingTable;
use crate::live::opening::Opener;
use crate::live::places::ContainerId;
use crate::live::refusal::refused;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::live::writing::CommitTurn;
use crate::source::{Stat, open_same};
use crate::stage::new_name;

/// A container that is written anew, as it was when that began.
struct Remaking<'a> {
    id: ContainerId,
    path: &'a Path,
    added: &'a SourceDirectory,
    creation: &'static dyn Creation,
    now: Stat,
    content: DraftContent,
    untyped: Vec<String>,
}

/// Makes arrays of added files.
pub(crate) struct LaterArrays {
    pub(crate) ground: Arc<Ground>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) current: Arc<CurrentVersions>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) new: Arc<NewContainers>,
    pub(crate) writer: Arc<PackWriter>,
}

impl LaterArrays {
    /// Makes arrays of a container's added files, or leaves them what they are.
    pub(super) fn take_added(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        may: &dyn Fn() -> bool,
    ) -> Result<PackOutcome> {
        let version = self.current.version_of(id, container)?;
        if !self.lasting.of(&version.identity()).takes_later {
            return Ok(PackOutcome::Packed);
        }
        self.committer.commit(&version, Effort::All)?;
        let committing = version.writes.wait_for_turn()?;
        match self.take(id, container, (&version, committing), may) {
            Err(Error::Invalid(why)) => {
                let path = self.ground.shown_path(id);
                log::warn!(
                    "{}: what is put into it stays a file: {why}",
                    path.display()
                );
                Ok(PackOutcome::Packed)
            }
            other => other.map(|()| PackOutcome::Packed),
        }
    }

    fn take(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        (version, committing): (&ContainerVersion, CommitTurn<'_>),
        may: &dyn Fn() -> bool,
    ) -> Result<()> {
        let path = &*self.ground.places.path(id)?;
        let Some((added, added_id)) = added_of(&*self.ground.store, path)? else {
            return Ok(());
        };
        let added = &SourceDirectory::new(added, added_id);
        if !may() || !has_nothing_staged(version) {
            return Err(refused("pack", path, libc::EBUSY));
        }
        let format = container.known().recognised.format;
        let creation = format.creation().ok_or(Error::ReadOnly)?;
        let now = self.ground.store.stat(path)?;
        let opened = self.opener.open(version)?;
        let shown = |path: &Path| opened.shows_path_beside(path);
        let content = DraftContent::of_added(&self.ground, added, (creation, &now), &shown)?;
        if content.given.arrays.is_empty() {
            return Ok(());
        }
        self.check_replaceable(path, &now)?;
        content.check_readable(&now)?;
        check_whole(version, &opened)?;
        let source = open_same(&*self.ground.store, path, &now.identity())?;
        let Ok(_locked) = program_lock::take(&*source, false)? else {
            return Err(refused("pack", path, libc::EBUSY));
        };
        let budget = self.ground.budget();
        let (mut given, _charge) = GivenContent::of_container(opened.outermost()?, budget)?;
        content.add_to(creation, &mut given)?;
        let untyped = given.untyped()?;
        let remaking = Remaking {
            id,
            path,
            added,
            creation,
            now,
            content,
            untyped,
        };
        self.remake(&remaking, (container, version, committing), &given, may)
    }

    /// Writes the container anew, in its own place.
    fn remake(
        &self,
        remaking: &Remaking<'_>,
        (container, version, committing): (&LiveContainer, &ContainerVersion, CommitTurn<'_>),
        given: &GivenContent,
        may: &dyn Fn() -> bool,
    ) -> Result<()> {
        let Remaking { path, creation, .. } = *remaking;
        let (now, content) = (&remaking.now, &remaking.content);
        let spot = self.ground.spot(path)?;
        let at = self
            .ground
            .new_place((&spot, creation), Caller::of(now.uid, now.gid), may)?;
        let attributes = content.attributes_of_made(now);
        let mut facts = self.lasting.facts_of(container);
        facts.own_lengths = creation.own_lengths(given)?;
        facts.untyped.extend(remaking.untyped.iter().cloned());
        let (new, not_kept) = self
            .writer
            .write(&at, creation, given, (now, &attributes))?;
        if !not_kept.is_empty() {
            new.discard();
            return Err(Error::Invalid(not_kept.join("; ")));
        }
        // In the order of the locks; what is committed in between takes the new file's name away.
        drop(committing);
        let alone = self.new.exclusive();
        let committing = version.writes.wait_for_turn()?;
        let still = content.is_still(&*self.ground.store, (remaking.added, creation), (path, now));
        let is_shown = version
            .identity()
            .file()
            .is_some_and(|file| file == now.identity());
        if !may() || !has_nothing_staged(version) || !is_shown || !matches!(still, Ok(true)) {
            new.discard();
            // A change by another process counts as a use, too.
            self.new.used(remaking.id);
            return still.and_then(|_| Err(refused("pack", path, libc::EBUSY)));
        }
        self.writer.tell_untyped(remaking.id, &remaking.untyped);
        self.writer.put(new, (container, now.file()), facts)?;
        let removed = self.remove_taken(remaking, &spot);
        drop((committing, alone));
        for (name, stat) in content.read_files() {
            self.ground
                .places
                .draft_removed(Some(remaking.id), name, stat);
        }
        // The container is another one by now, whether or not the rest can be removed.
        if let Err(e) = removed {
            log::warn!("{}", self.ground.told(remaking.id, &e));
        }
        // The kernel is to forget what it knows of the version before.
        self.current.notice_change(remaking.id, container);
        Ok(())
    }

    /// What has been taken into the container goes, and the file that it was before.
    fn remove_taken(&self, remaking: &Remaking<'_>, spot: &Spot) -> Result<()> {
        let (disk, added) = (self.ground.writable()?, remaking.added);
        for (path, _) in remaking.content.read_files() {
            let path = added.path.join(path);
            let above = self.ground.spot(&path)?;
            disk.unlink(above.place(&above.name))?;
        }
        remove_tree(disk, &*self.ground.store, spot, &new_name(&spot.name))?;
        match remove_empty(disk, &*self.ground.store, spot) {
            Err(e) if e.is_not_empty() => Ok(()),
            other => other,
        }
    }

    /// A new file has one name, and none of the attributes that users gave to the old one.
    fn check_replaceable(&self, path: &Path, now: &Stat) -> Result<()> {
        let why = match self.ground.store.posix()?.xattr_names(path, Some(now.id)) {
            _ if now.nlink > 1 => "it has several names",
            Ok(names) if !names.iter().all(|name| is_given(name)) => "it has extended attributes",
            Ok(_) | Err(Error::Unsupported) => return Ok(()),
            Err(e) => return Err(e),
        };
        let why = format!("{why}, which a file that is written anew would not have");
        Err(Error::Invalid(why))
    }
}

/// What is damaged, only read, or removed for the time being would be lost.
fn check_whole(version: &ContainerVersion, opened: &OpenContainer) -> Result<()> {
    let is_whole = opened.writable().is_some()
        && opened.outermost()?.all_faults().is_empty()
        && version.tombstones.all().is_empty();
    match is_whole {
        true => Ok(()),
        false => Err(Error::Invalid("not all of it can be written anew".into())),
    }
}

impl DraftContent {
    /// Nobody may read files by the container who may not read them now.
    fn check_readable(&self, now: &Stat) -> Result<()> {
        let mode = self.attributes(now).mode.unwrap_or(0);
        match u32::from(now.mode) & 0o444 & !mode {
            0 => Ok(()),
            _ => Err(Error::Invalid(
                "not all may read it who may read the container".into(),
            )),
        }
    }

    /// Of the container's file: its mode as it was, and the time of the last change.
    fn attributes_of_made(&self, now: &Stat) -> NewAttributes {
        let changed = self.written().max(Some(now.mtime));
        NewAttributes {
            mode: Some((now.mode & 0o666).into()),
            mtime: changed.map(NewTime::At),
            ..self.attributes(now)
        }
    }
}

/// Whether nothing is staged of it.
fn has_nothing_staged(version: &ContainerVersion) -> bool {
    let writes = &version.writes;
    writes.log.unrecovered().is_none() && writes.now().is_none_or(|now| now.stage.is_gone())
}
