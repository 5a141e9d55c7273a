//! Changes that a daemon left behind, found when a container is looked into for the first time.
//!
//! A commit that a log asks for is carried out before a version of the container begins; bytes that
//! are still staged are staged again before the version is shown, and committed if they can be. A
//! log that cannot be recovered now is read through, and the container is not written; recovery is
//! tried again at each open. A log of another version, or of another process, is kept where it is
//! and reported: the container is shown as it is, and new bytes are staged in a log of another
//! name. Used by `version`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::committing::Effort;
use super::staged::{Staged, StagedContainer, Unsettled, UnsettledLog};
use super::version::ContainerVersion;
use super::{ContainerId, Containers, LiveContainer};
use crate::cache::BlockCache;
use crate::commit::found_logs::{LogBeside, logs_at};
use crate::commit::recovery::{Leftover, clear, settle};
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::stage::{LogPlace, LogSpot, LogState, Stage, StageMemory};

/// The outcome of recovering from the logs of a container.
#[derive(Default)]
pub(crate) struct Settled {
    /// The stage of changes that are still staged.
    stage: Option<Arc<Stage>>,
    unsettled: Option<Unsettled>,
}

impl Settled {
    pub(crate) fn failed(why: Error) -> Settled {
        Settled::but(why, UnsettledLog::Pending)
    }

    /// By the version before, which another process has changed: while this mount has something
    /// staged of it, nothing is staged of the next one.
    pub(crate) fn left_by(old: &Staged, path: &Path, cache: &Arc<BlockCache>) -> Settled {
        // Changes that were taken back need no log any more.
        if let Some(now) = old.now()
            && let Err(e) = old.try_tidy(&now, cache)
        {
            log::warn!("{e}");
        }
        Settled {
            stage: None,
            unsettled: old.leaves(path),
        }
    }

    fn but(why: Error, log: UnsettledLog) -> Settled {
        Settled {
            stage: None,
            unsettled: Some(Unsettled { why, log }),
        }
    }

    fn keeps_out(&self) -> bool {
        let log = self.unsettled.as_ref().map(|unsettled| unsettled.log);
        log == Some(UnsettledLog::Pending)
    }
}

impl Containers {
    /// Recovers from the logs of a container, if there are any.
    pub(crate) fn settle(
        &self,
        id: ContainerId,
        recognised: &Recognised,
        path: &Path,
    ) -> Result<Settled> {
        let Some(memory) = self.stage_memory.as_ref() else {
            return Ok(Settled::default());
        };
        if !recognised.format.is_changed() {
            return Ok(Settled::default());
        }
        let place = self.log_place(id, recognised)?;
        let spot = place.spot()?;
        let (own, others) = logs_at(recognised, &*self.store, path)?.own();
        let mut beside = None;
        for other in others {
            beside = beside.or(Some(match other {
                LogBeside::Foreign(why) => (why, UnsettledLog::Foreign),
                LogBeside::Unreadable(why) if own.as_ref().is_none_or(Leftover::is_stale) => {
                    return Ok(Settled::failed(why));
                }
                LogBeside::Unreadable(why) => (why, UnsettledLog::Old),
                LogBeside::Leftover(left) => (left.as_stale(&spot), UnsettledLog::Old),
            }));
        }
        let settled = match own {
            Some(left) => self.recover_own((recognised, path), (place, &spot), &left, memory)?,
            None => clear(&spot).map(|()| Settled::default())?,
        };
        let beside = beside.map(|(why, log)| Unsettled { why, log });
        Ok(Settled {
            unsettled: settled.unsettled.or(beside),
            ..settled
        })
    }

    fn recover_own(
        &self,
        (recognised, path): (&Recognised, &Path),
        (place, spot): (Arc<dyn LogPlace>, &LogSpot),
        left: &Leftover,
        memory: &Arc<StageMemory>,
    ) -> Result<Settled> {
        let fits = |state: &LogState| match self.settings.settles_stale {
            true => self.fits(recognised, path, state),
            false => Ok(false),
        };
        match settle((place, spot), left, memory, fits) {
            Ok(stage) => Ok(Settled {
                stage,
                unsettled: None,
            }),
            Err(why @ Error::Fault(_)) if left.is_only_old() => {
                Ok(Settled::but(why, UnsettledLog::Old))
            }
            Err(why) => Err(why),
        }
    }

    /// Whether staged changes can be taken for changes of this container: its arrays are as long as
    /// those that were opened.
    fn fits(&self, recognised: &Recognised, path: &Path, state: &LogState) -> Result<bool> {
        let container = recognised.open(&self.store, path, self.cache.budget())?;
        let container = Arc::new(container);
        let arrays = container.all_written().into_iter();
        let arrays: HashMap<String, _> = arrays.map(|located| (located.path(), located)).collect();
        for (path, len) in state.arrays() {
            match arrays.get(path) {
                Some(located) if located.array.info()?.bytes == *len => {}
                _ => return Ok(false),
            }
        }
        Ok(container.format == state.base().format)
    }

    /// Looks into a container for a log that was left beside it. An error says why the log is kept.
    pub(crate) fn commit_left(&self, id: ContainerId, container: &LiveContainer) -> Result<()> {
        let version = self.current(id, container)?;
        match version.staged.unsettled() {
            Some(unsettled) => Err(unsettled.why),
            None => Ok(()),
        }
    }

    /// Has a version that is not shown yet begin with the stage of a daemon before.
    pub(crate) fn resume(&self, version: &Arc<ContainerVersion>, left: Settled) {
        if let Some(unsettled) = left.unsettled {
            log::warn!("{}", unsettled.why);
            version.staged.note_unsettled(unsettled);
        }
        let Some(stage) = left.stage else { return };
        // Arrays are as long as they were when they were written to, whatever the file says.
        let lengths = stage.array_lengths().into_iter().collect();
        version.recognised.own_lengths.replace(lengths);
        let begun = version.staged.begun(&self.cache, || {
            StagedContainer::resumed(stage, self.open_version(version)?)
        });
        if let Err(why) = begun {
            log::warn!("{why}");
            let log = UnsettledLog::Pending;
            version.staged.note_unsettled(Unsettled { why, log });
            // It may have been opened as if there was no log.
            self.versions.open.close(version);
        }
    }

    /// Commits the stage of a daemon before, if it can be.
    pub(crate) fn go_on(&self, version: &Arc<ContainerVersion>) {
        if version.staged.now().is_none() {
            return;
        }
        self.remember_staged(version);
        if let Err(e) = self.commit(version, Effort::Usual) {
            log::warn!("{e}");
        }
    }

    /// Tries again to recover from a log that could not be. If that succeeds another version
    /// begins: an open of this one is to look it up afresh.
    pub(crate) fn recover_again(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        if !version.staged.is_pending() || self.disk.is_none() {
            return Ok(());
        }
        let container = self.places.container(version.container)?;
        let path = self.places.path(version.container)?;
        let mut known = container.known();
        if !known.shows(version) {
            return Err(self.changed(&path));
        }
        let left = self.settle(version.container, &version.recognised, &path);
        let left = left.unwrap_or_else(Settled::failed);
        if !left.keeps_out() {
            let found = version.recognised.stat(&*self.store, &path)?;
            let recognised = version.recognised.clone();
            let next = self.versions.create(version.container, recognised, &found);
            self.resume(&next, left);
            if !next.staged.is_pending() {
                known.version = Some(Arc::clone(&next));
                self.retire(version, &path);
                drop(known);
                self.go_on(&next);
                return Err(self.changed(&path));
            }
        }
        Ok(())
    }
}
