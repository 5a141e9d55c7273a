//! The parts that look after the containers of a mount, and which of the others each of them needs.
//!
//! A part needs only what stands above it here. Used by `tree`, which asks the parts, and by
//! [`super::unmounted`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::committing::{
    ArrayReplacing, AskedCommits, CommitCounters, Committer, ContainerTimes, DueCommits, HeldFiles,
    LaterCommits, MountEnd, Publication, Retyping,
};
use super::creation::{
    AddedFiles, DraftPacking, Drafts, InUse, LaterArrays, LeftDrafts, NewContainers, PackWriter,
    StoredDrafts,
};
use super::current::CurrentVersions;
use super::ground::Ground;
use super::lasting::LastingTable;
use super::opening::{FutureOpener, Opener};
use super::places::Places;
use super::recovery::Recovery;
use super::settings::ContainerSettings;
use super::shown::{DerivedFiles, LiveEntries, Restating, StoredReaders, TextViewer};
use super::versions::Versions;
use super::writing::{
    ArrayWriting, BeforeClose, Discarding, StoredRuns, WritableArrays, WrittenVersions,
};
use crate::cache::BlockCache;
use crate::disk::Disk;
use crate::source::Store;
use crate::stage::{LayerMemory, Unlogged};

/// All containers of a mount, as far as they were looked into.
pub struct Containers {
    pub(crate) ground: Arc<Ground>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) restating: Arc<Restating>,
    pub(crate) text_views: Arc<TextViewer>,
    pub(crate) entries: Arc<LiveEntries>,
    pub(crate) written: Arc<WrittenVersions>,
    pub(crate) discarding: Arc<Discarding>,
    pub(crate) writable: Arc<WritableArrays>,
    pub(crate) ending: Arc<MountEnd>,
    pub(crate) held: Arc<HeldFiles>,
    pub(crate) times: Arc<ContainerTimes>,
    pub(crate) counters: Arc<CommitCounters>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) current: Arc<CurrentVersions>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) later: Arc<LaterCommits>,
    pub(crate) asked: Arc<AskedCommits>,
    pub(crate) replacing: Arc<ArrayReplacing>,
    pub(crate) retyping: Arc<Retyping>,
    pub(crate) arrays: Arc<ArrayWriting>,
    pub(crate) new: Arc<NewContainers>,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) added: Arc<AddedFiles>,
    pub(crate) stored: Arc<StoredDrafts>,
    pub(crate) packing: Arc<DraftPacking>,
}

/// These parts, in one that has them.
macro_rules! all_of {
    ($whole:ident: $($part:ident),+ $(,)?) => {
        $whole { $($part: $part.clone()),+ }
    };
}

/// A part that needs these others.
macro_rules! part {
    ($($part:tt)+) => {
        Arc::new(all_of!($($part)+))
    };
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
        let restating = part!(Restating: cache);
        let ground = Arc::new(Ground::new(store, disk, cache, places, settings));
        let versions = Arc::new(Versions::new(&ground, &lasting));
        let budget = ground.budget();
        let memory = is_writable.then(|| LayerMemory::new(Arc::clone(budget)));
        let written = Arc::new(WrittenVersions::new(&ground, &versions));
        let ending = Arc::<MountEnd>::default();
        let due = Arc::new(DueCommits::new(&ending));
        let new = Arc::<NewContainers>::default();
        let counters = Arc::<CommitCounters>::default();
        let readers = Arc::<StoredReaders>::default();
        let opener = part!(Opener: ground, versions);
        let text_views = part!(TextViewer: ground, restating);
        let derived = part!(DerivedFiles: ground, restating, text_views, readers);
        let entries = part!(LiveEntries: ground, opener, derived, text_views, readers);

        let discarding = part!(Discarding: ground, written);
        let writable = part!(WritableArrays: ground, opener, memory);
        let before_close = part!(BeforeClose: ground, memory);

        let held = part!(HeldFiles: ground, readers, due);
        let future = part!(FutureOpener: ground, versions, opener);
        let publication = part!(Publication: ground, versions, lasting, opener, future);
        let times = part!(ContainerTimes: ground, publication);
        let committer = part!(Committer:
            ground, written, discarding, ending, due, held, readers, publication, times, counters
        );
        let recovery = part!(Recovery: ground, versions, opener, written, committer, held, memory);

        let drafts = part!(Drafts: ground, versions, lasting, new);
        let added = part!(AddedFiles: ground, opener, drafts, new);
        let left = part!(LeftDrafts: ground, drafts, added);
        let current = part!(CurrentVersions: ground, versions, held, recovery, left, added);

        let later = part!(LaterCommits: ground, committer, due, held, current);
        let asked = part!(AskedCommits: ground, versions, written, committer, recovery, current);
        let replacing =
            part!(ArrayReplacing: ground, opener, writable, written, committer, ending, held, due);
        let retyping = part!(Retyping: ground, current, writable, committer, ending);
        let runs = part!(StoredRuns: committer);
        let arrays = part!(ArrayWriting:
            ground, opener, current, recovery, writable, written, committer, later, before_close,
            runs
        );

        let stored = part!(StoredDrafts: ground, drafts);
        let writer = part!(PackWriter: ground, lasting, new);
        let later_arrays =
            part!(LaterArrays: ground, opener, current, committer, lasting, new, writer);
        let packing = part!(DraftPacking:
            ground, ending, counters, lasting, new, drafts, added, stored, later_arrays, writer
        );

        all_of!(Containers:
            ground, lasting, versions, opener, restating, text_views, entries, written,
            discarding, writable, ending, held, times, counters, recovery, current, committer,
            later, asked, replacing, retyping, arrays, new, drafts, added, stored, packing
        )
    }

    /// Commits everything that can be, and sees to it that the rest is safe. Returns what remains
    /// staged, and why. `new`: how new containers are treated of which something is open.
    pub fn commit_all(&self, new: InUse) -> Vec<(PathBuf, String)> {
        let mut left = self.packing.pack_all(new);
        for (id, version) in self.written.all() {
            left.extend(self.committer.commit_or_keep(id, &version));
        }
        left
    }

    /// What is staged and could not be given to a log, of each container: it goes with the daemon.
    pub fn unlogged(&self) -> Vec<(PathBuf, Unlogged)> {
        self.asked.unlogged()
    }

    /// The mount is about to end, and for so long nobody waits for long commits.
    pub fn hurry_for(&self, time: Duration) {
        self.ending.hurry_for(time);
    }

    /// Packing that is not done by then is given up: what would be packed stays new.
    pub fn end_packing_by(&self, until: Instant) {
        self.new.end_by(until);
    }
}
