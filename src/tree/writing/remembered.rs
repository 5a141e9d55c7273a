//! Which containers have something staged: none of them is forgotten before it is committed, whatever the kernel forgets.
//!
//! Whoever stages something says so afterwards ([`Tree::remember_staged`]), and a commit takes a container out only if nothing is
//! staged under the lock of the list: so nothing is ever staged of a container that is not in it once the write returns. Nothing but
//! the layers of a stage is looked at under that lock, and never the table of inodes. Used by [`super`], `status` and unmounting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Tree;
use super::super::inode::InodeId;
use super::super::version::ContainerVersion;
use crate::cache::VersionId;

/// Of one container there may be several: one for each version that somebody has staged something of.
#[derive(Default)]
pub(in crate::tree) struct StagedVersions(Mutex<HashMap<VersionId, Arc<ContainerVersion>>>);

impl StagedVersions {
    fn lock(&self) -> MutexGuard<'_, HashMap<VersionId, Arc<ContainerVersion>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, version: &ContainerVersion) -> bool {
        self.lock().contains_key(&version.id)
    }

    /// False if it is there already.
    fn add(&self, version: &Arc<ContainerVersion>) -> bool {
        let before = self.lock().insert(version.id, Arc::clone(version));
        before.is_none()
    }

    /// False if it stays, or was not there.
    fn remove_if(&self, version: &ContainerVersion, is_clean: impl FnOnce() -> bool) -> bool {
        let mut staged = self.lock();
        is_clean() && staged.remove(&version.id).is_some()
    }
}

impl Tree {
    /// Something has been staged: the inode is held until it is committed.
    pub(super) fn remember_staged(&self, version: &Arc<ContainerVersion>) {
        if self.staged.has(version) {
            return;
        }
        self.inodes.hold(version.container);
        if !self.staged.add(version) {
            self.forget(version.container, 1);
        }
    }

    /// Lets go of a container of which nothing is staged any more.
    pub(super) fn forget_staged(&self, version: &ContainerVersion) {
        let now = version.staged.now();
        let is_clean = || now.as_ref().is_none_or(|now| now.stage.is_clean());
        if self.staged.remove_if(version, is_clean) {
            self.forget(version.container, 1);
        }
    }

    /// Containers with something staged.
    pub(in crate::tree) fn all_staged(&self) -> Vec<(InodeId, Arc<ContainerVersion>)> {
        let staged = self.staged.lock();
        let each = staged.values();
        each.map(|version| (version.container, Arc::clone(version)))
            .collect()
    }
}
