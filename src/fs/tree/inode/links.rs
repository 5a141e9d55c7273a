//! Names that are moved and removed through the mount, in the table of inodes.
//!
//! Names that other processes change are found out at the next look-up; after a change of our own
//! the table follows at once: an inode whose name has gone is found by its handles alone, and what
//! is below a directory that was moved has moved with it. Assumes that the change has been made in
//! the source. Used by `writing`.

use std::sync::Arc;

use super::super::node::Node;
use super::id::{Dirent, InodeId};
use super::inodes::Inodes;
use super::table::{Inode, InodeKey, InodeTable};
use crate::source::Stat;

impl Inodes {
    /// The inode that a name leads to, if the kernel knows it by that name.
    pub(crate) fn named(&self, link: &Dirent, stat: &Stat) -> Option<(InodeId, Arc<Node>)> {
        let table = self.lock();
        let id = table.known(link, stat)?;
        Some((id, table.get(id)?.node()))
    }

    /// A name has gone. Returns the node that it led to. A file with more names is not gone with
    /// the last one in this table, which need not have all: it is to be looked up by one of them.
    pub(crate) fn unlinked(&self, link: &Dirent, stat: &Stat) -> Option<Arc<Node>> {
        let mut table = self.lock();
        let id = table.known(link, stat)?;
        let inode = table.unlink(id, link)?;
        let has_others = inode.node.can_have_many_names() && stat.nlink > 1;
        if inode.last_link().is_none() && !has_others {
            let mut last = stat.clone();
            last.nlink = 0;
            inode.note_removed(Some(last));
        }
        Some(inode.node())
    }

    /// A directory has made room for what is shown in its place. It is not removed: whoever has
    /// come through it is to look again.
    pub(crate) fn replaced(&self, link: &Dirent, stat: &Stat) {
        let mut table = self.lock();
        if let Some(id) = table.known(link, stat) {
            table.unlink(id, link);
        }
    }

    /// The attributes of an inode whose last name has been removed: a program may still stand in
    /// that directory.
    pub(crate) fn removed(&self, inode: InodeId) -> Option<Stat> {
        let table = self.lock();
        table.get(inode)?.removed().cloned()
    }

    /// What had the name `from` has the name `to`; what had that before has been unlinked.
    pub(crate) fn renamed(&self, from: &Dirent, to: &Dirent, stat: &Stat) {
        let mut table = self.lock();
        if let Some(id) = table.known(from, stat) {
            table.relink(id, from, to);
        }
    }

    /// Two names lead to what the other one led to.
    pub(crate) fn exchanged(&self, one: (&Dirent, &Stat), other: (&Dirent, &Stat)) {
        let mut table = self.lock();
        let ids = (table.known(one.0, one.1), table.known(other.0, other.1));
        // The keys of containers are their names: both go before one comes.
        for id in [ids.0, ids.1].into_iter().flatten() {
            table.drop_key_by_name(id);
        }
        if let Some(id) = ids.0 {
            table.relink(id, one.0, other.0);
        }
        if let Some(id) = ids.1 {
            table.relink(id, other.0, one.0);
        }
    }
}

impl InodeTable {
    fn known(&self, link: &Dirent, stat: &Stat) -> Option<InodeId> {
        let keys = [
            InodeKey::Stored(stat.id, stat.mount, stat.kind),
            InodeKey::Container(link.link(), stat.kind),
            InodeKey::Unseen(link.link(), stat.kind),
        ];
        let named = |key| {
            let id = self.find(key)?;
            self.get(id)?.has_link(link.link()).then_some(id)
        };
        keys.into_iter().find_map(named)
    }

    fn unlink(&mut self, id: InodeId, link: &Dirent) -> Option<&mut Inode> {
        self.drop_key_by_name(id);
        let inode = self.get_mut(id)?;
        inode.drop_link(link.link());
        Some(inode)
    }

    /// An inode that is found by a name that it is about to lose is not found any more.
    fn drop_key_by_name(&mut self, id: InodeId) {
        let key = self.get(id).and_then(Inode::key);
        if key.is_some_and(|key| key.is_by_name()) {
            self.drop_key(id);
        }
    }

    fn relink(&mut self, id: InodeId, from: &Dirent, to: &Dirent) {
        self.drop_key_by_name(id);
        let Some(inode) = self.get_mut(id) else {
            return;
        };
        inode.drop_link(from.link());
        inode.add_link(to);
        if let Some(file) = inode.node.ordinary() {
            file.look_again();
        }
        // Room was made for it when it had another name.
        if inode.key().is_some_and(|key| key.is_by_name()) {
            self.add_key(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::super::super::node::StoredAt;
    use super::super::super::ordinary::OrdinaryFile;
    use super::*;
    use crate::container::{FORMATS, Preferences, Recognised};
    use crate::live::LiveContainer;
    use crate::memory::budget::Budget;
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
        let root = Node::Directory(StoredAt::of(&root).into());
        let inodes = Inodes::new(root, Path::new(""), &Budget::new(1 << 20));
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
            let node = Node::File(OrdinaryFile::new(StoredAt::of(&stat)).into());
            (self.inodes.enter(link(name), node).unwrap().0, stat)
        }

        fn container(&self, name: &str) -> (InodeId, Stat) {
            let recognised = Recognised {
                format: FORMATS[0],
                damage: None,
                preferences: Preferences::default(),
                left: Default::default(),
            };
            let node = Node::Container(LiveContainer::new(FileKind::File, recognised).into());
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
