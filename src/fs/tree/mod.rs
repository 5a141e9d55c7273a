//! The virtual tree: what exists in the mount, without any knowledge of FUSE.
//!
//! [`Tree`] answers the questions a kernel asks (look up, describe, list, open, read, change), each
//! by a part of its own; all parts share what is mounted ([`mounted_fs`]). Entries of the source
//! are shown as they are; what [`crate::container`] recognises becomes a directory whose entries
//! belong to one version of the container (`live::version`). Every version has inodes of its own,
//! so the kernel's cached pages of two versions never mix; an open of an old version's inode is
//! answered with [`crate::error::Error::Changed`], whereupon the kernel looks the path up again and
//! finds the new one. Used by `kernel`; tests call it without a kernel.

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
mod listing_step;
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

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::{Caller, Disk, NewEntry, Renaming};
use crate::error::Result;
use crate::live::Containers;
use crate::source::{Space, SpecialKind, Store};
use attributes::EntryAttributes;
use half_removed::HalfRemoved;
use listing::DirectoryListing;
use lookup::NameLookup;
use mounted_fs::MountedFs;
use named::ErrorLines;
use outdated::Outdated;
use reading::FileReading;
use status::StatusReport;
use writing::TreeWriting;
use writing::attributes::AttributeChanges;
use writing::closing::FileClosing;
use writing::content::FileContents;
use writing::making::Making;
use writing::removal::Removing;
use writing::rename::Renames;
use xattr::Xattrs;

pub use crate::live::shown::cookie::Cookie;
pub use crate::live::shown::open_container::Views;
pub use crate::live::shown::open_entry::PageCache;
pub use crate::live::{InUse, Later, PACKING, Pacing, TO_THE_END};
pub use attr::Attr;
pub use inode::InodeId;
pub use invalidation::Invalidation;
pub use listing_step::{ListedEntry, ListingStep};
pub use open_file::{HandleId, Open};
pub use ordinary::StalePages;
pub use outdated::PageDrop;
pub use settings::Settings;
#[cfg(test)]
pub(crate) use writing::tests as driven;
pub use writing::{COMES_BACK, Hole};

/// What is asked of a mount, by the part that answers.
pub struct Tree {
    pub(crate) fs: Arc<MountedFs>,
    pub(crate) names: Arc<NameLookup>,
    pub(crate) listing: DirectoryListing,
    pub(crate) attributes: Arc<EntryAttributes>,
    pub(crate) xattrs: Arc<Xattrs>,
    pub(crate) reading: Arc<FileReading>,
    pub(crate) making: Making,
    pub(crate) removing: Removing,
    pub(crate) renames: Renames,
    pub(crate) contents: Arc<FileContents>,
    pub(crate) changes: AttributeChanges,
    pub(crate) closing: FileClosing,
    pub(crate) outdated: Arc<Outdated>,
    pub(crate) error_lines: Arc<ErrorLines>,
    pub half_removed: Arc<HalfRemoved>,
    pub status: Arc<StatusReport>,
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
        let listing_cache = &fs.places.listing_cache;
        let names = Arc::new(NameLookup {
            fs: Arc::clone(&fs),
            written_here: Arc::clone(&fs.places.written_here),
            listing_cache: Arc::clone(listing_cache),
            absorbed: Arc::default(),
        });
        let attributes = Arc::new(EntryAttributes {
            fs: Arc::clone(&fs),
        });
        let reading = Arc::new(FileReading {
            fs: Arc::clone(&fs),
            outdated: Arc::clone(&fs.places.outdated),
            workers,
        });
        let error_lines = Arc::new(ErrorLines {
            fs: Arc::clone(&fs),
            attributes: Arc::clone(&attributes),
        });
        let xattrs = Arc::new(Xattrs::new(&fs, cache));
        let writing = TreeWriting::new(&names, &reading, &xattrs, &error_lines);
        let tree = Tree {
            listing: DirectoryListing {
                fs: Arc::clone(&fs),
                names: Arc::clone(&names),
                listing_cache: Arc::clone(listing_cache),
            },
            making: writing.making,
            removing: writing.removing,
            renames: writing.renames,
            contents: writing.contents,
            changes: writing.changes,
            closing: writing.closing,
            outdated: Arc::clone(&fs.places.outdated),
            half_removed: Arc::clone(&xattrs.half_removed),
            status: Arc::clone(&xattrs.status),
            fs,
            names,
            attributes,
            xattrs,
            reading,
            error_lines,
        };
        Ok((tree, receiver))
    }

    /// From now on access control lists are shown, and the kernel looks at them.
    pub fn show_lists(&self) {
        self.fs.settings.lists.show();
    }

    /// Renames, and makes a device 0:0 under the old name, which overlayfs takes for one. Not at
    /// once: after a crash between the two what lies below has its name again.
    pub fn rename_and_hide(
        &self,
        from: (InodeId, &OsStr),
        to: (InodeId, &OsStr),
        how: Renaming,
        caller: Caller,
    ) -> Result<()> {
        self.renames.rename(from, to, how)?;
        let whiteout = NewEntry::Special {
            kind: SpecialKind::CharDevice,
            mode: libc::S_IFCHR,
            device: 0,
        };
        match self.making.make(from.0, from.1, whiteout, caller) {
            Ok(made) => {
                self.names.forget(made.inode, 1);
                Ok(())
            }
            // The old name would hide nothing: nothing has happened.
            Err(e) => self
                .renames
                .rename(to, from, Renaming::NoReplace)
                .and(Err(e)),
        }
    }

    /// The value of an extended attribute. Where the kernel lets none be set, asking for the one
    /// that has something looked into again does that.
    pub(crate) fn xattr(&self, inode: InodeId, name: &OsStr) -> Result<Vec<u8>> {
        if name == xattr::REFRESH && self.fs.disk.is_none() {
            return self.changes.requests.refresh(inode).map(|()| Vec::new());
        }
        self.xattrs.xattr(inode, name)
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
