//! Containers of which entries have been removed, each by itself, and which are there still.
//!
//! Such an entry comes back when the mount ends; arrays are reported by name. Used by
//! `writing::removal`.

use std::collections::HashMap;
use std::sync::Arc;

use super::inode::InodeId;
use crate::live::version::ContainerVersion;
use crate::sync::{Mutex, MutexGuard};

/// Versions of which entries have been removed, by the inodes of their containers.
#[derive(Default)]
pub(super) struct HalfRemoved(Mutex<HashMap<InodeId, Arc<ContainerVersion>>>);

impl HalfRemoved {
    /// Says whether the container was not among them.
    pub(super) fn insert(&self, container: InodeId, version: &Arc<ContainerVersion>) -> bool {
        let before = self.lock().insert(container, Arc::clone(version));
        before.is_none()
    }

    /// Says whether it was.
    pub(super) fn remove(&self, container: InodeId) -> bool {
        self.lock().remove(&container).is_some()
    }

    pub(super) fn all(&self) -> Vec<(InodeId, Arc<ContainerVersion>)> {
        let all = self.lock();
        let each = all.iter();
        each.map(|(inode, version)| (*inode, Arc::clone(version)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InodeId, Arc<ContainerVersion>>> {
        self.0.lock()
    }
}
