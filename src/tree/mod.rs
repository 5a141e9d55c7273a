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
mod status;
mod version;
pub mod xattr;

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use crate::array::prefetch::Workers;
use crate::cache::BlockCache;
use crate::container::{self, Candidate, Preferences, Recognised};
use crate::error::{Error, Result};
use crate::source::{FileIdentity, Identity, Kind, Space, Stat, Store};

pub use attr::{Attr, Owner};
pub use handle::{HandleId, Kept};
pub use inode::InodeId;
pub use list::{DirectoryEntry, Listing};

use entries::EntryIndex;
use handle::{Handle, Handles};
use inode::{ContainerState, Inodes, Key, Node, Place};
use opened::Opened;
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
        let recognised = recognise(&*store, root, &stat, settings.preferences);
        let node = Node::new(
            Place::Source {
                path: root.to_owned(),
            },
            stat.kind,
            recognised,
        );
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
            Place::Source { path } if node.is_container() => {
                let version = self.current(parent, &node)?;
                let opened = self.open_version(&version)?;
                match opened.find(EntryIndex::ROOT, name) {
                    Some(entry) => self.enter(&version, &opened, entry, name),
                    None if opened.shows_beside(name) => self.enter_source(&path.join(name)),
                    None => Err(Error::NotFound),
                }
            }
            Place::Source { path } if node.kind == Kind::Directory => {
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

    /// The kernel no longer refers to `count` of its look-ups of the inode.
    pub fn forget(&self, inode: InodeId, count: u64) {
        self.inodes.forget(inode, count);
    }

    pub fn attr(&self, inode: InodeId) -> Result<Attr> {
        let node = self.inodes.get(inode)?;
        match &node.place {
            Place::Source { path } => {
                let stat = self.store.stat(path)?;
                if stat.kind != node.kind {
                    return Err(Error::Changed {
                        path: self.store.display(path),
                    });
                }
                Ok(self.source_attr(inode, &node, &stat))
            }
            Place::Inside { version, entry } => {
                let opened = self.open_version(version)?;
                opened.attr(*entry, inode, &self.settings)
            }
        }
    }

    pub fn read_link(&self, inode: InodeId) -> Result<OsString> {
        match &self.inodes.get(inode)?.place {
            Place::Source { path } => self.store.read_link(path),
            Place::Inside { version, entry } => self.open_version(version)?.read_link(*entry),
        }
    }

    pub fn open(&self, inode: InodeId) -> Result<Open> {
        let node = self.inodes.get(inode)?;
        let (handle, keep_cache, ordinary) = match &node.place {
            Place::Source { path } => {
                if node.is_container() || node.kind == Kind::Directory {
                    return Err(Error::IsADirectory);
                }
                let source = self.store.open(path)?;
                let keep = node.content_unchanged(source.identity());
                (Handle::File(source), keep, true)
            }
            Place::Inside { version, entry } => {
                self.check_current(version)?;
                let opened = self.open_version(version)?;
                (opened.open(*entry, &self.cache)?, true, false)
            }
        };
        Ok(Open {
            handle: self.handles.insert(handle),
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
        match &*self.handles.get(handle).ok()? {
            Handle::File(source) => source.fd().map(with),
            _ => None,
        }
    }

    pub fn release(&self, handle: HandleId) {
        self.handles.remove(handle);
    }

    pub fn space(&self) -> Result<Space> {
        self.store.space()
    }

    /// The version of a container that is in the source now. A change retires the old one.
    fn current(&self, inode: InodeId, node: &Node) -> Result<Arc<Version>> {
        let Place::Source { path } = &node.place else {
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

    /// Recognises a container that changed. It may be changing still: what it is recognised as and the
    /// identity that is returned must be of one moment, or half a container would be taken for a version.
    fn recognise_anew(&self, path: &Path, known: &mut ContainerState) -> Result<Identity> {
        const TRIES: u32 = 16;
        for _ in 0..TRIES {
            let before = known.recognised.identity(&*self.store, path)?;
            let stat = self.store.stat(path)?;
            let preferences = self.settings.preferences;
            let Some(recognised) = recognise(&*self.store, path, &stat, preferences) else {
                break;
            };
            known.recognised = recognised;
            let after = known.recognised.identity(&*self.store, path)?;
            if before == after {
                return Ok(after);
            }
        }
        Err(Error::Changed {
            path: self.store.display(path),
        })
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
            Ok(_) => Err(Error::Changed {
                path: self.store.display(&version.path),
            }),
            Err(e) => Err(e),
        }
    }

    fn open_version(&self, version: &Arc<Version>) -> Result<Arc<Opened>> {
        self.versions.open(version, &self.store)
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

    /// An entry of the source, with its inode.
    fn enter_source(&self, path: &Path) -> Result<Attr> {
        let stat = self.store.stat(path)?;
        self.enter_stat(path, &stat)
    }

    fn enter_stat(&self, path: &Path, stat: &Stat) -> Result<Attr> {
        let recognised = self.recognise_once(path, stat);
        let key = source_key(path, stat, recognised.as_ref());
        let name = path.file_name().unwrap_or_default();
        let node = || {
            let place = Place::Source {
                path: path.to_owned(),
            };
            Node::new(place, stat.kind, recognised.clone())
        };
        let inode = self.inodes.enter(key, name, node);
        let node = self.inodes.get(inode)?;
        node.recognised_as(recognised, stat.identity);
        Ok(self.source_attr(inode, &node, stat))
    }

    /// Recognises an entry, or recalls what it was: its first bytes are read once per version.
    fn recognise_once(&self, path: &Path, stat: &Stat) -> Option<Recognised> {
        if stat.kind == Kind::File
            && let Some(known) = self.inodes.recall(path, stat.identity)
        {
            return known;
        }
        recognise(&*self.store, path, stat, self.settings.preferences)
    }

    fn source_attr(&self, inode: InodeId, node: &Node, stat: &Stat) -> Attr {
        Attr::of_source(inode, stat, node.is_container(), &self.settings)
    }
}

/// An unreadable file is shown as it is; opening it will say why.
fn recognise(
    store: &dyn Store,
    path: &Path,
    stat: &Stat,
    preferences: Preferences,
) -> Option<Recognised> {
    if stat.kind != Kind::File && stat.kind != Kind::Directory {
        return None;
    }
    let candidate = Candidate::new(store, path, stat.kind, preferences);
    container::recognise(&candidate).unwrap_or_else(|e| {
        log::debug!("{e}");
        None
    })
}

/// A file that becomes a container, or is replaced by another file, is another inode: the kernel
/// neither lets an inode change its type nor two files share their cached pages.
fn source_key(path: &Path, stat: &Stat, recognised: Option<&Recognised>) -> Key {
    let path = PathBuf::from(path);
    match (recognised, stat.kind) {
        (Some(_), _) => Key::Container { path },
        (None, Kind::File) => {
            let FileIdentity { device, inode, .. } = stat.identity;
            Key::File {
                path,
                device,
                inode,
            }
        }
        (None, kind) => Key::Source { path, kind },
    }
}
