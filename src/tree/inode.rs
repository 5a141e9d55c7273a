//! Inode numbers: which there are, what each stands for, and when two look-ups find the same.
//!
//! A number lives as long as the kernel refers to it (its look-ups are counted) and is never used for
//! anything else. [`Inodes::enter`] is the one place where one is made. Used by `tree` alone.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry_table::EntryIndex;
use super::node::Node;
use crate::cache::VersionId;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::source::{FileId, FileIdentity, FileKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeId(pub u64);

impl InodeId {
    pub const ROOT: InodeId = InodeId(1);
}

/// What makes two look-ups find the same inode: where it lies, and what must be the same there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum InodeKey {
    /// A directory, or what is never opened: whichever is at this path.
    Path(PathBuf, FileKind),
    /// What could not be looked at when it was listed.
    Unseen(PathBuf, FileKind),
    /// This file, shown as it is.
    File(PathBuf, FileId),
    /// Whichever container is at this path, as long as it is a file or a directory there.
    Container(PathBuf, FileKind),
    /// Each version of a container has inodes of its own.
    Entry(VersionId, EntryIndex),
}

impl InodeKey {
    fn of(node: &Node) -> InodeKey {
        match node {
            Node::Directory(path) => InodeKey::Path(path.clone(), FileKind::Directory),
            Node::Special(path, kind) => InodeKey::Path(path.clone(), *kind),
            Node::Unseen(path, kind) => InodeKey::Unseen(path.clone(), *kind),
            Node::File(file) => InodeKey::File(file.path.clone(), file.id),
            Node::Container(at) => InodeKey::Container(at.path.clone(), at.stored),
            Node::Entry(version, entry) => InodeKey::Entry(version.id, *entry),
        }
    }
}

struct Inode {
    node: Arc<Node>,
    key: InodeKey,
    name: OsString,
    lookups: u64,
}

#[derive(Default)]
struct InodeTable {
    inodes: HashMap<InodeId, Inode>,
    by_key: HashMap<InodeKey, InodeId>,
    next: u64,
}

pub(super) struct Inodes {
    table: Mutex<InodeTable>,
}

impl Inodes {
    pub(super) fn new(root: Node) -> Self {
        let mut table = InodeTable {
            next: InodeId::ROOT.0 + 1,
            ..InodeTable::default()
        };
        let root = Inode {
            key: InodeKey::of(&root),
            node: Arc::new(root),
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
        let found = table.inodes.get(&inode);
        found
            .map(|inode| Arc::clone(&inode.node))
            .ok_or(Error::NotFound)
    }

    /// The inode of what `node` stands for, and the node that it has; `node` itself if it has none yet.
    /// Counts one look-up.
    pub(super) fn enter(&self, name: &OsStr, node: Node) -> (InodeId, Arc<Node>) {
        let key = InodeKey::of(&node);
        let mut table = self.lock();
        if let Some(&id) = table.by_key.get(&key)
            && let Some(inode) = table.inodes.get_mut(&id)
        {
            inode.lookups += 1;
            return (id, Arc::clone(&inode.node));
        }
        let id = InodeId(table.next);
        table.next += 1;
        table.by_key.insert(key.clone(), id);
        let node = Arc::new(node);
        let inode = Inode {
            node: Arc::clone(&node),
            key,
            name: name.to_owned(),
            lookups: 1,
        };
        table.inodes.insert(id, inode);
        (id, node)
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
        let of = |inode: &Inode| matches!(inode.key, InodeKey::Entry(v, _) if v == version);
        let known = table.inodes.iter().filter(|(_, inode)| of(inode));
        known.map(|(id, inode)| (*id, inode.name.clone())).collect()
    }

    /// What a file was recognised as, if it is still the same file.
    pub(super) fn recall(&self, path: &Path, identity: FileIdentity) -> Option<Option<Recognised>> {
        let path = path.to_owned();
        let keys = [
            InodeKey::Container(path.clone(), FileKind::File),
            InodeKey::File(path, identity.id()),
        ];
        let table = self.lock();
        let id = keys.iter().find_map(|key| table.by_key.get(key))?;
        let node = Arc::clone(&table.inodes.get(id)?.node);
        // The table is a leaf in the order of locks: a node's own are not taken while it is held.
        drop(table);
        node.recall(identity)
    }

    fn lock(&self) -> MutexGuard<'_, InodeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
