//! The virtual tree: what exists in the mount, without any knowledge of FUSE.
//!
//! [`Tree`] answers the questions a kernel asks: look up, describe, list, open, read. Entries of
//! the source are shown as they are; what [`crate::container`] recognises becomes a directory whose
//! entries belong to one [`version`] of the container. Every version has inodes of its own, so the
//! kernel's cached pages of two versions never mix; an open of an old version's inode is answered
//! with [`Error::Changed`], whereupon the kernel looks the path up again and finds the new one.
//! Used by `kernel::adapter`; tests call it without a kernel.

mod absorbed;
mod access_lists;
mod arrival;
mod attr;
mod by_name;
mod container_directory;
pub mod container_state;
mod entries;
mod following;
mod half_removed;
mod inode;
mod invalidation;
mod listing;
mod listing_cache;
pub mod mount_status;
mod moves;
mod named;
mod node;
mod open_file;
mod ordinary;
mod outdated;
mod places;
mod settings;
mod status;
mod writing;
mod written_here;
pub mod xattr;

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::live::Containers;
use crate::live::recognition::recognise;
use crate::live::shown::entry_table::EntryIndex;
use crate::source::{Source, Space, Store, on_descriptor};
use absorbed::AbsorbedFiles;
use arrival::node_of;
use following::FollowingEntries;
use half_removed::HalfRemoved;
use inode::{Dirent, Inodes};
use listing_cache::ListingCache;
use moves::Moves;
use node::Node;
use open_file::{OpenFile, OpenFiles, Stored, takes_away_bits};
use ordinary::{OrdinaryFile, StillKnown};
use outdated::Outdated;
use places::TreePlaces;
use status::Watched;
use written_here::WrittenHere;

pub use crate::live::shown::cookie::Cookie;
pub use crate::live::shown::open_container::Views;
pub use crate::live::shown::open_entry::PageCache;
pub use crate::live::{InUse, Later, PACKING, Pacing, TO_THE_END};
pub use attr::Attr;
pub use inode::InodeId;
pub use invalidation::Invalidation;
pub use listing::{ListedEntry, ListingStep};
pub use open_file::{HandleId, Open};
pub use ordinary::StalePages;
pub use outdated::PageDrop;
pub use settings::Settings;
#[cfg(test)]
pub(crate) use writing::tests as driven;
pub use writing::{COMES_BACK, Hole};

pub struct Tree {
    store: Arc<dyn Store>,
    /// What the source is changed through; a tree without is read-only.
    disk: Option<Arc<dyn Disk>>,
    /// The containers that it shows.
    live: Containers,
    places: Arc<TreePlaces>,
    inodes: Arc<Inodes>,
    moves: Arc<Moves>,
    open_files: Arc<OpenFiles>,
    /// What was made or written through it.
    written_here: Arc<WrittenHere>,
    listing_cache: Arc<ListingCache>,
    outdated: Arc<Outdated>,
    absorbed: AbsorbedFiles,
    half_removed: HalfRemoved,
    following: FollowingEntries,
    cache: Arc<BlockCache>,
    workers: ReadAheadWorkers,
    settings: Settings,
    watched: Watched,
}

/// What is staged is in logs, or given up: their locks go with it.
impl Drop for Tree {
    fn drop(&mut self) {
        self.inodes.clear();
    }
}

impl Tree {
    /// A tree over `store`, whose root shows the entry `root` of it (empty: all of it), and which
    /// is changed through `disk`. What the kernel must forget later arrives at the receiver.
    pub fn new(
        store: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        root: &Path,
        cache: Arc<BlockCache>,
        workers: ReadAheadWorkers,
        settings: Settings,
    ) -> Result<(Self, Receiver<Invalidation>)> {
        let (invalidations, receiver) = crossbeam_channel::unbounded();
        let stat = store.stat(root)?;
        let preferences = settings.containers.preferences;
        let recognised = recognise(&*store, root, &stat, preferences)?;
        let root_node = node_of(&stat, recognised.known());
        let inodes = Arc::new(Inodes::new(root_node, root, cache.budget()));
        let places = Arc::new(TreePlaces {
            store: Arc::clone(&store),
            inodes: Arc::clone(&inodes),
            moves: Arc::default(),
            open_files: Arc::default(),
            written_here: Arc::new(WrittenHere::new(cache.budget())),
            listing_cache: Arc::default(),
            outdated: Arc::default(),
            invalidations,
        });
        let live = Containers::new(
            Arc::clone(&store),
            disk.clone(),
            Arc::clone(&cache),
            Arc::clone(&places) as _,
            settings.containers.clone(),
        );
        let tree = Tree {
            store,
            disk,
            live,
            inodes,
            moves: Arc::clone(&places.moves),
            open_files: Arc::clone(&places.open_files),
            written_here: Arc::clone(&places.written_here),
            listing_cache: Arc::clone(&places.listing_cache),
            outdated: Arc::clone(&places.outdated),
            absorbed: AbsorbedFiles::default(),
            places,
            half_removed: HalfRemoved::default(),
            following: FollowingEntries::default(),
            cache,
            workers,
            settings,
            watched: Watched::new(),
        };
        Ok((tree, receiver))
    }

    /// From now on access control lists are shown, and the kernel looks at them.
    pub fn show_lists(&self) {
        self.settings.lists.show();
    }

    /// Gives away the entries whose attributes the kernel is to forget before it gets an answer.
    pub fn take_following(&self, each: impl FnMut(InodeId)) {
        self.following.drain(each);
    }

    /// Finds `name` in a directory and counts one look-up of the inode it returns.
    pub fn lookup(&self, parent: InodeId, name: &OsStr) -> Result<Attr> {
        if !self.shows(name) {
            return Err(Error::NotFound);
        }
        let link = Dirent::new(parent, name);
        match &*self.inodes.get(parent)? {
            node @ Node::Directory(_) => self.enter_found(link, node),
            Node::Container(container) => {
                let version = self.live.current(parent.into(), container)?;
                if container.new.is_new() {
                    return self.lookup_draft(parent, link);
                }
                let opened = self.live.open_version(&version)?;
                match opened.find(EntryIndex::ROOT, name) {
                    Some(entry) => self.enter(&version, &opened, entry, link),
                    None => self.enter_beside(link),
                }
            }
            Node::Entry(version, entry) => {
                self.live.check_current(version)?;
                let opened = self.live.open_version(version)?;
                match opened.find(*entry, name) {
                    Some(child) => self.enter(version, &opened, child, link),
                    None => self.enter_beside(link),
                }
            }
            Node::File(_) | Node::Special(..) => Err(Error::NotADirectory),
            Node::Unseen(_) => Err(self.unseen(parent)),
        }
    }

    /// The kernel no longer refers to `count` of its look-ups of the inode. Says whether these were
    /// the last.
    pub fn forget(&self, inode: InodeId, count: u64) -> bool {
        let gone = self.inodes.forget(inode, count);
        if gone.is_some() {
            self.absorbed.forget(inode);
        }
        match gone.as_deref() {
            Some(Node::Container(container)) => {
                self.listing_cache.forget(inode);
                self.live.close(container);
            }
            Some(Node::Directory(_) | Node::Entry(..)) => self.listing_cache.forget(inode),
            Some(Node::File(_) | Node::Special(..) | Node::Unseen(_)) | None => {}
        }
        gone.is_some()
    }

    pub fn attr(&self, inode: InodeId) -> Result<Attr> {
        let node = self.inodes.get(inode)?;
        if let Node::Entry(version, entry) = &*node {
            let opened = self.live.open_version(version)?;
            let stat = self.live.entry_stat(version, &opened, *entry)?;
            return Ok(Attr::of_entry(inode, &stat, &self.settings));
        }
        self.notice_change(inode, &node);
        let moment = node.ordinary().map(OrdinaryFile::moment);
        let stat = match self.locate(inode, &node) {
            Ok((_, stat)) => stat,
            Err(missing) => match self.of_open(inode, missing, |source| source.stat()) {
                Ok(stat) => stat,
                Err(missing) => match self.inodes.removed(inode) {
                    Some(mut removed) => {
                        // It is an array's content by now, and as long.
                        let open = self.open_files.of_inode(inode);
                        if let Some(entry) = open.iter().find_map(|file| file.entry()) {
                            removed.size = entry.len();
                        }
                        removed
                    }
                    // It has other names than those in the table, or another has its name by now.
                    None if missing.is_not_found() => return Err(self.changed(Path::new(""))),
                    None => return Err(missing),
                },
            },
        };
        let mut attr = self.source_attr(inode, &node, &stat);
        if let (Some(file), Some(moment)) = (node.ordinary(), moment) {
            attr.stale = file.stale(moment, stat.identity());
        }
        Ok(attr)
    }

    /// Asks what is left of an entry whose names have gone, or are other files' now: the file, if
    /// it is open.
    fn of_open<T>(
        &self,
        inode: InodeId,
        missing: Error,
        ask: impl FnOnce(&dyn Source) -> Result<T>,
    ) -> Result<T> {
        let open = self.open_files.of_inode(inode);
        match open.iter().find_map(|file| file.source()) {
            Some(source) => ask(source),
            None => Err(missing),
        }
    }

    pub fn read_link(&self, inode: InodeId) -> Result<OsString> {
        let node = self.inodes.get(inode)?;
        match &*node {
            Node::Entry(version, entry) => self.live.open_version(version)?.read_link(*entry),
            _ => {
                let (path, _) = self.locate(inode, &node)?;
                self.store.posix()?.read_link(&path)
            }
        }
    }

    /// Opens what an inode stands for, to be read. The handle keeps what it opened, whatever
    /// happens to its name.
    pub fn open(&self, inode: InodeId) -> Result<Open> {
        let node = self.inodes.get(inode)?;
        self.refuse_absorbed(inode, &node)?;
        let mut set_id = false;
        let (file, known, ordinary) = match &*node {
            Node::Directory(_) | Node::Container(_) => return Err(Error::IsADirectory),
            Node::Special(..) => return Err(Error::Unsuitable),
            Node::Unseen(_) => return Err(self.unseen(inode)),
            Node::File(file) => {
                let moment = file.moment();
                let source = match self.open_ordinary(inode, file) {
                    Ok(source) => source,
                    Err(e) => return self.open_again(inode, false).ok_or(e),
                };
                let known = file.opened(moment, source.identity());
                let stored = Stored::Read(source);
                set_id = takes_away_bits(&stored);
                let file = OpenFile::Ordinary(stored, Arc::clone(&node));
                (file, known, true)
            }
            Node::Entry(version, entry) => {
                self.live.check_current(version)?;
                self.live.recover_again(version)?;
                let opened = self.live.open_entry(version, *entry)?;
                let pages = self.keeps_pages(inode, &opened);
                let opened = OpenFile::Entry(opened);
                (opened, StillKnown { pages, size: true }, false)
            }
        };
        Ok(Open {
            handle: self.open_files.insert(inode, file),
            keep_cache: known.pages,
            size_is_old: !known.size,
            ordinary,
            set_id,
        })
    }

    /// Gives the bytes of an open file to `reply`.
    pub fn read<R>(
        &self,
        handle: HandleId,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        match self.open_files.get(handle) {
            Ok(file) => file.read(&self.workers, offset, len, pages, reply),
            Err(e) => reply(Err(e)),
        }
    }

    /// Gives the bytes of an open file to `reply` from memory alone, for a thread that must not
    /// wait: bytes that need a decode, the source, or another thread's work are not read, and
    /// `reply` is not called.
    pub fn read_in_memory<R>(
        &self,
        handle: HandleId,
        offset: u64,
        len: usize,
        pages: PageCache,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let file = self.open_files.get(handle).ok()?;
        file.read_in_memory(&self.workers, offset, len, pages, reply)
    }

    /// Runs `with` on the local descriptor of an open file that is shown as it is.
    pub fn with_fd<R>(
        &self,
        handle: HandleId,
        with: impl FnOnce(BorrowedFd<'_>) -> R,
    ) -> Option<R> {
        let handle = self.open_files.get(handle).ok()?;
        on_descriptor(handle.source()?, with).ok()
    }

    pub fn release(&self, handle: HandleId) {
        let closed = self.open_files.get(handle);
        let inode = self.open_files.inode_of(handle);
        self.end_stray(handle);
        // Before it is closed, so that no thread finds it neither open nor used.
        if let Ok(inode) = inode {
            self.note_use(inode);
        }
        self.open_files.remove(handle);
        if let Ok(closed) = closed {
            if let Some(writer) = closed.array_writer() {
                self.live.end_writing(writer);
            }
            if let Some((file, _)) = closed.written()
                && let Err(e) = file.release()
            {
                let told = inode.as_ref().map(|inode| self.named(*inode, None, &e));
                log::error!("{}", told.unwrap_or_else(|_| e.to_string()));
            }
            if let Some(derived) = closed.entry().and_then(|entry| entry.derived()) {
                let staged = &derived.version.staged;
                staged.note_edition(derived.entry, derived.edition);
            }
        }
        if let Ok(inode) = inode {
            self.note_let_go(inode);
        }
    }

    /// The containers that it shows.
    pub fn containers(&self) -> &Containers {
        &self.live
    }

    pub fn space(&self) -> Result<Space> {
        let posix = self.store.as_posix();
        posix.map_or(Ok(Space::UNKNOWN), |posix| posix.space())
    }
}
