//! Inode numbers, and the nodes they stand for.
//!
//! A number lives as long as the kernel refers to it (its look-ups are counted) and is never used for
//! anything else. Used by `tree` alone.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::EntryIndex;
use super::version::Version;
use crate::cache::VersionId;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::source::{FileId, FileIdentity, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeId(pub u64);

impl InodeId {
    pub const ROOT: InodeId = InodeId(1);
}

/// Where a node lies.
pub(super) enum Place {
    /// In the source, by its path there; a container or shown as it is.
    Source {
        path: PathBuf,
        /// Of an ordinary file: another one at this path is another inode.
        file: Option<FileId>,
    },
    /// In one version of a container.
    Inside {
        version: Arc<Version>,
        entry: EntryIndex,
    },
}

/// What makes two look-ups find the same inode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Source {
        path: PathBuf,
        kind: Kind,
    },
    File {
        path: PathBuf,
        id: FileId,
    },
    Container {
        path: PathBuf,
        kind: Kind,
    },
    Inside {
        version: VersionId,
        entry: EntryIndex,
    },
}

pub(super) struct Node {
    pub(super) place: Place,
    /// Kind of the stored entry; a container that is a file keeps `File` here.
    pub(super) kind: Kind,
    container: Mutex<Option<ContainerState>>,
    /// Identity when it was last recognised.
    seen: Mutex<Option<FileIdentity>>,
    /// Identity when it was last opened: tells whether the kernel's cached pages still hold.
    read: Mutex<Option<FileIdentity>>,
    is_container: bool,
}

/// A container node's format and the version that is shown.
pub(super) struct ContainerState {
    pub(super) recognised: Recognised,
    pub(super) version: Option<Arc<Version>>,
}

impl Node {
    pub(super) fn new(place: Place, kind: Kind, recognised: Option<Recognised>) -> Self {
        let is_container = recognised.is_some();
        let state = recognised.map(|recognised| ContainerState {
            recognised,
            version: None,
        });
        Node {
            place,
            kind,
            container: Mutex::new(state),
            seen: Mutex::default(),
            read: Mutex::default(),
            is_container,
        }
    }

    pub(super) fn is_container(&self) -> bool {
        self.is_container
    }

    /// Whether it is a container that somebody has looked into.
    pub(super) fn is_opened(&self) -> bool {
        let container = self.container();
        container
            .as_ref()
            .is_some_and(|known| known.version.is_some())
    }

    pub(super) fn container(&self) -> MutexGuard<'_, Option<ContainerState>> {
        self.container
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the entry was recognised as, and the identity that it had then.
    pub(super) fn recognised_as(&self, recognised: Option<Recognised>, identity: FileIdentity) {
        let mut container = self.container();
        if let (Some(state), Some(recognised)) = (container.as_mut(), recognised) {
            state.recognised = recognised;
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    /// Notes that the file is opened as `identity` and says whether it was the same the last time.
    pub(super) fn content_unchanged(&self, identity: FileIdentity) -> bool {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.replace(identity) == Some(identity)
    }

    pub(super) fn seen(&self) -> Option<FileIdentity> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recall(&self, identity: FileIdentity) -> Option<Option<Recognised>> {
        (self.seen() == Some(identity)).then(|| {
            self.container()
                .as_ref()
                .map(|state| state.recognised.clone())
        })
    }
}

struct Inode {
    node: Arc<Node>,
    key: Key,
    name: OsString,
    lookups: u64,
}

#[derive(Default)]
struct Table {
    inodes: HashMap<InodeId, Inode>,
    by_key: HashMap<Key, InodeId>,
    next: u64,
}

pub(super) struct Inodes {
    table: Mutex<Table>,
}

impl Inodes {
    pub(super) fn new(root: Node) -> Self {
        let mut table = Table {
            next: InodeId::ROOT.0 + 1,
            ..Table::default()
        };
        let key = Key::Source {
            path: PathBuf::new(),
            kind: root.kind,
        };
        let root = Inode {
            node: Arc::new(root),
            key,
            name: OsString::new(),
            lookups: 1,
        };
        table.inodes.insert(InodeId::ROOT, root);
        Inodes {
            table: Mutex::new(table),
        }
    }

    pub(super) fn get(&self, inode: InodeId) -> Result<Arc<Node>> {
        let table = self.lock();
        table
            .inodes
            .get(&inode)
            .map(|i| Arc::clone(&i.node))
            .ok_or(Error::NotFound)
    }

    /// The inode of `key`, made by `node` if there is none; counts one look-up.
    pub(super) fn enter(&self, key: Key, name: &OsStr, node: impl FnOnce() -> Node) -> InodeId {
        let mut table = self.lock();
        if let Some(&id) = table.by_key.get(&key)
            && let Some(inode) = table.inodes.get_mut(&id)
        {
            inode.lookups += 1;
            return id;
        }
        let id = InodeId(table.next);
        table.next += 1;
        table.by_key.insert(key.clone(), id);
        let inode = Inode {
            node: Arc::new(node()),
            key,
            name: name.to_owned(),
            lookups: 1,
        };
        table.inodes.insert(id, inode);
        id
    }

    /// Takes back look-ups; returns the node if these were the last.
    pub(super) fn forget(&self, id: InodeId, count: u64) -> Option<Arc<Node>> {
        let mut table = self.lock();
        let inode = table.inodes.get_mut(&id)?;
        inode.lookups = inode.lookups.saturating_sub(count);
        if inode.lookups > 0 || id == InodeId::ROOT {
            return None;
        }
        let gone = table.inodes.remove(&id)?;
        table.by_key.remove(&gone.key);
        Some(gone.node)
    }

    /// Inodes of a version that the kernel knows, with their names.
    pub(super) fn of_version(&self, version: VersionId) -> Vec<(InodeId, OsString)> {
        let table = self.lock();
        let of =
            |inode: &Inode| matches!(inode.key, Key::Inside { version: v, .. } if v == version);
        let known = table.inodes.iter().filter(|(_, inode)| of(inode));
        known.map(|(id, inode)| (*id, inode.name.clone())).collect()
    }

    /// What a file was recognised as, if it is still the same file.
    pub(super) fn recall(&self, path: &Path, identity: FileIdentity) -> Option<Option<Recognised>> {
        let table = self.lock();
        let path = path.to_owned();
        let keys = [
            Key::Container {
                path: path.clone(),
                kind: Kind::File,
            },
            Key::File {
                path,
                id: identity.id(),
            },
        ];
        let id = keys.iter().find_map(|key| table.by_key.get(key))?;
        let node = Arc::clone(&table.inodes.get(id)?.node);
        // The table is a leaf in the order of locks: a node's own are not taken while it is held.
        drop(table);
        node.recall(identity)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
