//! Listing directories without handles: our first answer says that opening one needs no request,
//! which halves the requests of a `find` through thousands of containers.
//!
//! So listings are not told apart: each request says where to go on, and the tree's places
//! ([`Cookie`]) are good for that whatever happens to the directory. The kernel caches what it has
//! read: right for the entries of one version of a container, and dropped again for directories of
//! the source, which change without a word.

use std::ffi::OsStr;

use crate::error::{Error, Result};
use crate::source::FileKind;
use crate::tree::{Cookie, InodeId, ListedEntry, ListingStep, Tree};

/// Stand before all names.
const DOTS: [(&str, Cookie); 2] = [(".", Cookie(1)), ("..", Cookie(2))];

/// Passes names and kinds from `offset` on to `tell` until it returns true: the kernel's buffer is
/// full. With a name goes the offset to go on from after it.
pub(super) fn kinds(
    tree: &Tree,
    directory: InodeId,
    offset: u64,
    mut tell: impl FnMut(&OsStr, u64, FileKind) -> bool,
) -> Result<()> {
    each(tree, directory, Cookie(offset), |step, name, next| {
        let kind = step.map_or(Some(FileKind::Directory), |step| {
            tree.listing.listed_kind(step, name)
        });
        match kind {
            Some(kind) => Telling::of(tell(name, next.0, kind)),
            None => Telling::Gone,
        }
    })
}

/// As [`kinds`], with attributes, but for `.` and `..`; the kernel counts one look-up for every
/// entry that it gets.
pub(super) fn attributes(
    tree: &Tree,
    directory: InodeId,
    offset: u64,
    mut tell: impl FnMut(&OsStr, u64, Option<&ListedEntry>) -> bool,
) -> Result<()> {
    each(tree, directory, Cookie(offset), |step, name, next| {
        let Some(step) = step else {
            return Telling::of(tell(name, next.0, None));
        };
        let entry = match tree.listing.enter_listed(step, name) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Telling::Gone,
            Err(e) => return Telling::Refused(e),
        };
        let full = tell(name, next.0, Some(&entry));
        if full {
            tree.names.forget(entry.attr.inode, 1);
        }
        Telling::of(full)
    })
}

/// What became of one name.
enum Telling {
    Told,
    /// The kernel's buffer has no room for it.
    Full,
    /// It has gone since the names were read.
    Gone,
    /// There is no memory for it: the next request begins with it again.
    Refused(Error),
}

impl Telling {
    fn of(full: bool) -> Telling {
        if full { Telling::Full } else { Telling::Told }
    }
}

/// Passes on `.` and `..`, which are in no step, and names until the buffer is full or there are no
/// more.
fn each(
    tree: &Tree,
    directory: InodeId,
    after: Cookie,
    mut tell: impl FnMut(Option<&ListingStep>, &OsStr, Cookie) -> Telling,
) -> Result<()> {
    let (mut place, mut filled) = (after, false);
    while place != Cookie::END {
        let step = tree.listing.list(directory, place)?;
        let names = step.names();
        let end = match names.last() {
            Some((last, _)) if !step.is_last() => *last,
            _ => Cookie::END,
        };
        let next = |at: Cookie, last: bool| if last { end } else { at };
        for (dot, at) in DOTS {
            if at > place {
                let last = at == DOTS[1].1 && names.is_empty();
                match tell(None, OsStr::new(dot), next(at, last)) {
                    Telling::Full => return Ok(()),
                    _ => filled = true,
                }
            }
        }
        for (number, (at, name)) in names.iter().enumerate() {
            match tell(Some(&step), name, next(*at, number + 1 == names.len())) {
                Telling::Full => return Ok(()),
                Telling::Told => filled = true,
                Telling::Gone => {}
                Telling::Refused(_) if filled => return Ok(()),
                Telling::Refused(e) => return Err(e),
            }
        }
        place = end;
    }
    // An answer without a name is the end for the kernel.
    if !filled {
        tree.listing.listed_to_the_end(directory);
    }
    Ok(())
}
