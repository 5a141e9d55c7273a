//! The table of inodes: compact, because the kernel decides how many there are.
//!
//! An inode that stands for an entry of a container takes at most 150 bytes here, its share of both
//! tables included; one of a file 300 with its `OrdinaryFile`. So a node is two words, names are
//! kept without a list as long as there is one, and a key is made of what an inode has, not kept
//! beside it. Assumes that a key does not change while it can be found: [`InodeTable::drop_key`]
//! comes first. Used by [`super`] and `links`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashTable;

use super::super::node::Node;
use super::id::{Dirent, InodeId, NameIn};
use super::short_name::ShortName;
use crate::cache::VersionId;
use crate::commit::added::added_path;
use crate::commit::drafts::drafts_path;
use crate::error::Result;
use crate::live::shown::entry_table::EntryIndex;
use crate::memory::no_memory;
use crate::source::{FileId, FileKind, MountId, Stat};

/// What makes two look-ups find the same inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InodeKey<'a> {
    /// A file of the source, whatever its name. Through another mount it is another one: the kernel
    /// lets a directory be in one place only.
    Stored(FileId, MountId, FileKind),
    /// Whichever container has this name, as long as it is a file or a directory: a container is a
    /// directory in the mount, so that of a file with two names is two.
    Container(NameIn<'a>, FileKind),
    /// What could not be looked at when it was listed.
    Unseen(NameIn<'a>, FileKind),
    /// Each version of a container has inodes of its own.
    Entry(VersionId, EntryIndex),
}

pub(crate) struct Inode {
    id: InodeId,
    pub(crate) node: Node,
    /// The name under which it was looked up last. The root has none.
    newest: Option<KeptLink>,
    rest: Option<Box<RestOfInode>>,
    pub(crate) lookups: u64,
}

struct KeptLink {
    parent: InodeId,
    name: ShortName,
}

/// What few inodes have.
#[derive(Default)]
struct RestOfInode {
    /// Other names.
    older: Vec<KeptLink>,
    /// What it was like when its last name was removed through the mount.
    removed: Option<Stat>,
}

/// Of a file with more names those count that were looked up last.
const MOST_LINKS: usize = 16;

/// Numbers of what has none in the source begin here: few file systems have so many files, and
/// programs that know but 32 bits of a number can still open arrays.
const FIRST_OWN: u64 = 1 << 31;

pub(crate) struct InodeTable {
    inodes: HashTable<Box<Inode>>,
    by_key: HashTable<InodeId>,
    hasher: RandomState,
    /// Inodes that are kept whatever the kernel forgets, with how often: their directories are,
    /// too.
    pub(crate) held: BTreeMap<InodeId, usize>,
    /// The next number of what has none in the source.
    next: u64,
    /// The file system of the source: files of others that are mounted in it could have the same
    /// numbers.
    device: u64,
}

impl<'a> InodeKey<'a> {
    /// None: it goes by its name, and has none.
    pub(crate) fn of(node: &Node, link: Option<NameIn<'a>>) -> Option<InodeKey<'a>> {
        Some(match node {
            Node::Directory(at) => InodeKey::Stored(at.id, at.mount, FileKind::Directory),
            Node::Special(at, kind) => InodeKey::Stored(at.id, at.mount, *kind),
            Node::Unseen(kind) => InodeKey::Unseen(link?, *kind),
            Node::File(file) => InodeKey::Stored(file.at.id, file.at.mount, FileKind::File),
            Node::Container(container) => InodeKey::Container(link?, container.stored),
            Node::Entry(version, entry) => InodeKey::Entry(version.id, *entry),
        })
    }

    /// Whether it is found by its name, not by the file.
    pub(crate) fn is_by_name(&self) -> bool {
        matches!(self, InodeKey::Container(..) | InodeKey::Unseen(..))
    }
}

impl KeptLink {
    fn new(link: &Dirent) -> KeptLink {
        KeptLink {
            parent: link.parent,
            name: ShortName::new(&link.name),
        }
    }

    fn link(&self) -> NameIn<'_> {
        NameIn {
            parent: self.parent,
            name: self.name.as_os_str(),
        }
    }
}

impl Inode {
    pub(crate) fn new(id: InodeId, node: Node, link: Option<&Dirent>) -> Inode {
        Inode {
            id,
            node,
            newest: link.map(KeptLink::new),
            rest: None,
            lookups: 1,
        }
    }

    pub(crate) fn key(&self) -> Option<InodeKey<'_>> {
        InodeKey::of(&self.node, self.last_link())
    }

    pub(crate) fn node(&self) -> Arc<Node> {
        Arc::new(self.node.clone())
    }

    /// The name under which it was looked up last.
    pub(crate) fn last_link(&self) -> Option<NameIn<'_>> {
        self.newest.as_ref().map(KeptLink::link)
    }

    /// Its names, the one looked up last first.
    pub(crate) fn links(&self) -> impl Iterator<Item = NameIn<'_>> {
        let older = self.rest.iter().flat_map(|rest| rest.older.iter().rev());
        self.newest.iter().chain(older).map(KeptLink::link)
    }

    pub(crate) fn has_link(&self, link: NameIn<'_>) -> bool {
        self.links().any(|known| known == link)
    }

    pub(crate) fn add_link(&mut self, link: &Dirent) {
        self.note_removed(None);
        if self.last_link() == Some(link.link()) {
            return;
        }
        if matches!(self.node, Node::Directory(_)) {
            self.keep_links(&mut |_| false);
        }
        self.drop_link(link.link());
        if let Some(before) = self.newest.replace(KeptLink::new(link)) {
            let older = &mut self.rest.get_or_insert_default().older;
            older.push(before);
            if older.len() >= MOST_LINKS {
                older.remove(0);
            }
        }
    }

    pub(crate) fn drop_link(&mut self, link: NameIn<'_>) {
        self.keep_links(&mut |known| known != link);
    }

    pub(crate) fn keep_links(&mut self, keep: &mut dyn FnMut(NameIn<'_>) -> bool) {
        if let Some(rest) = &mut self.rest {
            rest.older.retain(|link| keep(link.link()));
        }
        if self.newest.take_if(|link| !keep(link.link())).is_some() {
            self.newest = self.rest.as_mut().and_then(|rest| rest.older.pop());
        }
    }

    pub(crate) fn removed(&self) -> Option<&Stat> {
        self.rest.as_ref()?.removed.as_ref()
    }

    pub(crate) fn note_removed(&mut self, last: Option<Stat>) {
        match last {
            Some(last) => self.rest.get_or_insert_default().removed = Some(last),
            None => {
                if let Some(rest) = &mut self.rest {
                    rest.removed = None;
                }
            }
        }
    }

    /// Where that lies of which something is looked for: files that are shown in a container lie in
    /// a directory beside it.
    fn holds_at(&self, path: PathBuf) -> PathBuf {
        match self.node.container() {
            Some(container) if container.new.is_new() => drafts_path(&path),
            Some(container) if container.stored == FileKind::File => added_path(&path),
            _ => path,
        }
    }
}

impl InodeTable {
    pub(crate) fn new(root: Node) -> InodeTable {
        let mut table = InodeTable {
            inodes: HashTable::new(),
            by_key: HashTable::new(),
            hasher: RandomState::new(),
            held: BTreeMap::new(),
            next: FIRST_OWN,
            device: root.file().map_or(0, |file| file.device),
        };
        // It is found by no key.
        table.put(Inode::new(InodeId::ROOT, root, None));
        table
    }

    pub(crate) fn get(&self, id: InodeId) -> Option<&Inode> {
        let found = self.inodes.find(self.hasher.hash_one(id), |i| i.id == id);
        found.map(|inode| &**inode)
    }

    pub(crate) fn get_mut(&mut self, id: InodeId) -> Option<&mut Inode> {
        let hash = self.hasher.hash_one(id);
        let found = self.inodes.find_mut(hash, |inode| inode.id == id);
        found.map(|inode| &mut **inode)
    }

    pub(crate) fn find(&self, key: InodeKey<'_>) -> Option<InodeId> {
        let is_it = |id: &InodeId| self.get(*id).and_then(Inode::key) == Some(key);
        self.by_key
            .find(self.hasher.hash_one(Some(key)), is_it)
            .copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (InodeId, &Inode)> {
        self.inodes.iter().map(|inode| (inode.id, &**inode))
    }

    /// Room for one more.
    pub(crate) fn try_reserve(&mut self) -> Result<()> {
        let InodeTable {
            inodes,
            by_key,
            hasher,
            ..
        } = self;
        let by_id = by_id(hasher);
        let keys = by_key.try_reserve(1, |&id| key_hash(inodes, hasher, id));
        let room = keys.and_then(|()| inodes.try_reserve(1, by_id));
        room.map_err(|_| no_memory("cannot remember an entry"))
    }

    /// A new inode of what is found by its key from now on.
    pub(crate) fn insert(&mut self, node: Node, link: &Dirent) -> InodeId {
        let id = self.number(InodeKey::of(&node, Some(link.link())));
        self.put(Inode::new(id, node, Some(link)));
        self.add_key(id);
        id
    }

    fn put(&mut self, inode: Inode) {
        let hash = self.hasher.hash_one(inode.id);
        let inode = Box::new(inode);
        self.inodes.insert_unique(hash, inode, by_id(&self.hasher));
    }

    pub(crate) fn remove(&mut self, id: InodeId) -> Option<Box<Inode>> {
        self.drop_key(id);
        let hash = self.hasher.hash_one(id);
        let found = self.inodes.find_entry(hash, |inode| inode.id == id);
        found.ok().map(|entry| entry.remove().0)
    }

    /// It is found by its key from now on, and what was found by the same one is not.
    pub(crate) fn add_key(&mut self, id: InodeId) {
        let Some(key) = self.get(id).and_then(Inode::key) else {
            return;
        };
        if let Some(before) = self.find(key) {
            self.drop_key(before);
        }
        let InodeTable {
            inodes,
            by_key,
            hasher,
            ..
        } = self;
        let hash = key_hash(inodes, hasher, id);
        by_key.insert_unique(hash, id, |&id| key_hash(inodes, hasher, id));
    }

    /// It is not found by its key any more, which may change.
    pub(crate) fn drop_key(&mut self, id: InodeId) {
        let hash = key_hash(&self.inodes, &self.hasher, id);
        if let Ok(entry) = self.by_key.find_entry(hash, |&known| known == id) {
            entry.remove();
        }
    }

    /// A number for a new inode.
    fn number(&mut self, key: Option<InodeKey<'_>>) -> InodeId {
        if let Some(InodeKey::Stored(file, ..)) = key
            && file.device == self.device
            && file.inode > InodeId::ROOT.0
            && self.get(InodeId(file.inode)).is_none()
        {
            return InodeId(file.inode);
        }
        while self.get(InodeId(self.next)).is_some() {
            self.next += 1;
        }
        self.next += 1;
        InodeId(self.next - 1)
    }

    /// The path of a link, if all directories above it are in the table.
    pub(crate) fn path(&self, link: NameIn<'_>, root: &Path) -> Option<PathBuf> {
        let (mut at, mut names) = (link, vec![(link.name, None)]);
        while at.parent != InodeId::ROOT {
            let above = self.get(at.parent)?;
            at = above.last_link()?;
            names.push((at.name, Some(above)));
            // What others move meanwhile could lead in a circle.
            if names.len() > self.inodes.len() {
                return None;
            }
        }
        let root = self.get(InodeId::ROOT)?.holds_at(root.to_owned());
        let below = names.into_iter().rev();
        Some(below.fold(root, |path, (name, above)| match above {
            Some(above) => above.holds_at(path.join(name)),
            None => path.join(name),
        }))
    }

    /// Whether a directory lies above an inode that is kept.
    pub(crate) fn is_above_held(&self, id: InodeId) -> bool {
        let directory = self
            .get(id)
            .is_some_and(|inode| matches!(inode.node, Node::Directory(_)));
        let mut held = self.held.keys();
        directory && held.any(|held| self.above(*held).contains(&id))
    }

    /// The directories above an inode, by all names in the table.
    pub(crate) fn above(&self, inode: InodeId) -> Vec<InodeId> {
        let (mut above, mut next) = (Vec::new(), vec![inode]);
        while let Some(at) = next.pop() {
            for link in self.get(at).into_iter().flat_map(Inode::links) {
                if !above.contains(&link.parent) {
                    above.push(link.parent);
                    next.push(link.parent);
                }
            }
        }
        above
    }
}

/// Of an inode's number.
fn by_id<I: AsRef<Inode>>(hasher: &RandomState) -> impl Fn(&I) -> u64 {
    |inode| hasher.hash_one(inode.as_ref().id)
}

/// Of an inode's key; any number, if it has none.
fn key_hash(inodes: &HashTable<Box<Inode>>, hasher: &RandomState, id: InodeId) -> u64 {
    let inode = inodes.find(hasher.hash_one(id), |inode| inode.id == id);
    hasher.hash_one(inode.and_then(|inode| inode.key()))
}
