//! Opened directories: a snapshot of the names each, so that listing survives changes meanwhile.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::source::Kind;
use crate::tree::{Attr, InodeId, Listing, Tree};

#[derive(Default)]
pub(super) struct Directories {
    table: Mutex<(u64, HashMap<u64, Arc<Listing>>)>,
}

/// One name to be told to the kernel.
pub(super) enum Named<'a> {
    /// `.` and `..`: no look-up is counted for them.
    Dot(&'static str),
    Entry(&'a OsStr),
}

impl Directories {
    pub(super) fn open(&self, tree: &Tree, inode: InodeId) -> Result<u64> {
        let listing = Arc::new(tree.list(inode)?);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.0 += 1;
        let handle = table.0;
        table.1.insert(handle, listing);
        Ok(handle)
    }

    pub(super) fn get(&self, handle: u64) -> Result<Arc<Listing>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.1.get(&handle).cloned().ok_or(Error::NotFound)
    }

    pub(super) fn close(&self, handle: u64) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = table.1.remove(&handle);
        drop(table);
        drop(closed);
    }
}

/// Tells the names from `offset` on; `tell` returns true when the kernel's buffer is full. The offset
/// given with a name is that of the next one.
pub(super) fn kinds(
    tree: &Tree,
    inode: InodeId,
    listing: &Listing,
    offset: u64,
    mut tell: impl FnMut(Named<'_>, u64, Kind) -> bool,
) {
    each(listing, offset, |name, next| match name {
        Step::Dot(name) => tell(Named::Dot(name), next, Kind::Directory),
        Step::Entry(entry) => match tree.listed_kind(inode, listing, entry) {
            Ok(kind) => tell(Named::Entry(&entry.name), next, kind),
            // It has gone since the directory was opened.
            Err(_) => false,
        },
    });
}

/// As [`kinds`], with attributes; the kernel counts one look-up for every name that it was told.
pub(super) fn attributes(
    tree: &Tree,
    inode: InodeId,
    listing: &Listing,
    offset: u64,
    mut tell: impl FnMut(Named<'_>, u64, Option<&Attr>) -> bool,
) {
    each(listing, offset, |name, next| match name {
        Step::Dot(name) => tell(Named::Dot(name), next, None),
        Step::Entry(entry) => match tree.enter_listed(inode, listing, entry) {
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
    });
}

enum Step<'a> {
    Dot(&'static str),
    Entry(&'a crate::tree::DirectoryEntry),
}

fn each(listing: &Listing, offset: u64, mut step: impl FnMut(Step<'_>, u64) -> bool) {
    let mut at = offset;
    loop {
        let full = match at {
            0 => step(Step::Dot("."), 1),
            1 => step(Step::Dot(".."), 2),
            n => match usize::try_from(n - 2)
                .ok()
                .and_then(|i| listing.entries.get(i))
            {
                Some(entry) => step(Step::Entry(entry), n + 1),
                None => return,
            },
        };
        if full {
            return;
        }
        at += 1;
    }
}
