//! The virtual tree: what exists in the mount, without any knowledge of FUSE.
//!
//! [`Tree`] answers the questions a kernel asks: look up, describe, list, open, read. Entries of the
//! source are shown as they are; what [`crate::container`] recognises becomes a directory whose entries
//! belong to one [`version`] of the container. Every version has inodes of its own, so the kernel's
//! cached pages of two versions never mix; an open of an old version's inode is answered with
//! [`Error::Changed`], whereupon the kernel looks the path up again and finds the new one.
//! Used by `kernel::adapter`; tests call it without a kernel.

mod attr;
mod entries;
mod handle;
mod inode;
mod kept_open;
mod list;
mod opened;
mod pinned;
mod recognition;
mod status;
mod version;
pub mod xattr;

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::array::prefetch::Workers;
use crate::cache::BlockCache;
use crate::container::Preferences;
use crate::error::{Error, Result};
use crate::source::{FileId, Identity, Kind, Space, Stat, Store};

pub use attr::{Attr, Owner};
pub use handle::{HandleId, Kept};
pub use inode::InodeId;
pub use list::{DirectoryEntry, Listing};

use entries::EntryIndex;
use handle::{Handle, Handles};
use inode::{ContainerState, Inodes, Key, Node, Place};
use opened::Opened;
use recognition::recognise;
use version::{Version, Versions};

/// What the kernel should forget, because the source changed or may change underneath.
#[derive(Debug, Clone)]
pub struct Invalidation {
    /// Its attributes and cached pages go,
    pub inode: InodeId,
    /// and this name of it.
    pub name: Option<(InodeId, OsString)>,
}

/// How the tree is shown.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub umask: Option<u16>,
    pub preferences: Preferences,
}

pub struct Tree {
    store: Arc<dyn Store>,
    cache: Arc<BlockCache>,
    workers: Workers,
    settings: Settings,
    inodes: Inodes,
    handles: Handles,
    versions: Versions,
    invalidations: Sender<Invalidation>,
}

/// An opened file.
pub struct Open {
    pub handle: HandleId,
    /// Whether the kernel's cached pages of this inode still hold.
    pub keep_cache: bool,
    /// The file is shown as it is.
    pub ordinary: bool,
}

impl Tree {
    /// A tree over `store`, whose root shows the entry `root` of it (empty: all of it). What the kernel
    /// must forget later arrives at the receiver.
    pub fn new(
        store: Arc<dyn Store>,
        root: &Path,
        cache: Arc<BlockCache>,
        workers: Workers,
        settings: Settings,
    ) -> Result<(Self, Receiver<Invalidation>)> {
        let (invalidations, receiver) = crossbeam_channel::unbounded();
        let stat = store.stat(root)?;
        let recognised = recognise(&*store, root, &stat, settings.preferences)?;
        let place = Place::Source {
            path: root.to_owned(),
            file: None,
        };
        let node = Node::new(place, stat.kind, recognised.known());
        let tree = Tree {
            inodes: Inodes::new(node),
            handles: Handles::default(),
            versions: Versions::default(),
            store,
            cache,
            workers,
            settings,
            invalidations,
        };
        Ok((tree, receiver))
    }

    /// Finds `name` in a directory and counts one look-up of the inode it returns.
    pub fn lookup(&self, parent: InodeId, name: &OsStr) -> Result<Attr> {
        let node = self.inodes.get(parent)?;
        match &node.place {
            Place::Source { path, .. } if node.is_container() => {
                let version = self.current(parent, &node)?;
                let opened = self.open_version(&version)?;
                match opened.find(EntryIndex::ROOT, name) {
                    Some(entry) => self.enter(&version, &opened, entry, name),
                    None if opened.shows_beside(name) => self.enter_source(&path.join(name)),
                    None => Err(Error::NotFound),
                }
            }
            Place::Source { path, .. } if node.kind == Kind::Directory => {
                self.enter_source(&path.join(name))
            }
            Place::Source { .. } => Err(Error::NotADirectory),
            Place::Inside { version, entry } => {
                self.check_current(version)?;
                let opened = self.open_version(version)?;
                let child = opened.find(*entry, name).ok_or(Error::NotFound)?;
                self.enter(version, &opened, child, name)
            }
        }
    }

    /// The kernel no longer refers to `count` of its look-ups of the inode. A container that it does not
    /// know any more may have been removed: nothing of it is kept open.
    pub fn forget(&self, inode: InodeId, count: u64) {
        let Some(node) = self.inodes.forget(inode, count) else {
            return;
        };
        let known = node.container();
        let version = known.as_ref().and_then(|known| known.version.clone());
        drop(known);
        if let Some(version) = version {
            self.cache.forget(version.id);
            self.versions.retire(&version);
        }
    }

    pub fn attr(&self, inode: InodeId) -> Result<Attr> {
        let node = self.inodes.get(inode)?;
        match &node.place {
            Place::Source { path, file } => {
                self.notice_change(inode, &node);
                let stat = match self.store.stat(path) {
                    Ok(stat) if stat.kind == node.kind && is_file(*file, &stat) => stat,
                    other => self.stat_open(inode, path, other)?,
                };
                Ok(self.source_attr(inode, &node, &stat))
            }
            Place::Inside { version, entry } => {
                let opened = self.open_version(version)?;
                opened.attr(*entry, inode, &self.settings)
            }
        }
    }

    /// What is left of an entry whose name has gone, or is another file's now: the file, if it is open.
    fn stat_open(&self, inode: InodeId, path: &Path, found: Result<Stat>) -> Result<Stat> {
        let open = self.handles.of_inode(inode);
        match open.as_ref().and_then(|handle| handle.source()) {
            Some(source) => source.stat(),
            None => Err(found.err().unwrap_or_else(|| self.changed(path))),
        }
    }

    fn changed(&self, path: &Path) -> Error {
        let path = self.store.display(path);
        Error::Changed { path }
    }

    pub fn read_link(&self, inode: InodeId) -> Result<OsString> {
        match &self.inodes.get(inode)?.place {
            Place::Source { path, .. } => self.store.read_link(path),
            Place::Inside { version, entry } => self.open_version(version)?.read_link(*entry),
        }
    }

    pub fn open(&self, inode: InodeId) -> Result<Open> {
        let node = self.inodes.get(inode)?;
        let (handle, keep_cache, ordinary) = match &node.place {
            Place::Source { path, file } => {
                if node.is_container() || node.kind == Kind::Directory {
                    return Err(Error::IsADirectory);
                }
                let source = self.store.open(path)?;
                // The caller was let in to the file that was looked up.
                if file.is_some_and(|file| file != source.identity().id()) {
                    return Err(self.changed(path));
                }
                let keep = node.content_unchanged(source.identity());
                (Handle::ordinary(source), keep, true)
            }
            Place::Inside { version, entry } => {
                self.check_current(version)?;
                let opened = self.open_version(version)?;
                (opened.open(*entry, &self.cache)?, true, false)
            }
        };
        Ok(Open {
            handle: self.handles.insert(inode, handle),
            keep_cache,
            ordinary,
        })
    }

    /// Gives the bytes of an open file to `reply`.
    pub fn read<R>(
        &self,
        handle: HandleId,
        offset: u64,
        len: usize,
        kept: Kept,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match self.handles.get(handle) {
            Ok(handle) => handle.read(&self.workers, offset, len, kept, reply),
            Err(e) => reply(Err(e)),
        }
    }

    /// Runs `with` on the local descriptor of an open file that is shown as it is.
    pub fn with_fd<R>(
        &self,
        handle: HandleId,
        with: impl FnOnce(BorrowedFd<'_>) -> R,
    ) -> Option<R> {
        let handle = self.handles.get(handle).ok()?;
        handle.source()?.fd().map(with)
    }

    pub fn release(&self, handle: HandleId) {
        self.handles.remove(handle);
    }

    pub fn space(&self) -> Result<Space> {
        self.store.space()
    }

    /// The version of a container that is in the source now. A change retires the old one.
    fn current(&self, inode: InodeId, node: &Node) -> Result<Arc<Version>> {
        let Place::Source { path, .. } = &node.place else {
            return Err(Error::Unsuitable);
        };
        let mut container = node.container();
        let Some(known) = container.as_mut() else {
            return Err(Error::NotADirectory);
        };
        let mut identity = known.recognised.identity(&*self.store, path)?;
        match &known.version {
            Some(version) if version.identity == identity && !version.may_have_passed() => {
                return Ok(Arc::clone(version));
            }
            // Recognised a moment ago, when it was looked up.
            None if identity.is_of(node.seen()) => {}
            _ => identity = self.recognise_anew(path, known)?,
        }
        let version = self
            .versions
            .create(path, known.recognised.clone(), identity);
        if let Some(old) = known.version.replace(Arc::clone(&version)) {
            self.retire(&old, inode);
        }
        Ok(version)
    }

    /// The listing of an opened container, which the kernel keeps, goes when the container changes,
    /// whatever its time says. What is wrong with it is told to who looks into it.
    fn notice_change(&self, inode: InodeId, node: &Node) {
        if node.is_opened()
            && let Err(e) = self.current(inode, node)
        {
            log::debug!("{e}");
        }
    }

    /// Recognises a container that changed. It may be changing still: what it is recognised as and the
    /// identity that is returned must be of one moment, or half a container would be taken for a version.
    fn recognise_anew(&self, path: &Path, known: &mut ContainerState) -> Result<Identity> {
        const TRIES: u32 = 16;
        for _ in 0..TRIES {
            let before = known.recognised.identity(&*self.store, path)?;
            let stat = self.store.stat(path)?;
            let preferences = self.settings.preferences;
            let recognised = recognise(&*self.store, path, &stat, preferences)?;
            let Some(recognised) = recognised.known() else {
                break;
            };
            known.recognised = recognised;
            let after = known.recognised.identity(&*self.store, path)?;
            if before == after {
                return Ok(after);
            }
        }
        Err(self.changed(path))
    }

    /// An old version's blocks go, and the kernel is told to drop its pages and names.
    fn retire(&self, old: &Version, parent: InodeId) {
        log::info!(
            "{}: changed; showing the new version",
            self.store.display(&old.path).display()
        );
        self.cache.forget(old.id);
        self.versions.retire(old);
        // The container's own listing may have lost or gained an error.txt.
        self.invalidate(parent, None);
        for (inode, name) in self.inodes.of_version(old.id) {
            self.invalidate(inode, Some((parent, name)));
        }
    }

    fn invalidate(&self, inode: InodeId, name: Option<(InodeId, OsString)>) {
        // Nobody listens once the mount is gone.
        let _ = self.invalidations.send(Invalidation { inode, name });
    }

    /// Whether a version is still what the source holds.
    fn check_current(&self, version: &Version) -> Result<()> {
        let identity = version.recognised.identity(&*self.store, &version.path);
        match identity {
            Ok(identity) if identity == version.identity => Ok(()),
            Ok(_) => Err(self.changed(&version.path)),
            Err(e) => Err(e),
        }
    }

    fn open_version(&self, version: &Arc<Version>) -> Result<Arc<Opened>> {
        self.versions
            .open(version, &self.store, self.cache.budget())
    }

    /// An entry of a container, with its inode.
    fn enter(
        &self,
        version: &Arc<Version>,
        opened: &Opened,
        entry: EntryIndex,
        name: &OsStr,
    ) -> Result<Attr> {
        let mut attr = opened.attr(entry, InodeId::ROOT, &self.settings)?;
        let key = Key::Inside {
            version: version.id,
            entry,
        };
        let place = || Place::Inside {
            version: Arc::clone(version),
            entry,
        };
        attr.inode = self
            .inodes
            .enter(key, name, || Node::new(place(), attr.kind, None));
        Ok(attr)
    }

    fn source_attr(&self, inode: InodeId, node: &Node, stat: &Stat) -> Attr {
        Attr::of_source(inode, stat, node.is_container(), &self.settings)
    }
}

/// Whether this is the file that an inode stands for, if it stands for one.
fn is_file(file: Option<FileId>, stat: &Stat) -> bool {
    file.is_none_or(|file| file == stat.identity.id())
}
