//! Changes that a daemon left behind, found when a container is looked into for the first time.
//!
//! A commit that a log asks for is carried out before a version of the container begins; bytes that
//! are still staged are staged again before the version is shown, and committed if they can be. A
//! log that cannot be recovered now is read through, and the container is not written; recovery is
//! tried again at each open. A log of another version, or of another process, is kept where it is
//! and reported: the container is shown as it is, and new bytes are staged in a log of another
//! name. Used by [`super::current`].

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::committing::{Committer, Effort, HeldFiles};
use super::ground::Ground;
use super::opening::Opener;
use super::place::ContainerPlace;
use super::places::ContainerId;
use super::version::ContainerVersion;
use super::versions::Versions;
use super::writing::{
    LayeredContainer, Unrecovered, UnrecoveredLog, VersionWrites, WrittenVersions,
};
use crate::cache::BlockCache;
use crate::commit::found_logs::{LogBeside, logs_at};
use crate::commit::recovery::{Leftover, clear, recover};
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::stage::{LayerMemory, LogPlace, LogSpot, LogState, LoggedArray, Stage};

/// The outcome of recovering from the logs of a container.
#[derive(Default)]
pub(crate) struct Recovered {
    /// The stage of changes that are still staged.
    stage: Option<Arc<Stage>>,
    unrecovered: Option<Unrecovered>,
}

/// What becomes of changes of another version of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StaleLogs {
    /// They stay in their log.
    #[default]
    Kept,
    /// They are committed, if the arrays are as long as they were.
    Applied,
}

impl Recovered {
    pub(crate) fn failed(why: Error) -> Recovered {
        Recovered::but(why, UnrecoveredLog::Pending)
    }

    /// By the version before, which another process has changed: while this mount has something
    /// staged of it, nothing is staged of the next one.
    pub(crate) fn left_by(old: &VersionWrites, path: &Path, cache: &Arc<BlockCache>) -> Recovered {
        // Changes that were taken back need no log any more.
        if let Some(now) = old.now()
            && let Err(e) = old.try_tidy(&now, cache)
        {
            log::warn!("{}", e.told_of(path, ""));
        }
        Recovered {
            stage: None,
            unrecovered: old.leaves(path),
        }
    }

    fn but(why: Error, log: UnrecoveredLog) -> Recovered {
        Recovered {
            stage: None,
            unrecovered: Some(Unrecovered { why, log }),
        }
    }

    fn keeps_out(&self) -> bool {
        let log = self.unrecovered.as_ref().map(|unrecovered| unrecovered.log);
        log == Some(UnrecoveredLog::Pending)
    }
}

/// Recovers what daemons have left behind.
pub(crate) struct Recovery {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) written: Arc<WrittenVersions>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) held: Arc<HeldFiles>,
    pub(crate) memory: Option<Arc<LayerMemory>>,
}

impl Recovery {
    /// Recovers from the logs of a container, if there are any.
    pub(crate) fn recover_logs(
        &self,
        id: ContainerId,
        recognised: &Recognised,
        path: &Path,
    ) -> Result<Recovered> {
        let stale = self.ground.settings.stale;
        self.recover_logs_with((id, recognised, path), stale)
    }

    pub(super) fn recover_logs_with(
        &self,
        (id, recognised, path): (ContainerId, &Recognised, &Path),
        stale: StaleLogs,
    ) -> Result<Recovered> {
        let Some(memory) = self.memory.as_ref() else {
            return Ok(Recovered::default());
        };
        if !recognised.format.is_changed() {
            return Ok(Recovered::default());
        }
        let place = ContainerPlace::of(&self.ground, id, recognised)?;
        let spot = place.spot()?;
        let (own, others) = logs_at(recognised, &*self.ground.store, path)?.own();
        let mut beside = None;
        for other in others {
            beside = beside.or(Some(match other {
                LogBeside::Foreign(why) => (why, UnrecoveredLog::Foreign),
                LogBeside::Unreadable(why) if own.as_ref().is_none_or(Leftover::is_stale) => {
                    return Ok(Recovered::failed(why));
                }
                LogBeside::Unreadable(why) => (why, UnrecoveredLog::Old),
                LogBeside::Leftover(left) => (left.as_stale(&spot), UnrecoveredLog::Old),
            }));
        }
        let recovered = match own {
            Some(left) => {
                let fits = |state: &LogState| match stale {
                    StaleLogs::Applied => self.fits(recognised, path, state),
                    StaleLogs::Kept => self.held.is_as_held(path, state),
                };
                recover_own((place, &spot), &left, memory, fits)?
            }
            None => clear(&spot).map(|()| Recovered::default())?,
        };
        let beside = beside.map(|(why, log)| Unrecovered { why, log });
        Ok(Recovered {
            unrecovered: recovered.unrecovered.or(beside),
            ..recovered
        })
    }

    /// Whether staged changes can be taken for changes of this container: its arrays are as long as
    /// those that were written, and of their types.
    fn fits(&self, recognised: &Recognised, path: &Path, state: &LogState) -> Result<bool> {
        let is_its = recognised.format.name() == state.base().format;
        Ok(is_its && self.fits_now(recognised, path, state.arrays())?)
    }

    pub(super) fn fits_now(
        &self,
        recognised: &Recognised,
        path: &Path,
        written: &[LoggedArray],
    ) -> Result<bool> {
        let container = recognised.open(&self.ground.store, path, self.ground.budget())?;
        let container = Arc::new(container);
        let arrays = container.all_written();
        let known = arrays.iter().map(|located| (located.path(), located));
        let known: HashMap<_, _> = known.collect();
        for array in written {
            let Some(located) = known.get(&array.path) else {
                return Ok(false);
            };
            let now = located.array.info()?;
            if now.bytes != array.len || array.dtype != *now.dtype.name() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has a version that is not shown yet begin with the stage of a daemon before.
    pub(crate) fn resume(&self, version: &Arc<ContainerVersion>, left: Recovered) {
        if let Some(unrecovered) = left.unrecovered {
            log::warn!("{}", self.ground.told(version.container, &unrecovered.why));
            version.writes.log.note_unrecovered(unrecovered);
        }
        let Some(stage) = left.stage else { return };
        // Arrays are as long as they were when they were written to, whatever the file says.
        let arrays = stage.logged_arrays().into_iter();
        let own = &version.recognised.left.own_lengths;
        let mut lengths = own.all();
        lengths.extend(arrays.map(|array| (array.path, array.len)));
        own.replace(lengths);
        let begun = version.writes.begun(&self.ground.cache, || {
            LayeredContainer::resumed(stage, self.opener.open(version)?)
        });
        if let Err(why) = begun {
            log::warn!("{}", self.ground.told(version.container, &why));
            let log = UnrecoveredLog::Pending;
            version
                .writes
                .log
                .note_unrecovered(Unrecovered { why, log });
            // It may have been opened as if there was no log.
            self.versions.open.close(version);
        }
    }

    /// Commits the stage of a daemon before, if it can be.
    pub(crate) fn go_on(&self, version: &Arc<ContainerVersion>) {
        if version.writes.now().is_none() {
            return;
        }
        self.written.remember(version);
        if let Err(e) = self.committer.commit(version, Effort::Usual) {
            log::warn!("{}", self.ground.told(version.container, &e));
        }
    }

    /// Tries again to recover from a log that could not be. If that succeeds another version
    /// begins: an open of this one is to look it up afresh.
    pub(crate) fn recover_again(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        if !version.writes.log.is_pending() || self.ground.disk.is_none() {
            return Ok(());
        }
        let container = self.ground.places.container(version.container)?;
        let path = self.ground.places.path(version.container)?;
        let mut known = container.known();
        if !known.shows(version) {
            return Err(self.ground.changed(&path));
        }
        let left = self.recover_logs(version.container, &version.recognised, &path);
        let left = left.unwrap_or_else(Recovered::failed);
        if !left.keeps_out() {
            let found = version.recognised.stat(&*self.ground.store, &path)?;
            let recognised = version.recognised.clone();
            let next = self.versions.begin(version.container, recognised, &found);
            self.resume(&next, left);
            if !next.writes.log.is_pending() {
                known.version = Some(Arc::clone(&next));
                self.versions.retire(version, &path);
                drop(known);
                self.go_on(&next);
                return Err(self.ground.changed(&path));
            }
        }
        Ok(())
    }
}

/// Carries out what the log of a container asks for.
fn recover_own(
    (place, spot): (Arc<dyn LogPlace>, &LogSpot),
    left: &Leftover,
    memory: &Arc<LayerMemory>,
    fits: impl FnOnce(&LogState) -> Result<bool>,
) -> Result<Recovered> {
    match recover((place, spot), left, memory, fits) {
        Ok(stage) => Ok(Recovered {
            stage,
            unrecovered: None,
        }),
        Err(why @ Error::Fault(_)) if left.is_only_old() => {
            Ok(Recovered::but(why, UnrecoveredLog::Old))
        }
        Err(why) => Err(why),
    }
}
