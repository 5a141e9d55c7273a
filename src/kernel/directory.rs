//! Listing directories without handles: the kernel is told that opening one needs no request, which
//! halves the requests of a `find` through thousands of containers.
//!
//! A listing is a snapshot of the names, taken when it is read from the beginning. What does not fit
//! into one reply is kept for the next; the offset given with a name says which snapshot and which
//! name comes next. The kernel caches what it has read: right for the entries of one version of a
//! container, and dropped again for directories of the source, which change without a word.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use crate::error::Result;
use crate::source::Kind;
use crate::tree::{Attr, DirectoryEntry, InodeId, Listing, Tree};

/// Unfinished listings kept; a reader of an older one goes on by number in a new snapshot.
const KEPT: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Offset after the last name: reading on from here costs nothing.
const END: u64 = 1 << 62;

/// The names from one offset on.
pub(super) struct Snapshot {
    id: u32,
    /// Number of the next name; `.` and `..` are 0 and 1.
    next: usize,
    listing: Arc<Listing>,
}

pub(super) struct Directories {
    /// With their directories: an offset that one gave says nothing in another.
    unfinished: Mutex<LruCache<u32, (InodeId, Arc<Listing>)>>,
    ids: AtomicU32,
}

impl Default for Directories {
    fn default() -> Self {
        Directories {
            unfinished: Mutex::new(LruCache::new(KEPT)),
            ids: AtomicU32::new(0),
        }
    }
}

/// One name to be told to the kernel.
pub(super) enum Named<'a> {
    /// `.` and `..`: no look-up is counted for them.
    Dot(&'static str),
    Entry(&'a OsStr),
}

impl Named<'_> {
    pub(super) fn as_os_str(&self) -> &OsStr {
        match self {
            Named::Dot(name) => OsStr::new(name),
            Named::Entry(name) => name,
        }
    }
}

impl Directories {
    /// The names from `offset` on, or nothing at the end.
    pub(super) fn read(
        &self,
        tree: &Tree,
        inode: InodeId,
        offset: u64,
    ) -> Result<Option<Snapshot>> {
        if offset == END {
            tree.listed_to_the_end(inode);
            return Ok(None);
        }
        let (id, next) = ((offset >> 32) as u32, (offset & 0xffff_ffff) as usize);
        let kept = if offset == 0 {
            None
        } else {
            self.take(id, inode)
        };
        let snapshot = match kept {
            Some(listing) => Snapshot { id, next, listing },
            None => Snapshot {
                id: self.ids.fetch_add(1, Ordering::Relaxed) % (1 << 29) + 1,
                next,
                listing: Arc::new(tree.list(inode)?),
            },
        };
        Ok(Some(snapshot))
    }

    /// Keeps what did not fit.
    pub(super) fn keep(&self, inode: InodeId, snapshot: Snapshot) {
        let mut unfinished = self
            .unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let dropped = unfinished.push(snapshot.id, (inode, snapshot.listing));
        drop(unfinished);
        drop(dropped);
    }

    fn take(&self, id: u32, inode: InodeId) -> Option<Arc<Listing>> {
        let mut unfinished = self
            .unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        unfinished.peek(&id).filter(|(of, _)| *of == inode)?;
        unfinished.pop(&id).map(|(_, listing)| listing)
    }
}

impl Snapshot {
    /// Tells names and kinds until `tell` returns true: the kernel's buffer is full. The offset given
    /// with a name is that of the next one. Returns whether everything was told.
    pub(super) fn kinds(
        &self,
        tree: &Tree,
        inode: InodeId,
        mut tell: impl FnMut(Named<'_>, u64, Kind) -> bool,
    ) -> bool {
        self.each(|step, next| match step {
            Step::Dot(name) => tell(Named::Dot(name), next, Kind::Directory),
            Step::Entry(entry) => match tree.listed_kind(inode, &self.listing, entry) {
                Ok(kind) => tell(Named::Entry(&entry.name), next, kind),
                // It has gone since the names were read.
                Err(_) => false,
            },
        })
    }

    /// As [`Snapshot::kinds`], with attributes; the kernel counts one look-up for every entry that it
    /// was told.
    pub(super) fn attributes(
        &self,
        tree: &Tree,
        inode: InodeId,
        mut tell: impl FnMut(Named<'_>, u64, Option<&Attr>) -> bool,
    ) -> bool {
        self.each(|step, next| match step {
            Step::Dot(name) => tell(Named::Dot(name), next, None),
            Step::Entry(entry) => match tree.enter_listed(inode, &self.listing, entry) {
                Ok(attr) => {
                    let full = tell(Named::Entry(&entry.name), next, Some(&attr));
                    if full {
                        tree.forget(attr.inode, 1);
                    }
                    full
                }
                Err(e) => {
                    log::debug!("{}: {e}", entry.name.display());
                    false
                }
            },
        })
    }

    fn each(&self, mut step: impl FnMut(Step<'_>, u64) -> bool) -> bool {
        let count = self.listing.entries.len() + 2;
        for at in self.next..count {
            let next = if at + 1 == count {
                END
            } else {
                self.offset(at + 1)
            };
            let full = match at {
                0 => step(Step::Dot("."), next),
                1 => step(Step::Dot(".."), next),
                n => step(Step::Entry(&self.listing.entries[n - 2]), next),
            };
            if full {
                return false;
            }
        }
        true
    }

    fn offset(&self, name: usize) -> u64 {
        u64::from(self.id) << 32 | name as u64
    }
}

enum Step<'a> {
    Dot(&'static str),
    Entry(&'a DirectoryEntry),
}
