//! Containers of which entries have been removed, each by itself, and which are there still.
//!
//! Such an entry comes back when the mount ends; arrays are reported by name. Used by
//! `writing::removal`, and by the
//! daemon when it ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use crate::live::version::ContainerVersion;
use crate::sync::Mutex;

/// Remembers what has been removed.
pub struct HalfRemoved {
    fs: Arc<MountedFs>,
    /// Versions of which entries have been removed, by the inodes of their containers.
    versions: Mutex<HashMap<InodeId, Arc<ContainerVersion>>>,
}

impl HalfRemoved {
    pub(super) fn new(fs: &Arc<MountedFs>) -> HalfRemoved {
        let (fs, versions) = (Arc::clone(fs), Mutex::default());
        HalfRemoved { fs, versions }
    }

    /// What was removed of a container is remembered as long as the mount lives, whatever the
    /// kernel forgets.
    pub(super) fn remember(&self, version: &Arc<ContainerVersion>) {
        let container = version.container.into();
        let before = self.versions.lock().insert(container, Arc::clone(version));
        if before.is_none() {
            self.fs.inodes.hold(container);
        }
    }

    /// Arrays that were removed, each by itself, of containers that are still there: they come back
    /// when the mount ends.
    pub fn arrays(&self) -> Vec<PathBuf> {
        let mut arrays = Vec::new();
        for (inode, version) in self.all() {
            if let Ok(path) = self.fs.inodes.path(inode) {
                let names = self.removed_arrays(inode, &version).into_iter();
                arrays.extend(names.map(|name| self.fs.store.display(&path.join(name))));
            }
        }
        arrays.sort();
        arrays
    }

    /// Arrays that were removed, each by itself, of one container, as they are called in it.
    pub(crate) fn arrays_of(&self, container: InodeId) -> Vec<String> {
        let all = self.all().into_iter();
        let own = all.filter(|(inode, _)| *inode == container);
        let names = own.flat_map(|(inode, version)| self.removed_arrays(inode, &version));
        let mut names: Vec<String> = names.map(|name| name.display().to_string()).collect();
        names.sort();
        names
    }

    fn removed_arrays(&self, inode: InodeId, version: &Arc<ContainerVersion>) -> Vec<PathBuf> {
        let is_shown = |node: &Node| {
            let known = node.container()?.known().version.clone();
            known.map(|known| Arc::ptr_eq(&known, version))
        };
        let node = self.fs.inodes.get(inode).ok();
        let (Some(true), Ok(opened)) = (
            node.and_then(|node| is_shown(&node)),
            self.fs.live.opener.open(version),
        ) else {
            return Vec::new();
        };
        let removed = version.tombstones.all().into_iter();
        let removed = removed.filter(|entry| opened.array_at(*entry).is_some());
        removed.filter_map(|entry| opened.path_of(entry)).collect()
    }

    /// The container is removed. Says whether it was among them.
    pub(super) fn remove(&self, container: InodeId) -> bool {
        self.versions.lock().remove(&container).is_some()
    }

    fn all(&self) -> Vec<(InodeId, Arc<ContainerVersion>)> {
        let all = self.versions.lock();
        let each = all.iter();
        each.map(|(inode, version)| (*inode, Arc::clone(version)))
            .collect()
    }
}
