//! The inodes that the kernel knows, behind their lock. Names that are moved and removed through
//! the mount are the business of `links`. Used by all of `tree`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::node::Node;
use super::id::{Dirent, InodeId, NameIn};
use super::table::{Inode, InodeKey, InodeTable};
use crate::cache::VersionId;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::live::shown::entry_table::EntryIndex;
use crate::memory::budget::{Budget, TableCharge};
use crate::memory::{is_short, no_memory};
use crate::source::{FileKind, Stat};
use crate::sync::{Mutex, MutexGuard};

/// What a container takes that was looked into, when it is closed: its node and its version.
const CONTAINER: u64 = 2000;

pub(crate) struct Inodes {
    table: Mutex<InodeTable>,
    charge: TableCharge,
    /// What of the source the root shows.
    root: PathBuf,
}

impl Inodes {
    /// `path`: of the entry of the source that the root shows.
    pub(crate) fn new(root: Node, path: &Path, budget: &Arc<Budget>) -> Self {
        Inodes {
            table: Mutex::new(InodeTable::new(root)),
            charge: TableCharge::new(Arc::clone(budget)),
            root: path.to_owned(),
        }
    }

    pub(crate) fn get(&self, inode: InodeId) -> Result<Arc<Node>> {
        let table = self.lock();
        table.get(inode).map(Inode::node).ok_or(Error::NotFound)
    }

    /// Where in the source an inode lies, by each of its names: the one looked up last comes first.
    /// Others may have moved it away meanwhile. Nowhere, if the table has no name of it any more.
    pub(crate) fn paths(&self, inode: InodeId) -> Vec<PathBuf> {
        if inode == InodeId::ROOT {
            return vec![self.root.clone()];
        }
        let table = self.lock();
        let newest_first = table.get(inode).into_iter().flat_map(Inode::links);
        newest_first
            .filter_map(|link| table.path(link, &self.root))
            .collect()
    }

    /// Where an inode with one name lies.
    pub(crate) fn path(&self, inode: InodeId) -> Result<PathBuf> {
        let first = self.paths(inode).into_iter().next();
        first.ok_or(Error::NotFound)
    }

    /// The directory in which an inode was looked up last.
    pub(crate) fn parent(&self, inode: InodeId) -> Option<InodeId> {
        let table = self.lock();
        Some(table.get(inode)?.last_link()?.parent)
    }

    /// The directories above an inode, by whichever of its names.
    pub(crate) fn above(&self, inode: InodeId) -> Vec<InodeId> {
        self.lock().above(inode)
    }

    /// Forgets the names of an inode that lead elsewhere by now: all whose paths are not among
    /// these.
    pub(crate) fn keep_names(&self, inode: InodeId, paths: &[PathBuf]) {
        let mut table = self.lock();
        let leads_there = |link: &NameIn<'_>| {
            let path = table.path(*link, &self.root);
            path.is_some_and(|path| paths.contains(&path))
        };
        let links = table.get(inode).into_iter().flat_map(Inode::links);
        let kept: Vec<Dirent> = links.filter(leads_there).map(Dirent::from).collect();
        if let Some(inode) = table.get_mut(inode)
            && !kept.is_empty()
        {
            inode.keep_links(&mut |link| kept.iter().any(|kept| kept.link() == link));
        }
    }

    /// The inode of what `node` stands for, and the node that it has; `node` itself if it has none
    /// yet. Counts one look-up. ENOMEM if the table cannot grow.
    pub(crate) fn enter(&self, link: Dirent, node: Node) -> Result<(InodeId, Arc<Node>)> {
        let mut table = self.lock();
        let known = InodeKey::of(&node, Some(link.link())).and_then(|key| table.find(key));
        if let Some(id) = known
            && let Some(inode) = table.get_mut(id)
        {
            inode.lookups += 1;
            inode.add_link(&link);
            return Ok((id, inode.node()));
        }
        if is_short() {
            return Err(no_memory("cannot remember an entry"));
        }
        table.try_reserve()?;
        let taken = memory_of(&node);
        let entered = Arc::new(node.clone());
        let id = table.insert(node, &link);
        drop(table);
        self.charge.add(taken);
        Ok((id, entered))
    }

    /// A directory is shown as a container from now on, or a container as a directory. What lies in
    /// it keeps its inodes.
    pub(crate) fn becomes(&self, id: InodeId, node: Node) -> Result<()> {
        let mut table = self.lock();
        table.try_reserve()?;
        let inode = table.get(id).ok_or(Error::NotFound)?;
        inode.last_link().ok_or(Error::NotFound)?;
        let (before, now) = (memory_of(&inode.node), memory_of(&node));
        table.drop_key(id);
        if let Some(inode) = table.get_mut(id) {
            inode.node = node;
        }
        table.add_key(id);
        drop(table);
        self.charge.add(now);
        self.charge.remove(before);
        Ok(())
    }

    /// Keeps an inode, and the directories above it, until [`Inodes::let_go`]: one look-up more.
    pub(crate) fn hold(&self, id: InodeId) {
        let mut table = self.lock();
        if let Some(inode) = table.get_mut(id) {
            inode.lookups += 1;
            *table.held.entry(id).or_default() += 1;
        }
    }

    /// Keeps an inode no longer, of which the caller takes the look-up back. Returns the
    /// directories above it that the kernel has forgotten meanwhile, and that go now.
    pub(crate) fn let_go(&self, id: InodeId) -> Vec<InodeId> {
        let mut table = self.lock();
        let above = table.above(id);
        if let Some(count) = table.held.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                table.held.remove(&id);
            }
        }
        drop(table);
        let is_gone = |above: &InodeId| self.forget(*above, 0).is_some();
        above.into_iter().filter(is_gone).collect()
    }

    /// Whether an inode that is kept has no name any more. The root never had one.
    pub(crate) fn is_unnamed(&self, id: InodeId) -> bool {
        let table = self.lock();
        let inode = table.get(id).filter(|_| id != InodeId::ROOT);
        inode.is_some_and(|inode| inode.links().next().is_none())
    }

    /// Takes back look-ups; returns the node if these were the last.
    pub(crate) fn forget(&self, id: InodeId, count: u64) -> Option<Arc<Node>> {
        let mut table = self.lock();
        let inode = table.get_mut(id)?;
        inode.lookups = inode.lookups.saturating_sub(count);
        if inode.lookups > 0 || id == InodeId::ROOT || table.is_above_held(id) {
            return None;
        }
        let gone = table.remove(id)?;
        drop(table);
        self.charge.remove(memory_of(&gone.node));
        Some(gone.node())
    }

    /// Forgets all of them: nodes of containers refer to their places, and by these to this table.
    pub(crate) fn clear(&self) {
        let nothing = InodeTable::new(Node::Unseen(FileKind::Directory));
        let gone = std::mem::replace(&mut *self.lock(), nothing);
        drop(gone);
    }

    /// All inodes that the kernel knows.
    pub(crate) fn all(&self) -> Vec<InodeId> {
        self.lock().iter().map(|(id, _)| id).collect()
    }

    /// The name under which an inode was looked up last.
    pub(crate) fn link(&self, inode: InodeId) -> Option<Dirent> {
        let table = self.lock();
        table.get(inode)?.last_link().map(Dirent::from)
    }

    /// Inodes of a version that the kernel knows, with their names.
    pub(crate) fn of_version(&self, version: VersionId) -> Vec<(InodeId, Vec<Dirent>)> {
        let table = self.lock();
        let of = |inode: &Inode| matches!(&inode.node, Node::Entry(v, _) if v.id == version);
        let known = table.iter().filter(|(_, inode)| of(inode));
        known
            .map(|(id, inode)| (id, inode.links().map(Dirent::from).collect()))
            .collect()
    }

    /// The inode of an entry of a version, if the kernel knows it.
    pub(crate) fn of_entry(&self, (version, entry): (VersionId, EntryIndex)) -> Option<InodeId> {
        self.lock().find(InodeKey::Entry(version, entry))
    }

    /// What a file was recognised as, if it is still the same file.
    pub(crate) fn recall(&self, link: &Dirent, stat: &Stat) -> Option<Option<Recognised>> {
        let keys = [
            InodeKey::Container(link.link(), FileKind::File),
            InodeKey::Stored(stat.id, stat.mount, FileKind::File),
        ];
        let table = self.lock();
        // Under another name it may be something else.
        let known = |key: InodeKey<'_>| {
            let inode = table.get(table.find(key)?)?;
            inode.has_link(link.link()).then(|| inode.node.clone())
        };
        let node = keys.into_iter().find_map(known)?;
        // The table is a leaf in the order of locks: a node's own are not taken while it is held.
        drop(table);
        node.recall(stat.identity())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, InodeTable> {
        self.table.lock()
    }
}

/// What the kernel's knowing an inode costs: documented in docs/operations.md, and measured by
/// tests.
fn memory_of(node: &Node) -> u64 {
    match node {
        Node::Entry(..) => 150,
        Node::File(_) | Node::Directory(_) | Node::Special(..) | Node::Unseen(_) => 300,
        Node::Container(_) => CONTAINER,
    }
}
