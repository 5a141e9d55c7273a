//! Scratch mode: a directory whose files are stored compressed, without the programs that use it
//! knowing.
//!
//! It lies between `tree` and the local source, and has the same traits: [`ScratchStore`] shows
//! stored files as what they hold, [`ScratchDisk`] changes them. Each regular file is one Bloscpack
//! file, which keeps its inode for life; so hard links, open unlinked files, owners and quotas are
//! the source's own.
//!
//! The way of a write: [`handles`] checks it and has room reserved ([`reserve`]), [`content`] holds
//! it in chunks, [`room`] says when it is stored, [`flush`] has it encoded ([`encode`]), laid out
//! ([`merge`]) and written, at once or by a [`redo`]; [`logging`] is what an fsync costs, [`tail`]
//! how both look. The way of a read: [`content`], then the cache, then [`base`]. [`names`] and
//! [`find`] know how names are stored, and [`recovery`] what a crash leaves.
//!
//! Assumes that no other daemon writes to the store (`cli::writing`). Used by `cli::mount`.

mod append;
mod base;
mod bytes;
mod content;
mod convert;
mod disk;
mod encode;
mod file;
mod find;
mod flush;
mod handles;
mod holes;
mod logging;
mod merge;
mod names;
mod recovery;
mod redo;
mod reserve;
mod room;
mod store;
mod tail;
#[cfg(test)]
mod tests;

pub use convert::{ConvertDirection, ConvertWatch, Converted, convert};
pub use encode::EncodeOptions;

use std::path::PathBuf;
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::source::Store;
use disk::ScratchDisk;
use recovery::StoreMark;
use room::ScratchRoom;
use store::ScratchStore;

/// A store that is mounted for scratch.
pub struct ScratchMount {
    store: Arc<ScratchStore>,
    disk: Option<(Arc<ScratchDisk>, StoreMark)>,
    /// Whether nothing is left of an earlier crash.
    is_whole: bool,
}

impl ScratchMount {
    /// Over a directory; `disk`: what it is changed through, if it may be. Recovers first what a
    /// crash has left.
    pub fn new(
        inner: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        cache: Arc<BlockCache>,
        options: EncodeOptions,
    ) -> Result<ScratchMount> {
        let room = ScratchRoom::new(cache, options, Arc::clone(&inner), disk.clone());
        let store = Arc::new(ScratchStore { inner, room });
        let Some(inner) = disk else {
            return Ok(ScratchMount {
                store,
                disk: None,
                is_whole: true,
            });
        };
        let disk = Arc::new(ScratchDisk {
            store: Arc::clone(&store),
            inner,
        });
        let (mark, since) = StoreMark::open(&disk)?;
        let is_whole = since.is_none_or(|since| recovery::recover(&disk, since));
        mark.begin(&*disk.inner)?;
        if let Some(since) = since.filter(|_| !is_whole) {
            mark.still(&*disk.inner, since)?;
        }
        Ok(ScratchMount {
            store,
            disk: Some((disk, mark)),
            is_whole,
        })
    }

    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.as_ref().map(|(disk, _)| Arc::clone(disk) as _)
    }

    /// Stores everything. Returns what could not be, and why.
    pub fn settle(&self) -> Vec<(PathBuf, Error)> {
        let failed = self.store.room.settle().into_iter();
        failed.map(|(file, e)| (file.path.clone(), e)).collect()
    }

    /// Everything has been stored, and has reached the disk.
    pub fn end(&self) -> Result<()> {
        match &self.disk {
            Some((disk, mark)) if self.is_whole => mark.end(&*disk.inner),
            _ => Ok(()),
        }
    }
}
