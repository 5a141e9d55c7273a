//! Versions of containers: a container as it was when it was looked into.
//!
//! [`Containers::current`] begins a version, [`Containers::retire`] and [`Containers::close`] end
//! one; nothing else does. In between it is the content of its identity, and any other is refused
//! as changed. Opening it is the business of [`super::opening`]. Used by all of `live`, and by
//! `tree::node`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::container::{KnownContainer, LiveContainer};
use super::opening::opener::VersionOpening;
use super::owner::Owner;
use super::places::Forget;
use super::recognition::recognise;
use super::recovery::Recovered;
use super::shown::text_views::TextViews;
use super::shown::tombstones::Tombstones;
use super::staged::Staged;
use super::{ContainerId, Containers};
use crate::cache::VersionId;
use crate::container::{MemberStats, Recognised};
use crate::error::Result;
use crate::source::{FileKind, Identity};
use crate::sync::Mutex;

pub struct ContainerVersion {
    pub(crate) id: VersionId,
    pub(crate) container: ContainerId,
    pub(crate) recognised: Recognised,
    /// Our own commits change it, and nothing that is shown.
    identity: Mutex<Identity>,
    /// Under which its blocks are cached: others after a commit.
    blocks: AtomicU64,
    pub(crate) opening: VersionOpening,
    pub(crate) staged: Staged,
    /// As it was when it was last looked at: it may change while the version stays.
    owner: Mutex<Owner>,
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) text_views: TextViews,
}

impl ContainerVersion {
    /// Of the container as it is found now.
    pub(crate) fn new(
        id: VersionId,
        container: ContainerId,
        recognised: Recognised,
        found: &MemberStats,
    ) -> Arc<ContainerVersion> {
        Arc::new(ContainerVersion {
            id,
            container,
            recognised: recognised.anew(),
            identity: Mutex::new(found.identity()),
            blocks: AtomicU64::new(id.0),
            opening: VersionOpening::default(),
            staged: Staged::default(),
            owner: Mutex::new(Owner::of_container(found)),
            tombstones: Arc::default(),
            text_views: TextViews::default(),
        })
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner.lock().clone()
    }

    /// Notes how its files are now, and says whether others may read them than before.
    fn note_owner(&self, now: Owner) -> bool {
        let mut owner = self.owner.lock();
        let same = owner.lets_in_as(&now);
        *owner = now;
        !same
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity.lock().clone()
    }

    pub(crate) fn blocks(&self) -> VersionId {
        VersionId(self.blocks.load(Ordering::Acquire))
    }

    /// A change of our own: the version goes on. Returns the identity that it had.
    pub(crate) fn adopt(&self, to: Identity, blocks: VersionId) -> Identity {
        let mut identity = self.identity.lock();
        self.blocks.store(blocks.0, Ordering::Release);
        std::mem::replace(&mut identity, to)
    }

    pub(crate) fn note_owner_of(&self, found: &MemberStats) {
        self.note_owner(Owner::of_container(found));
    }

    /// Whether the container is unchanged. Of one that could not be read whole, its permissions
    /// decide what is shown, too.
    fn is_still(&self, found: &MemberStats) -> bool {
        let readable = || self.owner().lets_in_as(&Owner::of_container(found));
        self.identity() == found.identity() && (!self.opening.is_damaged() || readable())
    }
}

impl Containers {
    /// The version of a container that is in the source now: the current one, or a new one, which
    /// retires it.
    pub(crate) fn current(
        &self,
        id: ContainerId,
        container: &LiveContainer,
    ) -> Result<Arc<ContainerVersion>> {
        let path = self.ground.places.path(id)?;
        let recognised = container.known().recognised.clone();
        let mut found = recognised.stat(&*self.ground.store, &path)?;
        let shown = container.known().version.clone();
        if let Some(shown) = shown.filter(|shown| !shown.is_still(&found))
            && self.held.give_time_back(&shown, &path, &found)
        {
            found = recognised.stat(&*self.ground.store, &path)?;
        }
        // A file that has become a directory, or the other way round, is another inode.
        if found.own.kind != container.stored {
            return Err(self.ground.changed(&path));
        }
        let mut known = container.known();
        if let Some(version) = known.version_of(&found) {
            drop(known);
            self.note_access(&version, &found);
            return Ok(version);
        }
        if known.version.is_none() {
            self.finish_moving_added(&path);
        }
        let left = match known.version {
            None => self
                .resume_drafts(id, container, &recognised, &path)
                .and_then(|()| self.recover_logs(id, &recognised, &path))
                .unwrap_or_else(Recovered::failed),
            // Its staged changes are kept, in a log that this one does not touch.
            Some(ref old) => Recovered::left_by(&old.staged, &path, &self.ground.cache),
        };
        // The recovery may have changed it.
        let found = recognised.stat(&*self.ground.store, &path)?;
        let found = match &known.version {
            // Recognised a moment ago, when it was looked up.
            None if found.identity().is_of(known.seen) => found,
            _ => self.recognise_anew(&path, &mut known)?,
        };
        // Another thread may have been faster.
        if let Some(version) = known.version_of(&found) {
            return Ok(version);
        }
        let recognised = known.recognised.clone();
        let version = self.versions.begin_version(id, recognised, &found);
        self.resume(&version, left);
        if let Some(old) = known.version.replace(Arc::clone(&version)) {
            self.versions.retire(&old, &path);
        }
        drop(known);
        self.go_on(&version);
        if container.stored == FileKind::File {
            self.give_way_to_arrays(&version, &path);
        }
        Ok(version)
    }

    /// The listing of an opened container, which the kernel keeps, goes when the container changes,
    /// whatever its time says. A fault of the new version is shown when it is looked into.
    pub(crate) fn notice_change(&self, id: ContainerId, container: &LiveContainer) {
        if container.known().version.is_some()
            && let Err(e) = self.current(id, container)
        {
            log::debug!("{e}");
        }
    }

    /// Shows the owner and mode that a version has now: the kernel is to ask for attributes alone
    /// again, for the content is the same.
    fn note_access(&self, version: &ContainerVersion, found: &MemberStats) {
        if version.note_owner(Owner::of_container(found)) {
            let attributes = Forget::Attributes(version.id);
            self.ground.places.forget(version.container, attributes);
        }
    }

    /// Recognises a container that changed. It may be changing still: what it is recognised as and
    /// the identity that is returned must be of one moment, or half a container would be taken for
    /// a version.
    fn recognise_anew(&self, path: &Path, known: &mut KnownContainer) -> Result<MemberStats> {
        const TRIES: u32 = 16;
        for _ in 0..TRIES {
            let before = known.recognised.identity(&*self.ground.store, path)?;
            let stat = self.ground.store.stat(path)?;
            let preferences = self.ground.settings.preferences;
            let recognised = recognise(&*self.ground.store, path, &stat, preferences)?;
            let Some(recognised) = recognised.known() else {
                break;
            };
            known.recognised = recognised;
            let after = known.recognised.stat(&*self.ground.store, path)?;
            if before == after.identity() {
                return Ok(after);
            }
        }
        Err(self.ground.changed(path))
    }

    /// Returns when no commit is just being published.
    pub(crate) fn wait_until_published(&self, version: &ContainerVersion) -> Result<()> {
        let container = self.ground.places.container(version.container)?;
        drop(container.known());
        Ok(())
    }

    /// Whether a version is still what the source holds.
    pub(crate) fn check_current(&self, version: &ContainerVersion) -> Result<()> {
        let path = self.ground.places.known_path(version.container)?;
        let mut found = version.recognised.stat(&*self.ground.store, &path)?;
        if !version.is_still(&found) && self.held.give_time_back(version, &path, &found) {
            found = version.recognised.stat(&*self.ground.store, &path)?;
        }
        if !version.is_still(&found) {
            // A commit of ours may be half published. Under this lock it is not; a change by
            // another process is found again.
            let container = self.ground.places.container(version.container)?;
            let known = container.known();
            found = version.recognised.stat(&*self.ground.store, &path)?;
            drop(known);
            if !version.is_still(&found) {
                return Err(self.ground.changed(&path));
            }
        }
        self.note_access(version, &found);
        Ok(())
    }
}

impl KnownContainer {
    /// The version that is shown, if it has this identity and need not be opened anew.
    fn version_of(&self, found: &MemberStats) -> Option<Arc<ContainerVersion>> {
        let version = self.version.as_ref()?;
        let holds = version.is_still(found) && !version.opening.may_have_passed();
        holds.then(|| Arc::clone(version))
    }
}
