//! The beginnings and ends of versions.
//!
//! Which version a container has, [`super::version`] finds out; nothing but this begins one and
//! ends it. Used by all of `live`, and by `tree`, which tells when a container is forgotten.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::container::LiveContainer;
use super::ground::Ground;
use super::lasting::LastingTable;
use super::opening::opener::OpenVersions;
use super::places::{ContainerId, Forget};
use super::version::ContainerVersion;
use crate::cache::VersionId;
use crate::container::{MemberStats, Recognised};
use crate::memory::budget::Reclaim;

/// Numbers versions, and keeps some of them open.
pub(crate) struct Versions {
    ground: Arc<Ground>,
    lasting: Arc<LastingTable>,
    last: AtomicU64,
    pub(crate) open: Arc<OpenVersions>,
}

impl Versions {
    pub(crate) fn new(ground: &Arc<Ground>, lasting: &Arc<LastingTable>) -> Versions {
        let open = Arc::<OpenVersions>::default();
        let idle: Arc<dyn Reclaim> = Arc::clone(&open) as _;
        ground.budget().register(Arc::downgrade(&idle));
        Versions {
            ground: Arc::clone(ground),
            lasting: Arc::clone(lasting),
            last: AtomicU64::new(0),
            open,
        }
    }

    /// A number that nothing in the cache has.
    pub(crate) fn next_id(&self) -> VersionId {
        VersionId(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Containers that are open now.
    pub(crate) fn open_count(&self) -> usize {
        self.open.count()
    }

    /// A container is not held any more, and closed if it is forgotten then.
    pub(crate) fn let_go(&self, id: ContainerId) {
        if let Some(container) = self.ground.places.let_go(id) {
            self.close(&container);
        }
    }

    /// A version of a container that shows what this mount has shown of it.
    pub(crate) fn begin(
        &self,
        id: ContainerId,
        recognised: Recognised,
        found: &MemberStats,
    ) -> Arc<ContainerVersion> {
        let version = ContainerVersion::new(self.next_id(), id, recognised, found);
        self.lasting.recall(&version);
        version
    }

    /// Ends a version that the source no longer holds: its blocks go, and the kernel forgets its
    /// entries.
    pub(crate) fn retire(&self, old: &ContainerVersion, path: &Path) {
        log::info!(
            "{}: changed; showing the new version",
            self.ground.store.display(path).display()
        );
        self.end(old);
        // The container's own listing may have lost or gained an error.txt.
        let all = Forget::Entries(Some(old.id));
        self.ground.places.forget(old.container, all);
    }

    /// Ends the version of a container that has been forgotten, for it may have been removed:
    /// nothing of it is kept open.
    pub(crate) fn close(&self, container: &LiveContainer) {
        let version = container.known().version.clone();
        if let Some(version) = version {
            self.end(&version);
        }
    }

    fn end(&self, version: &ContainerVersion) {
        self.ground.cache.forget(version.blocks());
        self.open.retire(version);
    }
}
