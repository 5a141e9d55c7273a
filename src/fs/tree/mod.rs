//! The virtual tree: what exists in the mount, without any knowledge of FUSE.
//!
//! [`Tree`] answers the questions a kernel asks: look up, describe, list, open, read. Entries of
//! the source are shown as they are; what [`crate::container`] recognises becomes a directory whose
//! entries belong to one [`version`] of the container. Every version has inodes of its own, so the
//! kernel's cached pages of two versions never mix; an open of an old version's inode is answered
//! with [`Error::Changed`], whereupon the kernel looks the path up again and finds the new one.
//! Used by `kernel::adapter`; tests call it without a kernel.

mod absorbed;
mod arrival;
mod attr;
mod attributes;
mod container_directory;
pub mod container_state;
mod enclosing;
mod following;
mod half_removed;
mod inode;
mod invalidation;
mod listing;
mod listing_cache;
mod lookup;
pub mod mount_status;
mod mounted_fs;
mod moves;
mod named;
mod node;
mod open_file;
mod ordinary;
mod outdated;
mod places;
mod reading;
mod settings;
mod status;
mod stored_xattrs;
mod writing;
mod written_here;
pub mod xattr;

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::Disk;
use crate::error::Result;
use crate::live::Containers;
use crate::source::{Space, Store};
use absorbed::AbsorbedFiles;
use attributes::EntryAttributes;
use half_removed::HalfRemoved;
use listing::DirectoryListing;
use lookup::NameLookup;
use mounted_fs::MountedFs;
use moves::Moves;
use named::ErrorLines;
use outdated::Outdated;
use reading::FileReading;
use status::StatusReport;
use stored_xattrs::StoredXattrs;
use writing::TreeWriting;
use xattr::Xattrs;

pub use crate::live::InUse;
pub use crate::live::Later;
pub use crate::live::PACKING;
pub use crate::live::Pacing;
pub use crate::live::TO_THE_END;
pub use crate::live::shown::cookie::Cookie;
pub use crate::live::shown::open_container::Views;
pub use crate::live::shown::open_entry::PageCache;
pub use attr::Attr;
pub use inode::InodeId;
pub use invalidation::Invalidation;
pub use listing::ListedEntry;
pub use listing::ListingStep;
pub use open_file::HandleId;
pub use open_file::Open;
pub use ordinary::StalePages;
pub use outdated::PageDrop;
pub use settings::Settings;
pub use writing::COMES_BACK;
pub use writing::Hole;
#[cfg(test)]
pub(crate) use writing::tests as driven;

pub struct Tree {
    fs: Arc<MountedFs>,
    pub(crate) names: Arc<NameLookup>,
    pub(crate) listing: DirectoryListing,
    pub(crate) attributes: Arc<EntryAttributes>,
    pub(crate) xattrs: Arc<Xattrs>,
    pub(crate) reading: Arc<FileReading>,
    pub(crate) error_lines: Arc<ErrorLines>,
    pub half_removed: Arc<HalfRemoved>,
    pub status: Arc<StatusReport>,
    pub(crate) writing: TreeWriting,
    pub(crate) moves: Arc<Moves>,
    pub(crate) absorbed: Arc<AbsorbedFiles>,
    pub(crate) outdated: Arc<Outdated>,
}

/// What is staged is in logs, or given up: their locks go with it.
impl Drop for Tree {
    fn drop(&mut self) {
        self.fs.inodes.clear();
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
        let (fs, receiver) = MountedFs::new(store, disk, root, &cache, settings)?;
        let places = Arc::clone(&fs.places);
        let (moves, outdated) = (Arc::clone(&places.moves), Arc::clone(&places.outdated));
        let absorbed = Arc::<AbsorbedFiles>::default();
        let names = Arc::new(NameLookup {
            fs: Arc::clone(&fs),
            moves: Arc::clone(&moves),
            written_here: Arc::clone(&places.written_here),
            listing_cache: Arc::clone(&places.listing_cache),
            absorbed: Arc::clone(&absorbed),
        });
        let listing = DirectoryListing {
            fs: Arc::clone(&fs),
            names: Arc::clone(&names),
            moves: Arc::clone(&moves),
            listing_cache: Arc::clone(&places.listing_cache),
        };
        let attributes = Arc::new(EntryAttributes {
            fs: Arc::clone(&fs),
            names: Arc::clone(&names),
        });
        let reading = Arc::new(FileReading {
            fs: Arc::clone(&fs),
            outdated: Arc::clone(&outdated),
            workers,
        });
        let error_lines = Arc::new(ErrorLines {
            fs: Arc::clone(&fs),
            attributes: Arc::clone(&attributes),
        });
        let half_removed = Arc::new(HalfRemoved::new(Arc::clone(&fs)));
        let status = StatusReport::new(Arc::clone(&fs), Arc::clone(&half_removed), cache);
        let status = Arc::new(status);
        let xattrs = Arc::new(Xattrs {
            fs: Arc::clone(&fs),
            stored: StoredXattrs {
                fs: Arc::clone(&fs),
            },
            half_removed: Arc::clone(&half_removed),
            status: Arc::clone(&status),
        });
        let writing = TreeWriting::new(&names, &reading, &xattrs, &error_lines);
        let tree = Tree {
            fs,
            names,
            listing,
            attributes,
            xattrs,
            reading,
            error_lines,
            half_removed,
            status,
            writing,
            moves,
            absorbed,
            outdated,
        };
        Ok((tree, receiver))
    }

    /// From now on access control lists are shown, and the kernel looks at them.
    pub fn show_lists(&self) {
        self.fs.settings.lists.show();
    }

    /// The containers that it shows.
    pub fn containers(&self) -> &Containers {
        &self.fs.live
    }

    pub fn space(&self) -> Result<Space> {
        let posix = self.fs.store.as_posix();
        posix.map_or(Ok(Space::UNKNOWN), |posix| posix.space())
    }
}
