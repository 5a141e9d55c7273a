//! What every part of the tree looks at: the source as it is mounted.
//!
//! It answers nothing by itself but what each part asks of an inode before it goes on. Made by
//! [`super::Tree::new`]; used by all of `tree`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::Receiver;

use super::arrival::{is_shown, node_of};
use super::attr::Attr;
use super::enclosing::Enclosing;
use super::inode::{InodeId, Inodes};
use super::invalidation::Invalidation;
use super::moves::Moves;
use super::node::Node;
use super::open_file::OpenFiles;
use super::ordinary::OrdinaryFile;
use super::places::TreePlaces;
use super::settings::Settings;
use super::written_here::WrittenHere;
use crate::cache::BlockCache;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::live::recognition::{Recognition, recognise};
use crate::live::{Containers, Places};
use crate::memory::budget::Budget;
use crate::source::{Stat, Store};

/// The parts of the tree share it, and hold besides what they alone use.
pub(crate) struct MountedFs {
    pub(super) store: Arc<dyn Store>,
    /// What the source is changed through; a tree without is read-only.
    pub(super) disk: Option<Arc<dyn Disk>>,
    /// The containers that it shows.
    pub(super) live: Arc<Containers>,
    pub(super) inodes: Arc<Inodes>,
    pub(super) open_files: Arc<OpenFiles>,
    pub(crate) moves: Arc<Moves>,
    pub(super) places: Arc<TreePlaces>,
    pub(super) enclosing: Enclosing,
    /// The memory that all of it is charged to.
    pub(super) budget: Arc<Budget>,
    pub(super) settings: Settings,
}

impl MountedFs {
    /// What the kernel must forget later arrives at the receiver.
    pub(super) fn new(
        store: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        root: &Path,
        cache: &Arc<BlockCache>,
        settings: Settings,
    ) -> Result<(Arc<Self>, Receiver<Invalidation>)> {
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
        let live = Arc::new(Containers::new(
            Arc::clone(&store),
            disk.clone(),
            Arc::clone(cache),
            Arc::clone(&places) as _,
            settings.containers.clone(),
        ));
        let enclosing = Enclosing {
            live: Arc::clone(&live),
            inodes: Arc::clone(&inodes),
        };
        let fs = MountedFs {
            store,
            disk,
            live,
            inodes,
            open_files: Arc::clone(&places.open_files),
            moves: Arc::clone(&places.moves),
            places,
            enclosing,
            budget: Arc::clone(cache.budget()),
            settings,
        };
        Ok((Arc::new(fs), receiver))
    }

    /// Whether a name of the source is shown in this mount: where nothing is a container, names
    /// like those of logs are anybody's.
    pub(super) fn shows(&self, name: &OsStr) -> bool {
        self.has_no_containers() || is_shown(name)
    }

    pub(super) fn has_no_containers(&self) -> bool {
        self.settings.containers.preferences.files_only
    }

    /// Where a name of a directory leads, as far as it is known: for messages.
    pub(super) fn path_in(&self, directory: InodeId, name: &OsStr) -> PathBuf {
        let directory = self.inodes.path(directory);
        directory.unwrap_or_default().join(name)
    }

    /// The error for an entry that could not be looked at: the kernel is to look it up afresh.
    pub(super) fn unseen(&self, inode: InodeId) -> Error {
        self.live
            .ground
            .changed(&self.inodes.path(inode).unwrap_or_default())
    }

    /// ESTALE for a file that was renamed over an array: the name that the kernel has followed may
    /// be the array's, which it is to look up afresh.
    pub(super) fn refuse_absorbed(&self, inode: InodeId, node: &Node) -> Result<()> {
        match node.ordinary().is_some_and(OrdinaryFile::is_absorbed) {
            true => Err(self.unseen(inode)),
            false => Ok(()),
        }
    }

    /// A file that was renamed over an array has no name any more, but the kernel goes on taking
    /// the array's name for it: it is to look again.
    pub(super) fn without_names(&self, inode: InodeId, missing: Error) -> Error {
        match self.inodes.paths(inode).is_empty() {
            true => self.unseen(inode),
            false => missing,
        }
    }

    /// The listing of an opened container, which the kernel keeps, goes when the container changes.
    pub(super) fn notice_change(&self, inode: InodeId, node: &Node) {
        if let Some(container) = node.container() {
            self.live.current.notice_change(inode.into(), container);
        }
    }

    /// Where a container lies: never in a directory that has taken the place of its own.
    pub(super) fn container_path(&self, inode: InodeId) -> Result<PathBuf> {
        self.places.path(inode.into())
    }

    /// The attributes of an entry of the source that are sent to the kernel.
    pub(super) fn source_attr(&self, inode: InodeId, node: &Node, stat: &Stat) -> Attr {
        let is_container = node.container().is_some();
        if let Some(file) = node.ordinary() {
            file.tell(stat.size, stat.mode);
        }
        Attr::of_source(inode, stat, is_container, &self.settings)
    }

    /// What an entry of the source is, as far as its first bytes tell.
    pub(super) fn recognise(&self, path: &Path, stat: &Stat) -> Result<Recognition> {
        let preferences = self.settings.containers.preferences;
        recognise(&*self.store, path, stat, preferences)
    }
}
