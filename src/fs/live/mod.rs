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
pub mod ground;
pub mod lasting;
pub mod opening;
pub mod owner;
pub mod place;
pub mod places;
pub mod recognition;
pub mod recovery;
pub mod refusal;
pub mod settings;
pub mod shown;
pub mod staged;
#[cfg(test)]
mod tests;
pub mod unmounted;
pub mod version;

use std::sync::Arc;
use std::time::Duration;

use crate::cache::BlockCache;
use crate::disk::Disk;
use crate::memory::budget::Reclaim;
use crate::source::Store;
use crate::stage::StageMemory;

pub use committing::counters::CountedStatus;
pub use committing::due::{Later, Pacing};
pub use committing::ending::{HURRY, TO_THE_END};
pub use container::LiveContainer;
pub use creation::pack::{InUse, PACKING};
pub use places::{ContainerId, Places};
pub use recovery::StaleLogs;
pub(crate) use refusal::{refused, refused_saying};
pub use settings::ContainerSettings;

use committing::counters::CommitCounters;
use committing::due::DueCommits;
use committing::ending::MountEnd;
use creation::state::NewContainers;
use ground::Ground;
use lasting::LastingTable;
use shown::stored_readers::StoredReaders;
use staged::remembered::StagedVersions;
use version::Versions;

/// All containers of a mount, as far as they were looked into.
pub struct Containers {
    pub(crate) ground: Arc<Ground>,
    /// Memory for staged bytes; none where containers are only read.
    stage_memory: Option<Arc<StageMemory>>,
    versions: Versions,
    /// Those of which something is staged.
    staged: StagedVersions,
    due: DueCommits,
    pub(crate) ending: Arc<MountEnd>,
    pub(crate) new: NewContainers,
    pub(crate) commits: CommitCounters,
    stored_readers: Arc<StoredReaders>,
    pub(crate) lasting: LastingTable,
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
        let memory = disk
            .is_some()
            .then(|| StageMemory::new(Arc::clone(cache.budget())));
        Containers {
            lasting: LastingTable::new(cache.budget()),
            ground: Arc::new(Ground::new(store, disk, cache, places, settings)),
            stage_memory: memory,
            versions,
            staged: StagedVersions::default(),
            due: DueCommits::default(),
            ending: Arc::default(),
            new: NewContainers::default(),
            commits: CommitCounters::default(),
            stored_readers: Arc::default(),
        }
    }

    /// Containers that are open now.
    pub(crate) fn open_count(&self) -> usize {
        self.versions.open.count()
    }

    /// The mount is about to end, and for so long nobody waits for long commits.
    pub fn hurry_for(&self, time: Duration) {
        self.ending.hurry_for(time);
    }

    fn let_go(&self, id: ContainerId) {
        if let Some(container) = self.ground.places.let_go(id) {
            self.close(&container);
        }
    }
}
