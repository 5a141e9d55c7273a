//! Entries of the source: what they are recognised as, and their inodes.
//!
//! An entry is looked into once per version of it. What could not be looked into is never remembered as
//! an ordinary file.

use std::path::{Path, PathBuf};

use super::inode::{Key, Node, Place};
use super::{Attr, Tree};
use crate::container::{self, Candidate, Preferences, Recognised};
use crate::error::Result;
use crate::source::{Kind, Stat, Store};

/// What looking into an entry of the source came to.
pub(super) enum Recognition {
    Container(Recognised),
    Ordinary,
    /// It may not be read: shown as it is, and asked again the next time.
    Unknown,
}

impl Recognition {
    pub(super) fn known(self) -> Option<Recognised> {
        match self {
            Recognition::Container(recognised) => Some(recognised),
            Recognition::Ordinary | Recognition::Unknown => None,
        }
    }
}

pub(super) fn recognise(
    store: &dyn Store,
    path: &Path,
    stat: &Stat,
    preferences: Preferences,
) -> Result<Recognition> {
    if stat.kind != Kind::File && stat.kind != Kind::Directory {
        return Ok(Recognition::Ordinary);
    }
    let candidate = Candidate::new(store, path, stat.kind, preferences);
    match container::recognise(&candidate) {
        Ok(Some(recognised)) => Ok(Recognition::Container(recognised)),
        Ok(None) => Ok(Recognition::Ordinary),
        Err(e) if e.is_permission_denied() => Ok(Recognition::Unknown),
        Err(e) => Err(e),
    }
}

/// A file that becomes a container, or is replaced by another file, is another inode: the kernel
/// neither lets an inode change its type nor two files share their cached pages.
fn source_key(path: &Path, stat: &Stat, recognised: Option<&Recognised>) -> Key {
    let (path, kind) = (PathBuf::from(path), stat.kind);
    match (recognised, kind) {
        (Some(_), _) => Key::Container { path, kind },
        (None, Kind::File) => Key::File {
            path,
            id: stat.identity.id(),
        },
        (None, kind) => Key::Source { path, kind },
    }
}

impl Tree {
    /// An entry of the source, with its inode.
    pub(super) fn enter_source(&self, path: &Path) -> Result<Attr> {
        let stat = self.store.stat(path)?;
        let recognised = self.recognise_once(path, &stat)?;
        self.enter_stat(path, &stat, recognised)
    }

    /// The same for a listing, which leaves nothing out: what cannot be looked into now is shown as it
    /// is stored, until it is looked up.
    pub(super) fn enter_source_listed(&self, path: &Path) -> Result<Attr> {
        let stat = self.store.stat(path)?;
        let recognised = self.recognise_once(path, &stat);
        self.enter_stat(path, &stat, recognised.unwrap_or(Recognition::Unknown))
    }

    fn enter_stat(&self, path: &Path, stat: &Stat, recognition: Recognition) -> Result<Attr> {
        let for_good = !matches!(recognition, Recognition::Unknown);
        let recognised = recognition.known();
        let key = source_key(path, stat, recognised.as_ref());
        let name = path.file_name().unwrap_or_default();
        let file = match &key {
            Key::File { id, .. } => Some(*id),
            _ => None,
        };
        let node = || {
            let path = path.to_owned();
            let place = Place::Source { path, file };
            Node::new(place, stat.kind, recognised.clone())
        };
        let inode = self.inodes.enter(key, name, node);
        let node = self.inodes.get(inode)?;
        if for_good {
            node.recognised_as(recognised, stat.identity);
        }
        self.notice_change(inode, &node);
        Ok(self.source_attr(inode, &node, stat))
    }

    /// Recognises an entry, or recalls what it was: its first bytes are read once per version.
    pub(super) fn recognise_once(&self, path: &Path, stat: &Stat) -> Result<Recognition> {
        if stat.kind == Kind::File
            && let Some(known) = self.inodes.recall(path, stat.identity)
        {
            return Ok(known.map_or(Recognition::Ordinary, Recognition::Container));
        }
        recognise(&*self.store, path, stat, self.settings.preferences)
    }
}
