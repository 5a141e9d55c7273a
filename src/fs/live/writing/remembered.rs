//! Which containers have something staged: none of them is forgotten before it is committed,
//! whatever the kernel forgets.
//!
//! A writer registers the container after it has staged something
//! ([`WrittenVersions::remember`]), and a commit takes a container out only if nothing is staged
//! under the lock of the list: so nothing is ever staged of a container that is not in it once the
//! write returns. Nothing but the layers of a stage is looked at under that lock, and nothing of
//! [`Places`](crate::live::places::Places) is asked. Used by all of `live`, and by `tree::status`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cache::VersionId;
use crate::live::ground::Ground;
use crate::live::places::ContainerId;
use crate::live::version::ContainerVersion;
use crate::live::versions::Versions;
use crate::sync::{Mutex, MutexGuard};

/// Of one container there may be several: one for each version of which something is staged.
pub(crate) struct WrittenVersions {
    ground: Arc<Ground>,
    versions: Arc<Versions>,
    table: Mutex<HashMap<VersionId, Arc<ContainerVersion>>>,
}

impl WrittenVersions {
    pub(crate) fn new(ground: &Arc<Ground>, versions: &Arc<Versions>) -> WrittenVersions {
        WrittenVersions {
            ground: Arc::clone(ground),
            versions: Arc::clone(versions),
            table: Mutex::default(),
        }
    }

    /// Something has been staged: the container is held until it is committed.
    pub(crate) fn remember(&self, version: &Arc<ContainerVersion>) {
        if self.lock().contains_key(&version.id) {
            return;
        }
        self.ground.places.hold(version.container);
        let before = self.lock().insert(version.id, Arc::clone(version));
        if before.is_some() {
            self.versions.let_go(version.container);
        }
    }

    /// Lets go of a container of which nothing is staged any more.
    pub(crate) fn forget(&self, version: &ContainerVersion) {
        let now = version.writes.now();
        let is_clean = || now.as_ref().is_none_or(|now| now.stage.is_clean());
        let mut staged = self.lock();
        let is_removed = is_clean() && staged.remove(&version.id).is_some();
        drop(staged);
        if is_removed {
            self.versions.let_go(version.container);
        }
    }

    /// Containers with something staged. A removed container does not count: bytes written through
    /// its handles are seen by those handles alone.
    pub(crate) fn all(&self) -> Vec<(ContainerId, Arc<ContainerVersion>)> {
        let staged: Vec<_> = self.lock().values().map(Arc::clone).collect();
        let there = staged.into_iter();
        let there = there.filter(|version| !self.ground.is_removed(version));
        there.map(|version| (version.container, version)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<VersionId, Arc<ContainerVersion>>> {
        self.table.lock()
    }
}
