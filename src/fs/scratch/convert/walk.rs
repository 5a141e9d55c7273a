//! The entries of a tree that is converted, a directory at a time, and what each is to become.
//!
//! Links are not followed, and what is mounted below is not entered. Names that a store and a plain
//! tree share stay; see [`super::super::names`] for the others, and [`super::log`] for those that
//! cannot be told apart. Used by [`super::plan`] and [`super::pass`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::find;
use super::super::names::{self, MARK_NAME};
use super::ConvertDirection;
use super::log::{ConvertLog, LOG_NAME};
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind, Listed, Stat, Store};

/// Names of new files, before they have those that they are made for; the inode of the file that
/// they stand for follows.
const TEMPORARY: [(ConvertDirection, &str); 2] = [
    (ConvertDirection::Pack, ".arrayfs-pack-"),
    (ConvertDirection::Unpack, ".arrayfs-unpack-"),
];

/// A directory that has been listed.
pub(super) struct WalkedDirectory {
    pub(super) path: Arc<Path>,
    pub(super) stat: Stat,
    pub(super) entries: HashMap<OsString, Stat>,
}

/// What becomes of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Becomes {
    /// It stays as it is.
    Same,
    /// It gets another name.
    Renamed(OsString),
    /// Its bytes are packed or unpacked, under another name.
    Converted(OsString),
    /// It lies there in the form that files are to have.
    StoredAlready,
}

pub(super) fn temporary_name(direction: ConvertDirection, of: FileId) -> OsString {
    let of_direction = TEMPORARY.iter().find(|(of, _)| *of == direction);
    let prefix = of_direction.map_or("", |(_, prefix)| prefix);
    OsString::from(format!("{prefix}{:x}", of.inode))
}

/// What a temporary name says: what was being done, and to which inode.
pub(super) fn temporary_of(name: &OsStr) -> Option<(ConvertDirection, u64)> {
    let name = name.to_str()?;
    TEMPORARY.iter().find_map(|(direction, prefix)| {
        let inode = u64::from_str_radix(name.strip_prefix(prefix)?, 16).ok()?;
        Some((*direction, inode))
    })
}

/// Lists a directory. What cannot be looked at is told.
pub(super) fn walked(
    store: &dyn Store,
    path: &Path,
    failed: &mut dyn FnMut(&Path, &Error),
) -> Result<WalkedDirectory> {
    // Before it is read, which changes its time of access.
    let stat = store.stat(path)?;
    let mut found = Vec::new();
    store.list(path, &mut |Listed { name, .. }| found.push(name.to_owned()))?;
    let mut entries = HashMap::with_capacity(found.len());
    for name in found {
        match store.stat(&path.join(&name)) {
            Ok(stat) => {
                entries.insert(name, stat);
            }
            Err(e) if e.is_not_found() => {}
            Err(e) => failed(&path.join(&name), &e),
        }
    }
    Ok(WalkedDirectory {
        path: path.into(),
        stat,
        entries,
    })
}

/// Directories of the tree below one that is listed. Those of other file systems are told.
pub(super) fn below(
    directory: &WalkedDirectory,
    foreign: &mut dyn FnMut(&Path),
) -> Vec<(OsString, PathBuf)> {
    let is_directory = |stat: &Stat| stat.kind == FileKind::Directory;
    let entries = directory.entries.iter();
    let mut found = Vec::new();
    for (name, stat) in entries.filter(|(_, stat)| is_directory(stat)) {
        let path = directory.path.join(name);
        let own = &directory.stat;
        let is_here = stat.id.device == own.id.device && stat.mount == own.mount;
        match is_here {
            true => found.push((name.clone(), path)),
            false => foreign(&path),
        }
    }
    found
}

impl WalkedDirectory {
    fn ask(&self, name: &OsStr) -> Result<Stat> {
        self.entries.get(name).cloned().ok_or(Error::NotFound)
    }

    pub(super) fn has(&self, name: &OsStr) -> bool {
        self.entries.contains_key(name)
    }

    /// Whether it has a name that a store or a conversion has for itself: it is no part of the
    /// tree, or it is left alone.
    pub(super) fn is_ours(&self, name: &OsStr) -> bool {
        let is_root = self.path.as_os_str().is_empty();
        is_root && (name == MARK_NAME || name == LOG_NAME)
            || temporary_of(name).is_some()
            || names::is_renaming(name)
    }

    /// Whether an entry with such a name was there before anything was changed.
    pub(super) fn is_of_tree(&self, name: &OsStr, log: &ConvertLog) -> bool {
        let (directory, entry) = (&self.stat.id, self.entries.get(name));
        entry.is_some_and(|entry| {
            let plain = log.plain_name(directory.inode, entry.id.inode, name);
            self.is_ours(name) && plain == Some(name)
        })
    }

    /// The other name that an entry has in a store, or outside of one, if that is to be written
    /// down: as `plain` and `stored`. `stored_names`: whether names are a store's now.
    pub(super) fn two_names(
        &self,
        name: &OsStr,
        direction: ConvertDirection,
        stored_names: bool,
    ) -> Option<(OsString, OsString)> {
        let stat = self.entries.get(name)?;
        let packed = names::unpacked(name).filter(|_| stat.kind == FileKind::File);
        if let Some(plain) = packed {
            // It will look like a stored file.
            return names::unpacked(plain).map(|_| (plain.to_owned(), name.to_owned()));
        }
        let other = match stat.kind {
            FileKind::File => name.to_owned(),
            _ => names::escaped(name),
        };
        let (plain, stored) = match (stored_names, direction) {
            (false, ConvertDirection::Pack) => (name.to_owned(), other),
            (false, ConvertDirection::Unpack) => return None,
            (true, _) if names::unescaped(name) == name && !self.is_hidden_by_packed(name) => {
                // As it was before there was a scratch mount.
                (name.to_owned(), other)
            }
            (true, _) => {
                let own = names::unescaped(name);
                let shown = match direction {
                    // What has the name of a stored file is left alone.
                    ConvertDirection::Pack => own.to_owned(),
                    _ => find::shown_as(own, &|name| self.ask(name)).ok()?,
                };
                (shown, name.to_owned())
            }
        };
        (plain != stored).then_some((plain, stored))
    }

    /// A stored file has the name that it would be shown by.
    fn is_hidden_by_packed(&self, name: &OsStr) -> bool {
        let packed = self.entries.get(&names::packed(name));
        packed.is_some_and(|packed| packed.kind == FileKind::File)
    }

    pub(super) fn becomes(
        &self,
        name: &OsStr,
        direction: ConvertDirection,
        log: &ConvertLog,
    ) -> Becomes {
        let Some(stat) = self.entries.get(name).filter(|_| !self.is_ours(name)) else {
            return Becomes::Same;
        };
        let (directory, entry) = (self.stat.id.inode, stat.id.inode);
        let is_file = stat.kind == FileKind::File;
        let has_name = |name: &OsStr| self.has(name);
        let is_stored = is_file
            && names::unpacked(name).is_some()
            && !log.is_unpacked(directory, name, &has_name);
        let renamed = |to: Option<&OsStr>| match to {
            Some(to) => Becomes::Renamed(to.to_owned()),
            None => Becomes::Same,
        };
        match direction {
            ConvertDirection::Pack if is_stored => Becomes::StoredAlready,
            ConvertDirection::Pack if is_file => {
                let plain = log.plain_name(directory, entry, name).unwrap_or(name);
                Becomes::Converted(names::packed(plain))
            }
            ConvertDirection::Pack => renamed(log.stored_name(directory, entry, name)),
            ConvertDirection::Unpack if is_stored => match names::unpacked(name) {
                Some(plain) => Becomes::Converted(plain.to_owned()),
                None => Becomes::Same,
            },
            ConvertDirection::Unpack => renamed(log.plain_name(directory, entry, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_lead_back() {
        let id = FileId {
            inode: 0xabc,
            ..FileId::default()
        };
        for direction in [ConvertDirection::Pack, ConvertDirection::Unpack] {
            let name = temporary_name(direction, id);
            assert_eq!(temporary_of(&name), Some((direction, 0xabc)));
        }
        assert_eq!(temporary_of(OsStr::new(".arrayfs-pack-x")), None);
        assert_eq!(temporary_of(OsStr::new("x")), None);
    }
}
