//! How entries of the source arrive in the tree: what they are recognised as, and their inodes.
//!
//! An entry is looked into once per version of it. What could not be looked into is never
//! remembered as an ordinary file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Tree;
use super::attr::Attr;
use super::inode::{Dirent, InodeId};
use super::node::{Node, StoredAt};
use super::ordinary::OrdinaryFile;
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::live::recognition::{Recognition, recognise};
use crate::live::{LiveContainer, Places};
use crate::source::{FileKind, Stat};
use crate::stage::is_hidden_name;

/// The node of an entry. A file that becomes a container, or is replaced by another file, is
/// another inode: the kernel neither lets an inode change its type nor two files share their cached
/// pages.
pub(super) fn node_of(stat: &Stat, recognised: Option<Recognised>) -> Node {
    let at = StoredAt::of(stat);
    match (recognised, stat.kind) {
        (Some(recognised), kind) => Node::Container(LiveContainer::new(kind, recognised).into()),
        (None, FileKind::Directory) => Node::Directory(at.into()),
        (None, FileKind::File) => Node::File(OrdinaryFile::new(at).into()),
        (None, kind) => Node::Special(at.into(), kind),
    }
}

/// Whether a name of the source is shown beside containers: those of logs, of new files of commits
/// and of drafts are ours.
pub(super) fn is_shown(name: &OsStr) -> bool {
    !is_hidden_name(name)
}

impl Tree {
    /// Whether a name of the source is shown in this mount: where nothing is a container, names
    /// like those of logs are anybody's.
    pub(super) fn shows(&self, name: &OsStr) -> bool {
        self.has_no_containers() || is_shown(name)
    }

    pub(super) fn has_no_containers(&self) -> bool {
        self.settings.containers.preferences.files_only
    }

    /// An entry of a directory of the source, which lies at `above`, with its inode.
    pub(super) fn enter_source(&self, link: Dirent, above: &Path) -> Result<Attr> {
        let mark = self.moves.mark();
        let path = above.join(&link.name);
        let stat = self.store.stat(&path)?;
        let recognised = self.recognise_once(&link, &path, &stat)?;
        self.enter_stat(link, &path, &stat, (recognised, mark))
    }

    /// An entry of the directory that is this node, wherever that lies by now, with its inode.
    pub(super) fn enter_found(&self, link: Dirent, directory: &Node) -> Result<Attr> {
        // The root is not looked for by a name.
        if link.parent == InodeId::ROOT {
            let above = self.inodes.path(link.parent)?;
            return self.enter_source(link, &above);
        }
        let mark = self.moves.mark();
        let mut missing = match self.inodes.removed(link.parent) {
            Some(_) => Error::NotFound,
            None => self.changed(Path::new(&link.name)),
        };
        for above in self.inodes.paths(link.parent) {
            let is_it = |found: &Stat| directory.is_still(found);
            let path = above.join(&link.name);
            match self.store.stat_in(&above, &is_it, &link.name) {
                Ok(Some(stat)) => {
                    let recognised = self.recognise_once(&link, &path, &stat)?;
                    return self.enter_stat(link, &path, &stat, (recognised, mark));
                }
                Ok(None) => missing = self.changed(&above),
                Err(e) => missing = e,
            }
        }
        Err(missing)
    }

    /// An entry of a directory of the source for a listing, which leaves nothing out: what cannot
    /// be looked into now is shown as it is stored, until it is looked up.
    pub(super) fn enter_source_listed(&self, link: Dirent, above: &Path) -> Result<Attr> {
        let mark = self.moves.mark();
        let path = above.join(&link.name);
        let stat = self.store.stat(&path)?;
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
        let Some(still) = self.moves.pin_since(mark) else {
            return Err(self.changed(path));
        };
        let (inode, node) = self.inodes.enter(link, found)?;
        drop(still);
        if let Some(file) = node.ordinary() {
            file.note_looked_up();
        }
        if for_good {
            node.note(recognised, stat.identity());
        }
        self.notice_change(inode, &node);
        let mut attr = self.source_attr(inode, &node, stat);
        if let Node::File(file) = &*node
            && file.may_be_foreign(stat.identity())
        {
            // `stat` is from before the file was identified: it is looked at once more.
            let moment = file.moment();
            let again = self.store.stat(path)?;
            if again.id == stat.id {
                attr = self.source_attr(inode, &node, &again);
                attr.stale = file.stale(moment, again.identity());
            }
        }
        Ok(attr)
    }

    /// The attributes of an entry of the source that are sent to the kernel.
    pub(super) fn source_attr(&self, inode: InodeId, node: &Node, stat: &Stat) -> Attr {
        let is_container = node.container().is_some();
        if let Some(file) = node.ordinary() {
            file.tell(stat.size, stat.mode);
        }
        Attr::of_source(inode, stat, is_container, &self.settings)
    }

    /// Recognises an entry, or recalls what it was: its first bytes are read once per version.
    pub(super) fn recognise_once(
        &self,
        link: &Dirent,
        path: &Path,
        stat: &Stat,
    ) -> Result<Recognition> {
        if self.shows_drafts(link.parent)
            || stat.kind == FileKind::File && self.is_of_container(link.parent)
        {
            return Ok(Recognition::Ordinary);
        }
        if stat.kind == FileKind::File
            && let Some(known) = self.inodes.recall(link, stat)
        {
            return Ok(known.map_or(Recognition::Ordinary, Recognition::Container));
        }
        if stat.kind == FileKind::File && self.written_here.contains(stat.id) {
            return Ok(Recognition::Ordinary);
        }
        let recognised = recognise(
            &*self.store,
            path,
            stat,
            self.settings.containers.preferences,
        )?;
        match &recognised {
            Recognition::Container(container) if self.has_our_files(container, path) => {
                Ok(Recognition::Ordinary)
            }
            _ => Ok(recognised),
        }
    }

    /// Whether a directory that looks like a container has files that were made or written through
    /// the mount: the programs that wrote them expect to find them as files.
    pub(super) fn has_our_files(&self, container: &Recognised, path: &Path) -> bool {
        let is_ours = |member: &&str| {
            let found = self.store.stat(&path.join(member));
            found.is_ok_and(|stat| self.written_here.contains(stat.id))
        };
        !self.written_here.is_empty() && container.layout().identifying().iter().any(is_ours)
    }

    /// What an entry of the source is shown as, without an inode.
    pub(super) fn shown_kind(&self, link: &Dirent, above: &Path) -> Result<FileKind> {
        let path = above.join(&link.name);
        let stat = self.store.stat(&path)?;
        match self.recognise_once(link, &path, &stat) {
            Ok(Recognition::Container(_)) => Ok(FileKind::Directory),
            _ => Ok(stat.kind),
        }
    }

    /// Where the file or directory of the source that an inode stands for lies now, by whichever of
    /// its names.
    pub(super) fn locate(&self, inode: InodeId, node: &Node) -> Result<(PathBuf, Stat)> {
        self.places.locate(inode, node)
    }

    /// Where a container lies: never in a directory that has taken the place of its own.
    pub(super) fn container_path(&self, inode: InodeId) -> Result<PathBuf> {
        self.places.path(inode.into())
    }

    /// Whether an inode is a directory of a container: files that lie in one are not looked into.
    pub(super) fn is_of_container(&self, inode: InodeId) -> bool {
        let node = self.inodes.get(inode);
        node.is_ok_and(|node| matches!(&*node, Node::Container(_) | Node::Entry(..)))
    }

    /// Where a directory of the source lies now.
    pub(super) fn locate_directory(&self, inode: InodeId, node: &Node) -> Result<PathBuf> {
        self.places.locate_directory(inode, node)
    }

    /// The error for an entry that could not be looked at: the kernel is to look it up afresh.
    pub(super) fn unseen(&self, inode: InodeId) -> Error {
        self.changed(&self.inodes.path(inode).unwrap_or_default())
    }
}
