//! Names that are moved and removed through the mount, in the table of inodes.
//!
//! What others do with names is found out at the next look-up; what we do is known, and the table follows at once: an
//! inode whose name has gone is found by its handles alone, and what is below a directory that was moved has moved with
//! it. Assumes that the change has been made in the source. Used by `writing`.

use std::sync::Arc;

use super::inode::{Dirent, InodeId, InodeKey, InodeTable, Inodes};
use super::node::Node;
use crate::source::Stat;

impl Inodes {
    /// The inode that a name leads to, if the kernel knows it by that name.
    pub(super) fn named(&self, link: &Dirent, stat: &Stat) -> Option<(InodeId, Arc<Node>)> {
        let table = self.lock();
        let id = table.known(link, stat)?;
        Some((id, Arc::clone(&table.inodes.get(&id)?.node)))
    }

    /// A name has gone. Returns the node that it led to. A file that has others is not gone with the last one that is known
    /// here, for these are not all: it is to be looked up by one of them.
    pub(super) fn unlinked(&self, link: &Dirent, stat: &Stat) -> Option<Arc<Node>> {
        let mut table = self.lock();
        let id = table.known(link, stat)?;
        let node = table.unlink(id, link);
        if let Some(inode) = table.inodes.get_mut(&id)
            && inode.links.is_empty()
            && !(inode.node.can_have_many_names() && stat.nlink > 1)
        {
            let mut last = stat.clone();
            last.nlink = 0;
            inode.removed = Some(Box::new(last));
        }
        node
    }

    /// What an inode was like whose last name has been removed: somebody may still stand in that directory.
    pub(super) fn removed(&self, inode: InodeId) -> Option<Stat> {
        let table = self.lock();
        table.inodes.get(&inode)?.removed.as_deref().cloned()
    }

    /// What had the name `from` has the name `to`; what had that before has been unlinked.
    pub(super) fn renamed(&self, from: &Dirent, to: &Dirent, stat: &Stat) {
        let mut table = self.lock();
        if let Some(id) = table.known(from, stat) {
            table.relink(id, from, to.clone());
        }
    }

    /// Two names lead to what the other one led to.
    pub(super) fn exchanged(&self, one: (&Dirent, &Stat), other: (&Dirent, &Stat)) {
        let mut table = self.lock();
        let ids = (table.known(one.0, one.1), table.known(other.0, other.1));
        // The keys of containers are their names: both go before one comes.
        for id in [ids.0, ids.1].into_iter().flatten() {
            table.drop_key(id);
        }
        if let Some(id) = ids.0 {
            table.relink(id, one.0, other.0.clone());
        }
        if let Some(id) = ids.1 {
            table.relink(id, other.0, one.0.clone());
        }
    }
}

impl InodeTable {
    fn known(&self, link: &Dirent, stat: &Stat) -> Option<InodeId> {
        let keys = [
            InodeKey::Stored(stat.identity.id, stat.mount, stat.kind),
            InodeKey::Container(link.clone(), stat.kind),
            InodeKey::Unseen(link.clone(), stat.kind),
        ];
        let named = |key: &InodeKey| {
            let id = self.by_key.get(key)?;
            let inode = self.inodes.get(id)?;
            inode.links.contains(link).then_some(*id)
        };
        keys.iter().find_map(named)
    }

    fn unlink(&mut self, id: InodeId, link: &Dirent) -> Option<Arc<Node>> {
        let inode = self.inodes.get_mut(&id)?;
        inode.links.retain(|known| known != link);
        let (node, is_by_name) = (Arc::clone(&inode.node), inode.key.is_by_name());
        if is_by_name {
            self.drop_key(id);
        }
        Some(node)
    }

    fn drop_key(&mut self, id: InodeId) {
        let Some(inode) = self.inodes.get(&id) else {
            return;
        };
        if inode.key.is_by_name() && self.by_key.get(&inode.key) == Some(&id) {
            self.by_key.remove(&inode.key);
        }
    }

    fn relink(&mut self, id: InodeId, from: &Dirent, to: Dirent) {
        self.drop_key(id);
        let Some(inode) = self.inodes.get_mut(&id) else {
            return;
        };
        inode.links.retain(|known| known != from);
        inode.add_link(to.clone());
        if let Some(file) = inode.node.ordinary() {
            file.look_again();
        }
        if let Some(key) = inode.key.renamed(to) {
            inode.key = key.clone();
            // Room was made for it when it had another name.
            self.by_key.insert(key, id);
        }
    }
}

impl InodeKey {
    /// Whether it is found by its name, not by the file.
    fn is_by_name(&self) -> bool {
        matches!(self, InodeKey::Container(..) | InodeKey::Unseen(..))
    }

    /// The key under another name, if that makes one.
    fn renamed(&self, to: Dirent) -> Option<InodeKey> {
        match self {
            InodeKey::Container(_, kind) => Some(InodeKey::Container(to, *kind)),
            InodeKey::Unseen(_, kind) => Some(InodeKey::Unseen(to, *kind)),
            InodeKey::Stored(..) | InodeKey::Entry(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::super::node::{ContainerNode, StoredAt};
    use super::super::ordinary::OrdinaryFile;
    use super::*;
    use crate::container::{FORMATS, Preferences, Recognised};
    use crate::source::local::LocalStore;
    use crate::source::{FileKind, Store};

    struct Ground {
        directory: tempfile::TempDir,
        store: LocalStore,
        inodes: Inodes,
    }

    fn ground() -> Ground {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let root = store.stat(Path::new("")).unwrap();
        let inodes = Inodes::new(Node::Directory(StoredAt::of(&root)), Path::new(""));
        Ground {
            directory,
            store,
            inodes,
        }
    }

    fn link(name: &str) -> Dirent {
        Dirent::new(InodeId::ROOT, OsStr::new(name))
    }

    impl Ground {
        fn stat(&self, name: &str) -> Stat {
            let path = self.directory.path().join(name);
            if !path.exists() {
                std::fs::write(path, name).unwrap();
            }
            self.store.stat(Path::new(name)).unwrap()
        }

        fn file(&self, name: &str) -> (InodeId, Stat) {
            let stat = self.stat(name);
            let node = Node::File(OrdinaryFile::new(StoredAt::of(&stat)));
            (self.inodes.enter(link(name), node).unwrap().0, stat)
        }

        fn container(&self, name: &str) -> (InodeId, Stat) {
            let recognised = Recognised {
                format: FORMATS[0],
                damage: None,
                preferences: Preferences::default(),
            };
            let node = Node::Container(ContainerNode::new(FileKind::File, recognised));
            let stat = self.stat(name);
            (self.inodes.enter(link(name), node).unwrap().0, stat)
        }

        fn path(&self, inode: InodeId) -> Option<String> {
            let path = self.inodes.path(inode).ok()?;
            Some(path.display().to_string())
        }
    }

    #[test]
    fn a_file_keeps_its_inode_under_another_name() {
        let ground = ground();
        let (inode, stat) = ground.file("a");
        ground.inodes.renamed(&link("a"), &link("b"), &stat);
        assert_eq!(ground.path(inode).as_deref(), Some("b"));
        assert!(ground.inodes.unlinked(&link("a"), &stat).is_none());
        assert!(ground.inodes.unlinked(&link("b"), &stat).is_some());
        assert_eq!(ground.path(inode), None);
    }

    #[test]
    fn a_container_takes_its_key_along() {
        let ground = ground();
        let (inode, stat) = ground.container("a");
        ground.inodes.renamed(&link("a"), &link("b"), &stat);
        assert_eq!(ground.container("b").0, inode);
        let (another, _) = ground.container("a");
        assert_ne!(another, inode);
        // Forgetting the first leaves the name of the second alone.
        ground.inodes.unlinked(&link("b"), &stat);
        assert_ne!(ground.container("b").0, inode);
        ground.inodes.forget(inode, 2);
        let found = ground.inodes.named(&link("b"), &stat);
        assert!(found.is_some_and(|(id, _)| id != inode));
    }

    #[test]
    fn a_file_and_a_container_change_places() {
        let ground = ground();
        let (file, of_file) = ground.file("a");
        let (container, of_container) = ground.container("b");
        let (a, b) = (link("a"), link("b"));
        ground.inodes.exchanged((&a, &of_file), (&b, &of_container));
        assert_eq!(ground.path(file).as_deref(), Some("b"));
        assert_eq!(ground.path(container).as_deref(), Some("a"));
        assert_eq!(ground.container("a").0, container);
        let (one, of_one) = ground.container("c");
        ground
            .inodes
            .exchanged((&a, &of_container), (&link("c"), &of_one));
        assert_eq!(ground.container("a").0, one);
        assert_eq!(ground.container("c").0, container);
    }
}
