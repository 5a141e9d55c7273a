//! Looking names up: what they lead to, what that is recognised as, and its inode.
//!
//! An entry of the source is looked into once per version of it. What could not be looked into is
//! never remembered as an ordinary file. Entries of containers belong to a version. Used by
//! `kernel::adapter`, `listing` and `writing`.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::absorbed::AbsorbedFiles;
use super::arrival::node_of;
use super::attr::Attr;
use super::container_directory::ContainerDirectory;
use super::inode::{Dirent, InodeId};
use super::listing_cache::ListingCache;
use super::mounted_fs::MountedFs;
use super::node::Node;
use super::written_here::WrittenHere;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::live::recognition::Recognition;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::source::{FileKind, Stat};

/// Looks up names, until the kernel forgets what it found.
pub(crate) struct NameLookup {
    pub(super) fs: Arc<MountedFs>,
    pub(super) written_here: Arc<WrittenHere>,
    pub(super) listing_cache: Arc<ListingCache>,
    pub(crate) absorbed: Arc<AbsorbedFiles>,
}

impl NameLookup {
    /// Finds `name` in a directory and counts one look-up of the inode it returns.
    pub fn lookup(&self, parent: InodeId, name: &OsStr) -> Result<Attr> {
        if !self.fs.shows(name) {
            return Err(Error::NotFound);
        }
        let link = Dirent::new(parent, name);
        let (version, at) = match &*self.fs.inodes.get(parent)? {
            node @ Node::Directory(_) => return self.enter_found(link, node),
            Node::Container(container) => {
                let version = self.fs.live.current.version_of(parent.into(), container)?;
                if container.new.is_new() {
                    // What was put into it.
                    let drafts = self.fs.live.drafts.at(parent.into())?;
                    return self.enter_source(link, &drafts.ok_or(Error::NotFound)?);
                }
                (version, EntryIndex::ROOT)
            }
            Node::Entry(version, entry) => {
                self.fs.live.current.check(version)?;
                (Arc::clone(version), *entry)
            }
            Node::File(_) | Node::Special(..) => return Err(Error::NotADirectory),
            Node::Unseen(_) => return Err(self.fs.unseen(parent)),
        };
        let opened = self.fs.live.opener.open(&version)?;
        match opened.find(at, name) {
            Some(entry) => self.enter(&version, &opened, entry, link),
            None => self.enter_beside(link),
        }
    }

    /// Finds a name in a directory of a container that is none of its entries'. Counts one look-up.
    fn enter_beside(&self, link: Dirent) -> Result<Attr> {
        match ContainerDirectory::find(&self.fs, link.parent)? {
            Some(directory) if directory.shows_beside(&link.name) => {
                let above = directory.found_beside(&self.fs)?;
                self.enter_source(link, &above.ok_or(Error::NotFound)?)
            }
            _ => Err(Error::NotFound),
        }
    }

    /// The kernel no longer refers to `count` of its look-ups of the inode. Says whether these were
    /// the last.
    pub fn forget(&self, inode: InodeId, count: u64) -> bool {
        let gone = self.fs.inodes.forget(inode, count);
        if gone.is_some() {
            self.absorbed.forget(inode);
        }
        match gone.as_deref() {
            Some(Node::Container(container)) => {
                self.listing_cache.forget(inode);
                self.fs.live.versions.close(container);
            }
            Some(Node::Directory(_) | Node::Entry(..)) => self.listing_cache.forget(inode),
            Some(Node::File(_) | Node::Special(..) | Node::Unseen(_)) | None => {}
        }
        gone.is_some()
    }

    /// An entry of a directory of the source, which lies at `above`, with its inode.
    pub(super) fn enter_source(&self, link: Dirent, above: &Path) -> Result<Attr> {
        let mark = self.fs.moves.mark();
        let path = above.join(&link.name);
        let stat = self.fs.store.stat(&path)?;
        let recognised = self.recognise_once(&link, &path, &stat)?;
        self.enter_stat(link, &path, &stat, (recognised, mark))
    }

    /// An entry of the directory that is this node, wherever that lies by now, with its inode.
    fn enter_found(&self, link: Dirent, directory: &Node) -> Result<Attr> {
        // The root is not looked for by a name.
        if link.parent == InodeId::ROOT {
            let above = self.fs.inodes.path(link.parent)?;
            return self.enter_source(link, &above);
        }
        let mark = self.fs.moves.mark();
        let mut missing = match self.fs.inodes.removed(link.parent) {
            Some(_) => Error::NotFound,
            None => self.fs.live.ground.changed(Path::new(&link.name)),
        };
        for above in self.fs.inodes.paths(link.parent) {
            let is_it = |found: &Stat| directory.is_still(found);
            let path = above.join(&link.name);
            match self.fs.store.stat_in(&above, &is_it, &link.name) {
                Ok(Some(stat)) => {
                    let recognised = self.recognise_once(&link, &path, &stat)?;
                    return self.enter_stat(link, &path, &stat, (recognised, mark));
                }
                Ok(None) => missing = self.fs.live.ground.changed(&above),
                Err(e) => missing = e,
            }
        }
        Err(missing)
    }

    /// An entry of a directory of the source for a listing, which leaves nothing out: what cannot
    /// be looked into now is shown as it is stored, until it is looked up.
    pub(super) fn enter_source_listed(&self, link: Dirent, above: &Path) -> Result<Attr> {
        let mark = self.fs.moves.mark();
        let path = above.join(&link.name);
        let stat = self.fs.store.stat(&path)?;
        let recognised = self.recognise_once(&link, &path, &stat);
        let recognised = recognised.unwrap_or(Recognition::Unknown);
        self.enter_stat(link, &path, &stat, (recognised, mark))
    }

    /// `mark`: of the moment before it was looked at. What has been moved since is to be looked at
    /// again: the name may have gone, and must not become one of an inode's.
    fn enter_stat(
        &self,
        link: Dirent,
        path: &Path,
        stat: &Stat,
        (recognition, mark): (Recognition, u64),
    ) -> Result<Attr> {
        let for_good = !matches!(recognition, Recognition::Unknown);
        let recognised = recognition.known();
        let found = node_of(stat, recognised.clone());
        let Some(still) = self.fs.moves.pin_since(mark) else {
            return Err(self.fs.live.ground.changed(path));
        };
        let (inode, node) = self.fs.inodes.enter(link, found)?;
        drop(still);
        if let Some(file) = node.ordinary() {
            file.note_looked_up();
        }
        if for_good {
            node.note(recognised, stat.identity());
        }
        self.fs.notice_change(inode, &node);
        let mut attr = self.fs.source_attr(inode, &node, stat);
        if let Node::File(file) = &*node
            && file.may_be_foreign(stat.identity())
        {
            // `stat` is from before the file was identified: it is looked at once more.
            let moment = file.moment();
            let again = self.fs.store.stat(path)?;
            if again.id == stat.id {
                attr = self.fs.source_attr(inode, &node, &again);
                attr.stale = file.stale(moment, again.identity());
            }
        }
        Ok(attr)
    }

    /// Recognises an entry, or recalls what it was: its first bytes are read once per version.
    fn recognise_once(&self, link: &Dirent, path: &Path, stat: &Stat) -> Result<Recognition> {
        if self.fs.enclosing.shows_drafts(link.parent)
            || stat.kind == FileKind::File && self.fs.enclosing.is_of_container(link.parent)
        {
            return Ok(Recognition::Ordinary);
        }
        if stat.kind == FileKind::File
            && let Some(known) = self.fs.inodes.recall(link, stat)
        {
            return Ok(known.map_or(Recognition::Ordinary, Recognition::Container));
        }
        if stat.kind == FileKind::File && self.written_here.contains(stat.id) {
            return Ok(Recognition::Ordinary);
        }
        let recognised = self.fs.recognise(path, stat)?;
        match &recognised {
            Recognition::Container(container) if self.has_our_files(container, path) => {
                Ok(Recognition::Ordinary)
            }
            _ => Ok(recognised),
        }
    }

    /// Whether a directory that looks like a container has files that were made or written through
    /// the mount: the programs that wrote them expect to find them as files.
    fn has_our_files(&self, container: &Recognised, path: &Path) -> bool {
        let is_ours = |member: &&str| {
            let found = self.fs.store.stat(&path.join(member));
            found.is_ok_and(|stat| self.written_here.contains(stat.id))
        };
        !self.written_here.is_empty() && container.layout().identifying().iter().any(is_ours)
    }

    /// What an entry of the source is shown as, without an inode.
    pub(super) fn shown_kind(&self, link: &Dirent, above: &Path) -> Result<FileKind> {
        let path = above.join(&link.name);
        let stat = self.fs.store.stat(&path)?;
        match self.recognise_once(link, &path, &stat) {
            Ok(Recognition::Container(_)) => Ok(FileKind::Directory),
            _ => Ok(stat.kind),
        }
    }

    /// What a name in a container leads to, with its inode.
    pub(super) fn enter(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &Arc<OpenContainer>,
        name: EntryIndex,
        link: Dirent,
    ) -> Result<Attr> {
        let entered = self.enter_as_opened(version, opened, name, link.clone())?;
        match self.holds(version, opened, &entered) {
            true => Ok(entered),
            false => self.enter_again(version, &link),
        }
    }

    /// Whether what was entered is the version as it is stored by now. A name that a commit gives
    /// to another entry later is among those that the kernel then forgets.
    fn holds(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        entered: &Attr,
    ) -> bool {
        let holds = opened.is_current(version);
        if !holds {
            self.forget(entered.inode, 1);
        }
        holds
    }

    /// Looks for a name again, in the container as a commit leaves it that is just ending.
    fn enter_again(&self, version: &Arc<ContainerVersion>, link: &Dirent) -> Result<Attr> {
        const TRIES: u32 = 16;
        let directory = match &*self.fs.inodes.get(link.parent)? {
            Node::Entry(_, entry) => *entry,
            _ => EntryIndex::ROOT,
        };
        for _ in 0..TRIES {
            self.fs.live.current.wait_until_published(version)?;
            let opened = self.fs.live.opener.open(version)?;
            let name = opened.find(directory, &link.name).ok_or(Error::NotFound)?;
            let entered = self.enter_as_opened(version, &opened, name, link.clone())?;
            if self.holds(version, &opened, &entered) {
                return Ok(entered);
            }
        }
        Err(self.fs.live.ground.changed(Path::new(&link.name)))
    }

    fn enter_as_opened(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &Arc<OpenContainer>,
        name: EntryIndex,
        link: Dirent,
    ) -> Result<Attr> {
        let entry = opened.file_of(name);
        let stat = self.fs.live.entries.stat(version, opened, entry)?;
        let node = Node::Entry(Arc::clone(version), entry);
        let (inode, _) = self.fs.inodes.enter(link, node)?;
        Ok(Attr::of_entry(inode, &stat, &self.fs.settings))
    }
}
