//! The life of containers: opened, written, committed, made, and found again after a crash.
//!
//! [`Containers`] opens versions of containers, stages writes to their arrays, commits them, packs
//! new containers and recovers after a crash. Through one trait, [`Places`], it asks where a
//! container lies, and says which of its names and pages are to be forgotten: it knows no inodes,
//! no names and no FUSE. Assumes that the permissions of callers were checked. Used by `tree`,
//! which shows containers in a mount, and by `arrayfs stage commit`, which commits or recovers one
//! that is not mounted ([`unmounted`]).

pub mod committing;
pub mod container;
pub mod creation;
pub mod directory;
pub mod lasting;
pub mod opening;
pub mod owner;
pub mod place;
pub mod places;
pub mod recognition;
pub mod recovery;
pub mod shown;
pub mod staged;
#[cfg(test)]
mod tests;
pub mod unmounted;
pub mod version;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::BlockCache;
use crate::commit::{Preference, Spot};
use crate::container::Preferences;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::memory::budget::Reclaim;
use crate::source::Store;
use crate::stage::StageMemory;
use crate::workers::WorkerThreads;

pub use committing::counters::CountedStatus;
pub use committing::due::{Later, Pacing};
pub use committing::ending::{HURRY, TO_THE_END};
pub use container::LiveContainer;
pub use creation::pack::{InUse, PACKING};
pub use places::{ContainerId, Places};
pub use recovery::StaleLogs;

use committing::counters::CommitCounters;
use committing::due::DueCommits;
use committing::ending::MountEnd;
use creation::state::NewContainers;
use lasting::LastingTable;
use shown::stored_readers::StoredReaders;
use staged::remembered::StagedVersions;
use version::Versions;

/// How containers are opened and changed.
#[derive(Debug, Clone, Default)]
pub struct ContainerSettings {
    pub preferences: Preferences,
    /// How changes of arrays are committed.
    pub commit: Preference,
    /// How long programs that close files may wait for that.
    pub pacing: Pacing,
    /// What becomes of changes of another version of a container.
    pub stale: StaleLogs,
    /// How long a new container is not used before it is packed, if not as long as usual.
    pub settle: Option<Duration>,
}

/// All containers of a mount, as far as they were looked into.
pub struct Containers {
    store: Arc<dyn Store>,
    /// The disk through which the source is changed; without one containers are only read.
    disk: Option<Arc<dyn Disk>>,
    cache: Arc<BlockCache>,
    places: Arc<dyn Places>,
    settings: ContainerSettings,
    /// Memory for staged bytes; none where containers are only read.
    stage_memory: Option<Arc<StageMemory>>,
    background: Option<WorkerThreads>,
    versions: Versions,
    /// Those of which something is staged.
    staged: StagedVersions,
    due: DueCommits,
    ending: Arc<MountEnd>,
    pub(crate) new: NewContainers,
    pub(crate) commits: CommitCounters,
    stored_readers: Arc<StoredReaders>,
    lasting: LastingTable,
}

/// Tasks that wait for each background thread at most: more are better left to a commit, which has
/// all cores.
const WAITING_EACH: usize = 2;

fn background() -> WorkerThreads {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    WorkerThreads::as_many("background", cores, cores * WAITING_EACH)
}

impl Containers {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        cache: Arc<BlockCache>,
        places: Arc<dyn Places>,
        settings: ContainerSettings,
    ) -> Containers {
        let versions = Versions::default();
        let idle: Arc<dyn Reclaim> = Arc::clone(&versions.open) as _;
        cache.budget().register(Arc::downgrade(&idle));
        let is_writable = disk.is_some();
        Containers {
            store,
            disk,
            places,
            settings,
            stage_memory: is_writable.then(|| StageMemory::new(Arc::clone(cache.budget()))),
            background: is_writable.then(background),
            lasting: LastingTable::new(cache.budget()),
            cache,
            versions,
            staged: StagedVersions::default(),
            due: DueCommits::default(),
            ending: Arc::default(),
            new: NewContainers::default(),
            commits: CommitCounters::default(),
            stored_readers: Arc::default(),
        }
    }

    pub(crate) fn writable(&self) -> Result<&dyn Disk> {
        self.disk.as_deref().ok_or(Error::ReadOnly)
    }

    /// Containers that are open now.
    pub(crate) fn open_count(&self) -> usize {
        self.versions.open.count()
    }

    /// Where a file lies that is a container, or belongs to one.
    pub(crate) fn spot(&self, path: &Path) -> Result<Spot> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().ok_or(Error::Unsuitable)?;
        Ok(Spot {
            id: self.store.stat(directory)?.id,
            directory: directory.to_owned(),
            name: name.to_owned(),
        })
    }

    fn let_go(&self, id: ContainerId) {
        if let Some(container) = self.places.let_go(id) {
            self.close(&container);
        }
    }

    /// Where a container lay when it was looked up last: for messages.
    fn known_path(&self, id: ContainerId) -> PathBuf {
        self.places.known_path(id).unwrap_or_default()
    }

    /// Where a container lay when it was looked up last, as users spell it.
    fn shown_path(&self, id: ContainerId) -> PathBuf {
        self.store.display(&self.known_path(id))
    }

    /// An error that a container met, as a line of the log.
    fn told(&self, id: ContainerId, e: &Error) -> String {
        e.told_of(&self.shown_path(id), "")
    }

    /// Another process has changed what lies at this path.
    pub(crate) fn changed(&self, path: &Path) -> Error {
        let path = self.store.display(path);
        Error::Changed { path }
    }

    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile.
    fn retry<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        done_by(|work| self.places.retry(work), work)
    }

    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile, for a
    /// caller that may hold locks that a move waits for.
    fn retry_briefly<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        done_by(|work| self.places.retry_briefly(work), work)
    }
}

/// The result of work that `run` carries out.
fn done_by<T>(
    run: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<()>,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut done = None;
    run(&mut || {
        done = Some(work()?);
        Ok(())
    })?;
    done.ok_or_else(|| Error::Bug("nothing was tried".into()))
}

/// A failure that names the path, with a number of the system.
pub(crate) fn refused(doing: &str, path: &Path, code: i32) -> Error {
    refused_saying(format!("{doing} {}", path.display()), code)
}

/// A failure in these words, with a number of the system.
pub(crate) fn refused_saying(doing: String, code: i32) -> Error {
    let cause = std::io::Error::from_raw_os_error(code);
    Error::io(format!("cannot {doing}"), cause)
}
