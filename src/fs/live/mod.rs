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
pub mod versions;

use std::sync::Arc;
use std::time::Duration;

use crate::cache::BlockCache;
use crate::disk::Disk;
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
use committing::publish::Publisher;
use committing::times::FileTimes;
use committing::waiting::HeldFiles;
use creation::state::NewContainers;
use ground::Ground;
use lasting::LastingTable;
use opening::future::FutureOpener;
use opening::opener::Opener;
use shown::derived::DerivedFiles;
use shown::entry::Entries;
use shown::restated::Restating;
use shown::stored_readers::StoredReaders;
use shown::text_views::TextViewer;
use staged::before_close::BeforeClose;
use staged::discard::Discarding;
use staged::remembered::StagedVersions;
use staged::writable::WritableArrays;
use versions::Versions;

/// All containers of a mount, as far as they were looked into: the parts that look after them.
pub struct Containers {
    pub(crate) ground: Arc<Ground>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) restating: Arc<Restating>,
    pub(crate) text_views: Arc<TextViewer>,
    pub(crate) entries: Entries,
    /// Those of which something is staged.
    pub(crate) staged: Arc<StagedVersions>,
    pub(crate) discarding: Arc<Discarding>,
    pub(crate) writable: Arc<WritableArrays>,
    before_close: BeforeClose,
    pub(crate) ending: Arc<MountEnd>,
    due: Arc<DueCommits>,
    pub(crate) held: Arc<HeldFiles>,
    publisher: Arc<Publisher>,
    pub(crate) times: Arc<FileTimes>,
    pub(crate) new: NewContainers,
    pub(crate) commits: CommitCounters,
    stored_readers: Arc<StoredReaders>,
    stage_memory: Option<Arc<StageMemory>>,
}

impl Containers {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        cache: Arc<BlockCache>,
        places: Arc<dyn Places>,
        settings: ContainerSettings,
    ) -> Containers {
        let is_writable = disk.is_some();
        let lasting = Arc::new(LastingTable::new(cache.budget()));
        let restating = Arc::new(Restating {
            cache: Arc::clone(&cache),
        });
        let ground = Arc::new(Ground::new(store, disk, cache, places, settings));
        let versions = Arc::new(Versions::new(&ground, &lasting));
        let budget = ground.cache.budget();
        let memory = is_writable.then(|| StageMemory::new(Arc::clone(budget)));
        let opener = Arc::new(Opener {
            ground: Arc::clone(&ground),
            versions: Arc::clone(&versions),
        });
        let readers = Arc::<StoredReaders>::default();
        let text_views = Arc::new(TextViewer {
            ground: Arc::clone(&ground),
            restating: Arc::clone(&restating),
        });
        let entries = Entries {
            ground: Arc::clone(&ground),
            opener: Arc::clone(&opener),
            derived: DerivedFiles {
                ground: Arc::clone(&ground),
                restating: Arc::clone(&restating),
                text_views: Arc::clone(&text_views),
                readers: Arc::clone(&readers),
            },
            text_views: Arc::clone(&text_views),
            readers: Arc::clone(&readers),
        };
        let staged = Arc::new(StagedVersions::new(&ground, &versions));
        let discarding = Arc::new(Discarding {
            ground: Arc::clone(&ground),
            staged: Arc::clone(&staged),
        });
        let writable = Arc::new(WritableArrays {
            ground: Arc::clone(&ground),
            opener: Arc::clone(&opener),
            memory: memory.clone(),
        });
        let before_close = BeforeClose {
            ground: Arc::clone(&ground),
            memory: memory.clone(),
        };
        let ending = Arc::<MountEnd>::default();
        let due = Arc::new(DueCommits::new(&ending));
        let held = Arc::new(HeldFiles {
            ground: Arc::clone(&ground),
            readers: Arc::clone(&readers),
            due: Arc::clone(&due),
        });
        let publisher = Arc::new(Publisher {
            ground: Arc::clone(&ground),
            versions: Arc::clone(&versions),
            lasting: Arc::clone(&lasting),
            opener: Arc::clone(&opener),
            future: FutureOpener {
                ground: Arc::clone(&ground),
                versions: Arc::clone(&versions),
                opener: Arc::clone(&opener),
            },
        });
        let times = Arc::new(FileTimes {
            ground: Arc::clone(&ground),
            publisher: Arc::clone(&publisher),
        });
        Containers {
            ground,
            lasting,
            versions,
            opener,
            restating,
            text_views,
            entries,
            staged,
            discarding,
            writable,
            before_close,
            ending,
            due,
            held,
            publisher,
            times,
            new: NewContainers::default(),
            commits: CommitCounters::default(),
            stored_readers: readers,
            stage_memory: memory,
        }
    }

    /// The mount is about to end, and for so long nobody waits for long commits.
    pub fn hurry_for(&self, time: Duration) {
        self.ending.hurry_for(time);
    }
}
