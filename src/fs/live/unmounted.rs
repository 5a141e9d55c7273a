//! One container that no mount shows: changes that a gone mount has staged are recovered and
//! committed, and a file is appended to an array.
//!
//! Assumes that it is not moved meanwhile, and that no mount has it: the lock of its log, or of its
//! directory as a source, says so. Used by `arrayfs stage commit` and `arrayfs append`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::container::LiveContainer;
use super::containers::Containers;
use super::creation::InUse;
use super::places::{ContainerId, Forget, Places};
use super::recovery::StaleLogs;
use super::settings::ContainerSettings;
use super::shown::entry_table::ArrayNumber;
use crate::cache::{BlockCache, VersionId};
use crate::commit::drafts::left_drafts;
use crate::container::Recognised;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::memory::limit::default_limit;
use crate::source::{FileId, Source, Stat, Store};
use crate::sync::{RwLock, RwLockReadGuard};

/// There is one.
const ONLY: ContainerId = ContainerId(1);

/// Where it lies.
struct OnlyPlace {
    path: PathBuf,
    container: Arc<LiveContainer>,
    still: RwLock<()>,
}

impl Places for OnlyPlace {
    fn container(&self, _: ContainerId) -> Result<Arc<LiveContainer>> {
        Ok(Arc::clone(&self.container))
    }

    fn path(&self, _: ContainerId) -> Result<PathBuf> {
        Ok(self.path.clone())
    }

    fn known_path(&self, _: ContainerId) -> Result<PathBuf> {
        Ok(self.path.clone())
    }

    fn is_removed(&self, _: ContainerId) -> bool {
        false
    }

    fn pin(&self) -> RwLockReadGuard<'_, ()> {
        self.still.read()
    }

    fn try_pin(&self) -> Option<RwLockReadGuard<'_, ()>> {
        Some(self.pin())
    }

    fn moves(&self) -> u64 {
        0
    }

    fn retry(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    fn retry_briefly(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    fn is_in_use(&self, _: ContainerId) -> bool {
        false
    }

    fn is_open_for_writing(&self, _: VersionId) -> bool {
        false
    }

    fn has_written(&self, _: FileId) -> bool {
        false
    }

    fn hold(&self, _: ContainerId) {}

    fn let_go(&self, _: ContainerId) -> Option<Arc<LiveContainer>> {
        None
    }

    fn forget(&self, _: ContainerId, _: Forget<'_>) {}

    fn draft_removed(&self, _: Option<ContainerId>, _: &Path, _: &Stat) {}

    fn exchanged(
        &self,
        _: ContainerId,
        exchange: &mut dyn FnMut() -> Result<Option<Stat>>,
    ) -> Result<()> {
        exchange().map(drop)
    }
}

/// The outcome for changes that were staged of a container.
pub struct UnmountedOutcome {
    /// Why a log that lay beside it has not been recovered.
    pub log: Result<()>,
    /// Why something stays staged.
    pub stays: Option<String>,
}

/// Recovers and commits the stage of the container at `path`.
pub fn recover_and_commit(
    store: Arc<dyn Store>,
    disk: Arc<dyn Disk>,
    path: &Path,
    recognised: &Recognised,
    cache: Arc<BlockCache>,
) -> Result<UnmountedOutcome> {
    let (containers, container) =
        alone((store, disk), path, recognised, cache, StaleLogs::Applied)?;
    let log = containers.asked.commit_left(ONLY, &container);
    let left = containers.commit_all(InUse::Ignored).into_iter().next();
    // It knows its place, and that knows it.
    container.known().version = None;
    Ok(UnmountedOutcome {
        log,
        stays: left.map(|(path, why)| format!("{}: stays staged: {why}", path.display())),
    })
}

/// Appends the bytes of a file to an array of the container at `path`: all of them, or none after
/// an error. Nothing may be staged of it. `number`: of the array, in the order of the container.
pub fn append(
    store: Arc<dyn Store>,
    disk: Arc<dyn Disk>,
    path: &Path,
    recognised: &Recognised,
    (number, file): (usize, Arc<dyn Source>),
) -> Result<()> {
    let cache = BlockCache::new(default_limit());
    if left_drafts(recognised, &*store, path, cache.budget())?.is_some() {
        let why = "it has been made in a mount, and nothing was put into it yet";
        return Err(Error::Invalid(why.into()));
    }
    let stores = (store, disk);
    let (containers, container) = alone(stores, path, recognised, cache, StaleLogs::Kept)?;
    let done = containers
        .asked
        .commit_left(ONLY, &container)
        .and_then(|()| containers.current.version_of(ONLY, &container))
        .and_then(|version| match version.writes.now() {
            Some(now) if !now.stage.is_clean() => {
                let why = "something is staged of it, which 'arrayfs stage commit' commits";
                Err(Error::Invalid(why.into()))
            }
            _ => containers
                .replacing
                .append(&version, ArrayNumber(number), file),
        });
    // It knows its place, and that knows it.
    container.known().version = None;
    done
}

/// Containers of which there is only one.
fn alone(
    (store, disk): (Arc<dyn Store>, Arc<dyn Disk>),
    path: &Path,
    recognised: &Recognised,
    cache: Arc<BlockCache>,
    stale: StaleLogs,
) -> Result<(Containers, Arc<LiveContainer>)> {
    let stat = store.stat(path)?;
    let container = Arc::new(LiveContainer::new(stat.kind, recognised.clone()));
    let place = Arc::new(OnlyPlace {
        path: path.to_owned(),
        container: Arc::clone(&container),
        still: RwLock::default(),
    });
    let settings = ContainerSettings {
        preferences: recognised.preferences,
        stale,
        ..ContainerSettings::default()
    };
    let containers = Containers::new(store, Some(disk), cache, place, settings);
    Ok((containers, container))
}
