//! Which stored entry a name of the mount means.
//!
//! Tried in this order: the regular file `x.blp`; what else has the name, escaped or as it was
//! before there was a scratch mount; and, for `x~raw`, what lies beside `x.blp` under its name.
//! Uses [`super::names`]; used by [`super::store`], [`super::disk`] and [`super::renaming`].

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::names;
use crate::disk::Place;
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind, Stat, Store};

/// What a name leads to.
#[derive(Debug, Clone)]
pub(super) struct FoundEntry {
    /// The stored name.
    pub(super) name: OsString,
    pub(super) stat: Stat,
    /// It is a regular file that is stored as Bloscpack.
    pub(super) is_packed: bool,
}

/// A place of the mount, as it is stored.
pub(super) struct StoredPlace {
    pub(super) directory: PathBuf,
    pub(super) id: FileId,
    pub(super) shown: OsString,
}

impl StoredPlace {
    pub(super) fn named<'a>(&'a self, name: &'a OsStr) -> Place<'a> {
        Place {
            directory: &self.directory,
            id: self.id,
            name,
        }
    }
}

/// Asks for an entry of one directory.
pub(super) type Ask<'a> = &'a dyn Fn(&OsStr) -> Result<Stat>;

fn there(asked: Result<Stat>) -> Result<Option<Stat>> {
    match asked {
        Ok(stat) => Ok(Some(stat)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

/// What a name of the mount leads to in a directory.
pub(super) fn find(name: &OsStr, ask: Ask<'_>) -> Result<FoundEntry> {
    if name.len() > names::LONGEST as usize {
        return find_other(name, ask)?.ok_or_else(|| too_long(name));
    }
    if let Some(found) = find_packed(name, ask)? {
        return Ok(found);
    }
    if let Some(found) = find_other(name, ask)? {
        return Ok(found);
    }
    if let Some(of) = names::raw_of(name)
        && let Some(found) = find_other(of, ask)?
        && shown_as(of, ask)? == name
    {
        return Ok(found);
    }
    Err(Error::NotFound)
}

/// Nothing can be made under a longer name.
pub(super) fn check_length(name: &OsStr) -> Result<()> {
    match name.len() > names::LONGEST as usize {
        true => Err(too_long(name)),
        false => Ok(()),
    }
}

fn too_long(name: &OsStr) -> Error {
    let what = format!(
        "{}: a name has at most {} bytes",
        name.display(),
        names::LONGEST
    );
    Error::io(what, std::io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

fn find_packed(name: &OsStr, ask: Ask<'_>) -> Result<Option<FoundEntry>> {
    let stored = names::packed(name);
    let found = there(ask(&stored))?.filter(|stat| stat.kind == FileKind::File);
    Ok(found.map(|stat| FoundEntry {
        name: stored,
        stat,
        is_packed: true,
    }))
}

/// Something that is no regular file, or one that is stored as it is.
fn find_other(name: &OsStr, ask: Ask<'_>) -> Result<Option<FoundEntry>> {
    let found = |name: OsString, stat| FoundEntry {
        name,
        stat,
        is_packed: false,
    };
    let escaped = names::escaped(name);
    let is_shown =
        |stat: &Stat, name: &OsStr| stat.kind != FileKind::File || names::unpacked(name).is_none();
    if let Some(stat) = there(ask(&escaped))?.filter(|stat| is_shown(stat, &escaped)) {
        return Ok(Some(found(escaped, stat)));
    }
    if names::may_be_old(name) {
        let old = there(ask(name))?.filter(|stat| is_shown(stat, name));
        return Ok(old.map(|stat| found(name.to_owned(), stat)));
    }
    Ok(None)
}

/// What something that is no packed file is shown as, whose own name this is.
pub(super) fn shown_as(name: &OsStr, ask: Ask<'_>) -> Result<OsString> {
    if find_packed(name, ask)?.is_none() {
        return Ok(name.to_owned());
    }
    for number in 0..u32::MAX {
        let raw = names::raw_name(name, number);
        if find_packed(&raw, ask)?.is_none() && find_other(&raw, ask)?.is_none() {
            return Ok(raw);
        }
    }
    Ok(name.to_owned())
}

/// Where a directory of the mount lies in the store.
pub(super) fn directory(store: &dyn Store, shown: &Path) -> Result<PathBuf> {
    if !names::leads_through_marked(shown) {
        return Ok(shown.to_owned());
    }
    let mut stored = PathBuf::new();
    for name in shown {
        let escaped = names::escaped(name);
        let next = match escaped == name || there(store.stat(&stored.join(&escaped)))?.is_some() {
            true => escaped,
            false => name.to_owned(),
        };
        stored.push(next);
    }
    Ok(stored)
}
