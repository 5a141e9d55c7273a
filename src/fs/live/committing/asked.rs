//! Commits that are asked for: by a user, also of what is staged of another version, and before a
//! container gets another name or owner. Used by `tree`, and by [`crate::live::unmounted`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::committer::Committer;
use super::effort::Effort;
use crate::error::{Error, Result};
use crate::live::container::LiveContainer;
use crate::live::current::CurrentVersions;
use crate::live::ground::Ground;
use crate::live::places::ContainerId;
use crate::live::recovery::{Recovered, Recovery, StaleLogs};
use crate::live::refusal::refused;
use crate::live::version::ContainerVersion;
use crate::live::versions::Versions;
use crate::live::writing::WrittenVersions;
use crate::source::FileKind;
use crate::stage::Unlogged;

/// Why changes of another version stay.
const DOES_NOT_FIT: &str = "another process has changed the container, whose arrays are not as long as those that were written: what is staged cannot be applied to it; `arrayfs stage discard` gives it up";

/// Commits what a user, or a move, asks for.
pub(crate) struct AskedCommits {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) written: Arc<WrittenVersions>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) current: Arc<CurrentVersions>,
}

impl AskedCommits {
    /// Commits what is staged of a container at a user's request: to the container as it is now,
    /// if another process has changed it since and the arrays are as long as they were.
    pub(crate) fn commit_or_apply(&self, id: ContainerId, version: &Arc<ContainerVersion>) {
        match self.applied_to_changed(id, version) {
            Ok(version) => drop(self.committer.commit_or_keep(id, &version)),
            Err(e) => {
                let path = self.ground.shown_path(id);
                log::warn!("{}: stays staged: {e}", path.display());
                version.writes.outcome.note_why(Some(e.to_string()));
            }
        }
    }

    /// The version that has what is staged of this one: another one, if another process has changed
    /// the container. EINVAL if the arrays are not as they were, EBUSY as long as one is open for
    /// writing.
    fn applied_to_changed(
        &self,
        id: ContainerId,
        old: &Arc<ContainerVersion>,
    ) -> Result<Arc<ContainerVersion>> {
        let container = self.ground.places.container(id)?;
        let current = self.current.version_of(id, &container)?;
        let staged = old.writes.now().filter(|now| !now.stage.is_clean());
        let Some(staged) = staged.filter(|_| current.id != old.id) else {
            return Ok(Arc::clone(old));
        };
        let path = self.ground.places.path(id)?;
        if self.ground.places.is_open_for_writing(old.id) {
            return Err(refused("apply what is staged to", &path, libc::EBUSY));
        }
        let _locked = old.writes.wait_for_turn()?;
        // A commit that failed has left two layers.
        if staged.stage.frozen().is_some() {
            old.writes.unfreeze(&staged, &self.ground.cache)?;
        }
        let mut known = container.known();
        if !known.shows(&current) {
            return Err(self.ground.changed(&path));
        }
        let recognised = current.recognised.clone();
        let (recovery, written) = (&self.recovery, staged.stage.logged_arrays());
        if !recovery.fits_now(&recognised, &path, &written)? {
            return Err(Error::Invalid(DOES_NOT_FIT.into()));
        }
        let found = recognised.stat(&*self.ground.store, &path)?;
        staged.stage.hand_over()?;
        old.writes.forget_stage();
        self.written.forget(old);
        let left = recovery.recover_logs_with((id, &recognised, &path), StaleLogs::Applied);
        let next = self.versions.begin(id, recognised, &found);
        recovery.resume(&next, left.unwrap_or_else(Recovered::failed));
        known.version = Some(Arc::clone(&next));
        self.versions.retire(&current, &path);
        self.written.remember(&next);
        Ok(next)
    }

    /// Looks into a container for a log that was left beside it. An error says why the log is kept.
    pub(crate) fn commit_left(&self, id: ContainerId, container: &LiveContainer) -> Result<()> {
        let version = self.current.version_of(id, container)?;
        match version.writes.log.unrecovered() {
            Some(unrecovered) => Err(unrecovered.why),
            None => Ok(()),
        }
    }

    /// Commits everything that is staged of a container that is about to get another name, or
    /// another owner, for its log would not find it, or not be believed. One that was not looked
    /// into yet is looked into: a log may have been left behind.
    pub(crate) fn commit_before_move(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        path: &Path,
    ) -> Result<()> {
        let known = container.known().version.clone();
        let Some(version) = known.or_else(|| self.current.version_of(id, container).ok()) else {
            return Ok(());
        };
        let writes = &version.writes;
        // The staged changes may have been taken back since, and the log be there still.
        let committed = match writes.now().is_some_and(|now| !now.stage.is_gone()) {
            true => self.committer.commit(&version, Effort::All),
            false => Ok(()),
        };
        // Its log goes with it.
        if moves_its_log(container, &version) {
            return Ok(());
        }
        let busy = |why: &str| {
            log::warn!("{}: cannot be renamed: {why}", path.display());
            Err(refused("rename", path, libc::EBUSY))
        };
        let may_be_committed =
            writes.log.unrecovered().is_none() && writes.outcome.hindrance().is_none();
        match (committed, writes.keeps_place()) {
            (_, None) => Ok(()),
            (Err(Error::Invalid(why)), _) => busy(&why),
            (Err(e), _) => Err(e),
            // A program has written since: the caller, which moves the container, looks again.
            (Ok(()), Some(_)) if may_be_committed => Ok(()),
            (Ok(()), Some(why)) => busy(&why),
        }
    }

    /// What is staged and could not be given to a log, of each container: it goes with the daemon.
    pub(crate) fn unlogged(&self) -> Vec<(PathBuf, Unlogged)> {
        let staged = self.written.all().into_iter();
        let unlogged = staged.filter_map(|(id, version)| {
            let unlogged = version.writes.now()?.stage.unlogged()?;
            Some((self.ground.shown_path(id), unlogged))
        });
        unlogged.collect()
    }
}

/// Whether the log of a container lies in the directory that it is, and is its own.
pub(crate) fn moves_its_log(container: &LiveContainer, version: &ContainerVersion) -> bool {
    container.stored == FileKind::Directory && !version.writes.log.keeps_out()
}
