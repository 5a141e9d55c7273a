//! The commit of the stage of a container.
//!
//! Changes that cannot be committed remain staged. Used by all that has something committed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::changes::{Changes, changed_arrays, seen_files};
use super::counters::CommitCounters;
use super::due::DueCommits;
use super::effort::Effort;
use super::ending::MountEnd;
use super::publish::{Publication, Publishing};
use super::replaced_array::ArrayContent;
use super::times::ContainerTimes;
use super::waiting::HeldFiles;
use crate::commit::{Commit, CommitLimits, NotNow, Spot};
use crate::container::writable::{ChangedArray, Consistency, WritableContainer};
use crate::error::{Error, Result};
use crate::live::ground::Ground;
use crate::live::places::ContainerId;
use crate::live::shown::StoredReaders;
use crate::live::version::ContainerVersion;
use crate::live::writing::{Discarding, LayeredContainer, WrittenVersions};
use crate::memory::budget::Budget;
use crate::patience;
use crate::source::FileId;
use crate::stage::{Layer, ShowLayers};

/// How a commit went that did not fail.
pub(crate) type CommitOutcome = std::result::Result<(), NotNow>;

/// So long it is looked whether changes agree that are not going to be committed now.
const AT_ONCE: Duration = Duration::from_millis(5);

/// Whether changes agree, if that is found out at once.
fn found_at_once(
    writable: &dyn WritableContainer,
    changed: &[ChangedArray],
    budget: &Arc<Budget>,
) -> Result<Option<Consistency>> {
    match patience::for_at_most(AT_ONCE, || writable.consistency(changed, budget)) {
        Ok(found) => Ok(Some(found)),
        Err(Error::Unwanted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Commits stages of containers.
pub(crate) struct Committer {
    pub(crate) ground: Arc<Ground>,
    pub(crate) written: Arc<WrittenVersions>,
    pub(crate) discarding: Arc<Discarding>,
    pub(crate) ending: Arc<MountEnd>,
    pub(crate) due: Arc<DueCommits>,
    pub(crate) held: Arc<HeldFiles>,
    pub(crate) readers: Arc<StoredReaders>,
    pub(crate) publication: Arc<Publication>,
    pub(crate) times: Arc<ContainerTimes>,
    pub(crate) counters: Arc<CommitCounters>,
}

impl Committer {
    /// Commits the stage of a container. Changes that cannot be committed remain staged, with the
    /// reason; after an error, too.
    pub(crate) fn commit(&self, version: &Arc<ContainerVersion>, effort: Effort) -> Result<()> {
        let writes = &version.writes;
        let turn = writes.wait_for_turn();
        let Some(container) = writes.now() else {
            return Ok(());
        };
        let Ok(_turn) = turn else {
            return self.due.put_off(version, &container);
        };
        if self.ground.is_removed(version) {
            return self.discarding.give_up(version, &container);
        }
        // Of a commit that ended in a panic.
        if container.stage.frozen().is_some() {
            writes.unfreeze(&container, &self.ground.cache)?;
        }
        let Some(frozen) = self.freeze(version, &container)? else {
            writes.tidy(&container, &self.ground.cache)?;
            writes.outcome.note_why(None);
            self.written.forget(version);
            return Ok(());
        };
        let begun = Instant::now();
        let layer = (&frozen, None);
        let done = self
            .ending
            .while_wanted(effort.in_a_hurry(), || {
                self.commit_layer(version, &container, layer, effort)
            })
            .map_err(|e| container.note_failure(e));
        if !matches!(done, Ok(Ok(()))) {
            writes.unfreeze(&container, &self.ground.cache)?;
        }
        let path = self.ground.shown_path(version.container);
        match done {
            Ok(Ok(())) => {
                writes.outcome.note_commit(begun);
                writes.outcome.note_why(None);
                self.written.forget(version);
                Ok(())
            }
            Ok(Err(NotNow::TooMuch)) | Err(Error::Unwanted) => {
                self.due.put_off(version, &container)
            }
            Ok(Err(NotNow::Stays(why))) => {
                log::info!("{}: stays staged: {why}", path.display());
                writes.outcome.note_why(Some(why));
                // What no log can have stays in memory, and the container's state says so.
                if let Err(e) = container.stage.log_all() {
                    log::debug!("{}: {e}", path.display());
                }
                Ok(())
            }
            Ok(Err(NotNow::Waits(in_use))) => {
                if writes.outcome.why().as_ref() != Some(&in_use.by) {
                    log::info!("{}: stays staged: {}", path.display(), in_use.by);
                }
                container.stage.log_all()?;
                self.held.wait_for_program(version, in_use);
                Ok(())
            }
            Err(e) => {
                log::warn!("{}: stays staged: {e}", path.display());
                writes.outcome.note_failed(e.to_string());
                // The written bytes are kept, whatever becomes of the daemon.
                container.stage.sync()?;
                Err(e)
            }
        }
    }

    fn freeze(
        &self,
        version: &ContainerVersion,
        container: &LayeredContainer,
    ) -> Result<Option<Arc<Layer>>> {
        let freeze = |show: ShowLayers<'_>| container.stage.freeze(show);
        let writes = &version.writes;
        writes.change_layers(container, &self.ground.cache, freeze)
    }

    /// `content`: of an array that gets another one, whatever is staged of it.
    pub(crate) fn commit_layer(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        (frozen, content): (&Arc<Layer>, Option<&ArrayContent>),
        effort: Effort,
    ) -> Result<CommitOutcome> {
        let mut changed = changed_arrays(container, frozen, &self.ground.cache)?;
        if let Some(content) = content {
            content.put_among(container, &mut changed)?;
        }
        let writable = match content {
            Some(content) => content.writable(container)?,
            None => container.writable(),
        };
        match writable.consistency(&changed, self.ground.budget())? {
            Consistency::Now => {}
            Consistency::NotYet(why) => return Ok(Err(NotNow::Stays(why))),
            Consistency::Unfit(why) => return Err(Error::Invalid(why)),
        }
        let changes = Changes {
            writable: &*writable,
            changed: &changed,
            layer: frozen.number(),
            written: content
                .map(|content| content.written)
                .or(container.stage.last_write()),
        };
        self.commit_changes(version, container, &changes, effort)
    }

    /// How much of a container a commit of what is staged would copy, if that is more than it
    /// writes. Whatever else comes of it, the commit says itself. No commit is under way.
    pub(crate) fn copied(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
    ) -> Result<u64> {
        let copied = self.looked_at((version, container), |commit| {
            let copied = commit.copied()?;
            // That may take long, and a file that is copied is large.
            if copied <= self.ground.settings.pacing.copied {
                return Ok(0);
            }
            let found = found_at_once(commit.writable, commit.changed, commit.budget)?;
            Ok(match found {
                Some(Consistency::Now) | None => copied,
                Some(Consistency::NotYet(_) | Consistency::Unfit(_)) => 0,
            })
        });
        Ok(copied?.unwrap_or(0))
    }

    /// Whether an array of so many bytes may get its place in the file that a commit of what is
    /// staged makes: [`Commit::may_begin_next`].
    pub(crate) fn may_begin_next(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        (bytes, is_begun): (u64, bool),
    ) -> Result<bool> {
        let may = self.looked_at((version, container), |commit| {
            commit.may_begin_next(bytes, is_begun)
        });
        Ok(may?.unwrap_or(false))
    }

    /// Has a commit of what is staged looked at, which is not made; none while one is under way.
    fn looked_at<R>(
        &self,
        (version, container): (&Arc<ContainerVersion>, &LayeredContainer),
        look: impl FnOnce(&Commit<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let layers = container.stage.layers();
        let [layer] = &layers[..] else {
            return Ok(None);
        };
        let changed = changed_arrays(container, layer, &self.ground.cache)?;
        let writable = container.writable();
        let changes = Changes {
            writable: &*writable,
            changed: &changed,
            layer: layer.number(),
            written: None,
        };
        let of = (version, container);
        self.with_commit(of, &changes, Effort::Usual, look)
            .map(Some)
    }

    /// Has the container's files changed; the changes of the layer are checked before.
    pub(crate) fn commit_changes(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        changes: &Changes<'_>,
        effort: Effort,
    ) -> Result<CommitOutcome> {
        self.with_commit((version, container), changes, effort, |commit| {
            self.carry_out(version, container, changes, commit)
        })
    }

    fn carry_out(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        changes: &Changes<'_>,
        commit: &Commit<'_>,
    ) -> Result<CommitOutcome> {
        let id = version.container;
        let time = container.stage.time_set();
        let begun = Instant::now();
        let mut publishing = Publishing::new(&self.publication);
        // The files are opened by them before all is done. The lengths of arrays that have not
        // changed stay, and the others are those that are shown already.
        let own = &version.recognised.left.own_lengths;
        let before = own.replace(changes.writable.own_lengths(changes.changed));
        let made = commit.prepare().and_then(|preparation| match preparation {
            Ok(prepared) => Ok(Ok(publishing.publish(prepared, (version, container))?)),
            Err(not_now) => Ok(Err(not_now)),
        });
        if publishing.found.is_none() {
            own.replace(before);
        }
        match &made {
            Ok(Ok(told)) => {
                changes.writable.published();
                self.counters.done(begun, *told);
            }
            Ok(Err(_)) | Err(Error::Unwanted) => {}
            Err(_) => self.counters.failed(begun),
        }
        if let Err(not_now) = made? {
            return Ok(Err(not_now));
        }
        if let Some(found) = &publishing.found {
            self.publication.end_commit(version, container, found)?;
        }
        // As long as there is a log it knows the files by their times.
        if let Some(time) = time.filter(|_| commit.is_directory && container.stage.is_clean())
            && let Err(e) = self.ground.retry(|| {
                self.times
                    .set_time_of_all(version, &self.ground.places.path(id)?, time)
            })
        {
            log::warn!("{}", self.ground.told(id, &e));
        }
        Ok(Ok(()))
    }

    /// Has a commit of these changes looked at, or made.
    fn with_commit<R>(
        &self,
        (version, container): (&Arc<ContainerVersion>, &LayeredContainer),
        changes: &Changes<'_>,
        effort: Effort,
        work: impl FnOnce(&Commit<'_>) -> Result<R>,
    ) -> Result<R> {
        let id = version.container;
        let path = self.ground.places.path(id)?;
        let seen = seen_files(version, &path);
        let first = seen.first().and_then(|first| first.identity);
        let first = first.ok_or(Error::ReadOnly)?;
        let at_spot = |work: &mut dyn FnMut(&Spot) -> Result<()>| {
            self.ground.retry_briefly(|| {
                work(&self.spot_of_files(version, &self.ground.places.path(id)?)?)
            })
        };
        let is_read = |file: &FileId| self.readers.has(file);
        work(&Commit {
            disk: self.ground.disk.as_ref().ok_or(Error::ReadOnly)?,
            store: &self.ground.store,
            spot: &self.spot_of_files(version, &path)?,
            at_spot: &at_spot,
            seen: &seen,
            is_directory: !version.recognised.layout().is_file(),
            stage: &container.stage,
            layer: changes.layer,
            writable: changes.writable,
            changed: changes.changed,
            written: changes.written.unwrap_or(first.mtime),
            budget: self.ground.budget(),
            preference: self.ground.settings.commit,
            limits: match effort {
                Effort::Usual => self.ground.settings.pacing.limits,
                Effort::All => CommitLimits::NONE,
            },
            is_read: &is_read,
        })
    }

    /// Where the files lie of a container that lies there.
    fn spot_of_files(&self, version: &ContainerVersion, path: &Path) -> Result<Spot> {
        let first = version.recognised.first_file(path);
        let (directory, name) = first.ok_or(Error::Unsuitable)?;
        self.ground.spot(&directory.join(name))
    }

    /// Commits what is staged of one container, or sees to it that it is safe. Returns what remains
    /// staged, and why.
    pub(crate) fn commit_or_keep(
        &self,
        id: ContainerId,
        version: &Arc<ContainerVersion>,
    ) -> Option<(PathBuf, String)> {
        let committed = self.commit(version, self.ending.effort());
        let container = version.writes.now();
        let container = container.filter(|now| !now.stage.is_clean())?;
        let synced = container.stage.sync();
        let why = match committed.and(synced) {
            Err(e) => e.to_string(),
            Ok(()) => version.writes.outcome.why().unwrap_or_default(),
        };
        Some((self.ground.shown_path(id), why))
    }
}
