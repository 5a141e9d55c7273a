//! The version of a container that the source holds now.
//!
//! [`CurrentVersions::version_of`] begins one where the container has changed, with what a daemon
//! before has left of it. Used by all of `live` that lies above, and by `tree`.

use std::path::Path;
use std::sync::Arc;

use super::committing::HeldFiles;
use super::container::{KnownContainer, LiveContainer};
use super::creation::{AddedFiles, LeftDrafts};
use super::ground::Ground;
use super::owner::Owner;
use super::places::{ContainerId, Forget};
use super::recognition::recognise;
use super::recovery::{Recovered, Recovery};
use super::version::ContainerVersion;
use super::versions::Versions;
use crate::container::MemberStats;
use crate::error::Result;
use crate::source::FileKind;

/// Finds out which version of a container the source holds.
pub(crate) struct CurrentVersions {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) held: Arc<HeldFiles>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) left: Arc<LeftDrafts>,
    pub(crate) added: Arc<AddedFiles>,
}

impl CurrentVersions {
    /// The version of a container that is in the source now: the current one, or a new one, which
    /// retires it.
    pub(crate) fn version_of(
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
            self.added.finish_moving_added(&path);
        }
        let left = match known.version {
            None => self
                .left
                .resume(id, container, &recognised, &path)
                .and_then(|()| self.recovery.recover_logs(id, &recognised, &path))
                .unwrap_or_else(Recovered::failed),
            // Its staged changes are kept, in a log that this one does not touch.
            Some(ref old) => Recovered::left_by(&old.writes, &path, &self.ground.cache),
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
        let version = self.versions.begin(id, recognised, &found);
        self.recovery.resume(&version, left);
        if let Some(old) = known.version.replace(Arc::clone(&version)) {
            self.versions.retire(&old, &path);
        }
        drop(known);
        self.recovery.go_on(&version);
        if container.stored == FileKind::File {
            self.added.give_way_to_arrays(&version, &path);
        }
        Ok(version)
    }

    /// The listing of an opened container, which the kernel keeps, goes when the container changes,
    /// whatever its time says. A fault of the new version is shown when it is looked into.
    pub(crate) fn notice_change(&self, id: ContainerId, container: &LiveContainer) {
        if container.known().version.is_some()
            && let Err(e) = self.version_of(id, container)
        {
            log::debug!("{e}");
        }
    }

    /// Shows the owner and mode that a version has now: the kernel is to ask for attributes alone
    /// again, for the content is the same.
    fn note_access(&self, version: &ContainerVersion, found: &MemberStats) {
        let (owner, before) = (Owner::of_container(found), version.owner().uid);
        if owner.uid != before
            && let Some(container) = version.writes.now()
        {
            container.stage.owner_changed();
        }
        if version.note_owner(owner) {
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
    pub(crate) fn check(&self, version: &ContainerVersion) -> Result<()> {
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
