//! Inode numbers: which there are, what each stands for, under which names, and when two look-ups find the same.
//!
//! An inode is not a path. A file of the source is one inode under all its names, and what lies below a directory stays what
//! it is when the directory is moved. The names under which an inode was looked up are its links; paths are made of them
//! when they are needed. A number lives as long as the kernel refers to it (its look-ups are counted). A file of the source has
//! the number that it has there, so that programs which remember numbers (backups, version control) find it again;
//! everything else has one that nothing else has. [`Inodes::enter`] is the one place where one is made. Used by `tree` alone.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry_table::EntryIndex;
use super::node::Node;
use crate::cache::VersionId;
use crate::commit::drafts::drafts_path;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::memory::{is_short, no_memory};
use crate::source::{FileId, FileKind, MountId, Stat};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeId(pub u64);

impl InodeId {
    pub const ROOT: InodeId = InodeId(1);
}

/// A name in a directory of the mount.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Dirent {
    pub(super) parent: InodeId,
    pub(super) name: OsString,
}

impl Dirent {
    pub(super) fn new(parent: InodeId, name: &OsStr) -> Dirent {
        Dirent {
            parent,
            name: name.to_owned(),
        }
    }
}

/// What makes two look-ups find the same inode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum InodeKey {
    /// A file of the source, whatever its name. Through another mount it is another one: the kernel lets a directory be in
    /// one place only.
    Stored(FileId, MountId, FileKind),
    /// Whichever container has this name, as long as it is a file or a directory: a container is a directory
    /// in the mount, so that of a file with two names is two.
    Container(Dirent, FileKind),
    /// What could not be looked at when it was listed.
    Unseen(Dirent, FileKind),
    /// Each version of a container has inodes of its own.
    Entry(VersionId, EntryIndex),
}

impl InodeKey {
    fn of(node: &Node, link: &Dirent) -> InodeKey {
        match node {
            Node::Directory(at) => InodeKey::Stored(at.id, at.mount, FileKind::Directory),
            Node::Special(at, kind) => InodeKey::Stored(at.id, at.mount, *kind),
            Node::Unseen(kind) => InodeKey::Unseen(link.clone(), *kind),
            Node::File(file) => InodeKey::Stored(file.at.id, file.at.mount, FileKind::File),
            Node::Container(container) => InodeKey::Container(link.clone(), container.stored),
            Node::Entry(version, entry) => InodeKey::Entry(version.id, *entry),
        }
    }
}

pub(super) struct Inode {
    pub(super) node: Arc<Node>,
    pub(super) key: InodeKey,
    /// The one under which it was looked up last comes last. The root has none.
    pub(super) links: Vec<Dirent>,
    /// What it was like when its last name was removed through the mount.
    pub(super) removed: Option<Box<Stat>>,
    lookups: u64,
}

/// Of a file with more names those count that were looked up last.
const MOST_LINKS: usize = 16;

impl Inode {
    fn holds_drafts(&self) -> bool {
        let container = self.node.container();
        container.is_some_and(|container| container.new.is_new())
    }

    pub(super) fn add_link(&mut self, link: Dirent) {
        self.removed = None;
        if self.links.last() == Some(&link) {
            return;
        }
        let is_directory = matches!(self.key, InodeKey::Stored(_, _, FileKind::Directory));
        self.links.retain(|known| !is_directory && *known != link);
        if self.links.len() >= MOST_LINKS {
            self.links.remove(0);
        }
        self.links.push(link);
    }
}

/// Where that lies of which something else is looked for: what is in a new container is in a directory beside it.
fn in_source(path: PathBuf, holds_drafts: bool) -> PathBuf {
    match holds_drafts {
        true => drafts_path(&path),
        false => path,
    }
}

#[derive(Default)]
pub(super) struct InodeTable {
    pub(super) inodes: HashMap<InodeId, Inode>,
    pub(super) by_key: HashMap<InodeKey, InodeId>,
    /// The next number of what has none in the source.
    next: u64,
    /// The file system of the source: files of others that are mounted in it could have the same numbers.
    device: u64,
}

/// Numbers of what has none in the source begin here: few file systems have so many files, and programs that know but 32
/// bits of a number can still open arrays.
const FIRST_OWN: u64 = 1 << 31;

impl InodeTable {
    /// A number for a new inode.
    fn number(&mut self, key: &InodeKey) -> InodeId {
        if let InodeKey::Stored(file, ..) = key
            && file.device == self.device
            && file.inode > InodeId::ROOT.0
            && !self.inodes.contains_key(&InodeId(file.inode))
        {
            return InodeId(file.inode);
        }
        while self.inodes.contains_key(&InodeId(self.next)) {
            self.next += 1;
        }
        self.next += 1;
        InodeId(self.next - 1)
    }

    /// The path of a link, if all directories above it are known.
    fn path(&self, link: &Dirent, root: &Path) -> Option<PathBuf> {
        let (mut at, mut names) = (link, vec![(&link.name, false)]);
        while at.parent != InodeId::ROOT {
            let above = self.inodes.get(&at.parent)?;
            at = above.links.last()?;
            names.push((&at.name, above.holds_drafts()));
            // What others move meanwhile could lead in a circle.
            if names.len() > self.inodes.len() {
                return None;
            }
        }
        let holds_drafts = self.inodes.get(&InodeId::ROOT)?.holds_drafts();
        let root = in_source(root.to_owned(), holds_drafts);
        let below = names.into_iter().rev();
        Some(below.fold(root, |path, (name, holds)| {
            in_source(path.join(name), holds)
        }))
    }

    /// The directories above an inode, by all names that are known.
    fn above(&self, inode: InodeId) -> Vec<InodeId> {
        let (mut above, mut next) = (Vec::new(), vec![inode]);
        while let Some(at) = next.pop() {
            let known = self.inodes.get(&at).into_iter();
            for link in known.flat_map(|inode| &inode.links) {
                if !above.contains(&link.parent) {
                    above.push(link.parent);
                    next.push(link.parent);
                }
            }
        }
        above
    }
}

pub(super) struct Inodes {
    table: Mutex<InodeTable>,
    /// What of the source the root shows.
    root: PathBuf,
}

impl Inodes {
    /// `path`: of the entry of the source that the root shows.
    pub(super) fn new(root: Node, path: &Path) -> Self {
        let mut table = InodeTable {
            next: FIRST_OWN,
            device: root.file().map_or(0, |file| file.device),
            ..InodeTable::default()
        };
        let nowhere = Dirent::new(InodeId(0), OsStr::new(""));
        let root = Inode {
            key: InodeKey::of(&root, &nowhere),
            node: Arc::new(root),
            links: Vec::new(),
            removed: None,
            lookups: 1,
        };
        table.inodes.insert(InodeId::ROOT, root);
        Inodes {
            table: Mutex::new(table),
            root: path.to_owned(),
        }
    }

    pub(super) fn get(&self, inode: InodeId) -> Result<Arc<Node>> {
        let table = self.lock();
        let found = table.inodes.get(&inode);
        found
            .map(|inode| Arc::clone(&inode.node))
            .ok_or(Error::NotFound)
    }

    /// Where in the source an inode lies, by each of its names: the one looked up last comes first. Others may have moved
    /// it away meanwhile. Nowhere, if no name of it is known any more.
    pub(super) fn paths(&self, inode: InodeId) -> Vec<PathBuf> {
        if inode == InodeId::ROOT {
            return vec![self.root.clone()];
        }
        let table = self.lock();
        let links = table.inodes.get(&inode).map(|inode| inode.links.iter());
        let newest_first = links.into_iter().flatten().rev();
        newest_first
            .filter_map(|link| table.path(link, &self.root))
            .collect()
    }

    /// Where an inode with one name lies.
    pub(super) fn path(&self, inode: InodeId) -> Result<PathBuf> {
        let first = self.paths(inode).into_iter().next();
        first.ok_or(Error::NotFound)
    }

    /// The directory in which an inode was looked up last.
    pub(super) fn parent(&self, inode: InodeId) -> Option<InodeId> {
        let table = self.lock();
        let last = table.inodes.get(&inode)?.links.last();
        last.map(|link| link.parent)
    }

    /// The directories above an inode, by whichever of its names.
    pub(super) fn above(&self, inode: InodeId) -> Vec<InodeId> {
        self.lock().above(inode)
    }

    /// Forgets the names of an inode that lead elsewhere by now: all whose paths are not among these.
    pub(super) fn keep_names(&self, inode: InodeId, paths: &[PathBuf]) {
        let mut table = self.lock();
        let links = match table.inodes.get(&inode) {
            Some(inode) => inode.links.clone(),
            None => return,
        };
        let leads_there = |link: &Dirent| {
            let path = table.path(link, &self.root);
            path.is_some_and(|path| paths.contains(&path))
        };
        let kept: Vec<Dirent> = links.into_iter().filter(leads_there).collect();
        if let Some(inode) = table.inodes.get_mut(&inode)
            && !kept.is_empty()
        {
            inode.links = kept;
        }
    }

    /// The inode of what `node` stands for, and the node that it has; `node` itself if it has none yet.
    /// Counts one look-up. ENOMEM if the table cannot grow.
    pub(super) fn enter(&self, link: Dirent, node: Node) -> Result<(InodeId, Arc<Node>)> {
        let key = InodeKey::of(&node, &link);
        let mut table = self.lock();
        if let Some(&id) = table.by_key.get(&key)
            && let Some(inode) = table.inodes.get_mut(&id)
        {
            inode.lookups += 1;
            inode.add_link(link);
            return Ok((id, Arc::clone(&inode.node)));
        }
        let room = table.by_key.try_reserve(1);
        let room = room.and_then(|()| table.inodes.try_reserve(1));
        if room.is_err() || is_short() {
            return Err(no_memory("cannot remember an entry"));
        }
        let id = table.number(&key);
        table.by_key.insert(key.clone(), id);
        let node = Arc::new(node);
        let inode = Inode {
            node: Arc::clone(&node),
            key,
            links: vec![link],
            removed: None,
            lookups: 1,
        };
        table.inodes.insert(id, inode);
        Ok((id, node))
    }

    /// A directory is shown as a container from now on, or a container as a directory. What lies in it keeps its inodes.
    pub(super) fn becomes(&self, id: InodeId, node: Node) -> Result<()> {
        let mut table = self.lock();
        if table.by_key.try_reserve(1).is_err() {
            return Err(no_memory("cannot remember an entry"));
        }
        let inode = table.inodes.get_mut(&id).ok_or(Error::NotFound)?;
        let link = inode.links.last().ok_or(Error::NotFound)?;
        let key = InodeKey::of(&node, link);
        let old = std::mem::replace(&mut inode.key, key.clone());
        inode.node = Arc::new(node);
        if table.by_key.get(&old) == Some(&id) {
            table.by_key.remove(&old);
        }
        table.by_key.insert(key, id);
        Ok(())
    }

    /// Keeps an inode as long as it is not taken back: one look-up more.
    pub(super) fn hold(&self, id: InodeId) {
        if let Some(inode) = self.lock().inodes.get_mut(&id) {
            inode.lookups += 1;
        }
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
        // Another one may have its name by now.
        if table.by_key.get(&gone.key) == Some(&id) {
            table.by_key.remove(&gone.key);
        }
        Some(gone.node)
    }

    /// Everything that the kernel knows.
    pub(super) fn all(&self) -> Vec<InodeId> {
        self.lock().inodes.keys().copied().collect()
    }

    /// The name under which an inode was looked up last.
    pub(super) fn link(&self, inode: InodeId) -> Option<Dirent> {
        let table = self.lock();
        table.inodes.get(&inode)?.links.last().cloned()
    }

    /// Inodes of a version that the kernel knows, with their names.
    pub(super) fn of_version(&self, version: VersionId) -> Vec<(InodeId, Vec<Dirent>)> {
        let table = self.lock();
        let of = |inode: &Inode| matches!(inode.key, InodeKey::Entry(v, _) if v == version);
        let known = table.inodes.iter().filter(|(_, inode)| of(inode));
        known
            .map(|(id, inode)| (*id, inode.links.clone()))
            .collect()
    }

    /// What a file was recognised as, if it is still the same file.
    pub(super) fn recall(&self, link: &Dirent, stat: &Stat) -> Option<Option<Recognised>> {
        let keys = [
            InodeKey::Container(link.clone(), FileKind::File),
            InodeKey::Stored(stat.identity.id, stat.mount, FileKind::File),
        ];
        let table = self.lock();
        // Under another name it may be something else.
        let known = |key: &InodeKey| {
            let inode = table.inodes.get(table.by_key.get(key)?)?;
            let named = inode.links.contains(link);
            named.then(|| Arc::clone(&inode.node))
        };
        let node = keys.iter().find_map(known)?;
        // The table is a leaf in the order of locks: a node's own are not taken while it is held.
        drop(table);
        node.recall(stat.identity)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, InodeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
