//! Listing directories: a snapshot of the names when a directory is opened, attributes when they are
//! asked for.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::entries::EntryIndex;
use super::inode::Place;
use super::opened::Opened;
use super::recognition::Recognition;
use super::version::Version;
use super::{Attr, InodeId, Tree};
use crate::error::{Error, Result};
use crate::source::Kind;

/// One name of an opened directory.
#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    pub name: OsString,
    origin: Origin,
}

#[derive(Debug, Clone, Copy)]
enum Origin {
    Source,
    Inside(EntryIndex),
}

/// The names of a directory at one moment.
pub struct Listing {
    pub entries: Vec<DirectoryEntry>,
    place: ListedPlace,
}

enum ListedPlace {
    Source,
    Inside {
        version: Arc<Version>,
        opened: Arc<Opened>,
    },
}

impl Tree {
    /// The names in a directory, as they are now.
    pub fn list(&self, inode: InodeId) -> Result<Listing> {
        let node = self.inodes.get(inode)?;
        match &node.place {
            Place::Source { path, .. } if node.is_container() => {
                let version = self.current(inode, &node)?;
                let mut listing = self.list_inside(&version, EntryIndex::ROOT)?;
                if node.kind == Kind::Directory {
                    self.list_beside(path, &mut listing)?;
                }
                Ok(listing)
            }
            Place::Source { path, .. } if node.kind == Kind::Directory => {
                let entries = self.source_names(path, |_| true)?;
                Ok(Listing {
                    entries,
                    place: ListedPlace::Source,
                })
            }
            Place::Source { .. } => Err(Error::NotADirectory),
            Place::Inside { version, entry } => {
                self.check_current(version)?;
                self.list_inside(version, *entry)
            }
        }
    }

    /// The kernel has read a listing to its end, and keeps it. What belongs to a version of a container
    /// stays as it is; a directory of the source is to be asked for again the next time.
    pub fn listed_to_the_end(&self, inode: InodeId) {
        if let Ok(node) = self.inodes.get(inode)
            && let Place::Source { .. } = node.place
            && (!node.is_container() || node.kind == Kind::Directory)
        {
            self.invalidate(inode, None);
        }
    }

    /// An entry of a listing with its inode; counts one look-up. The entry may have gone meanwhile.
    pub fn enter_listed(
        &self,
        directory: InodeId,
        listing: &Listing,
        entry: &DirectoryEntry,
    ) -> Result<Attr> {
        match (&listing.place, entry.origin) {
            (ListedPlace::Inside { version, opened }, Origin::Inside(index)) => {
                self.enter(version, opened, index, &entry.name)
            }
            _ => match &self.inodes.get(directory)?.place {
                Place::Source { path, .. } => self.enter_source_listed(&path.join(&entry.name)),
                Place::Inside { .. } => Err(Error::NotFound),
            },
        }
    }

    /// What a listed entry is, without an inode.
    pub fn listed_kind(
        &self,
        directory: InodeId,
        listing: &Listing,
        entry: &DirectoryEntry,
    ) -> Result<Kind> {
        match (&listing.place, entry.origin) {
            (ListedPlace::Inside { opened, .. }, Origin::Inside(index)) => opened.kind(index),
            _ => match &self.inodes.get(directory)?.place {
                Place::Source { path, .. } => self.shown_kind(&path.join(&entry.name)),
                Place::Inside { .. } => Err(Error::NotFound),
            },
        }
    }

    fn shown_kind(&self, path: &Path) -> Result<Kind> {
        let stat = self.store.stat(path)?;
        match self.recognise_once(path, &stat) {
            Ok(Recognition::Container(_)) => Ok(Kind::Directory),
            _ => Ok(stat.kind),
        }
    }

    fn list_inside(&self, version: &Arc<Version>, directory: EntryIndex) -> Result<Listing> {
        let opened = self.open_version(version)?;
        let mut entries = Vec::new();
        for index in opened.children(directory)? {
            let name = opened.name(index)?.clone();
            entries.push(DirectoryEntry {
                name,
                origin: Origin::Inside(index),
            });
        }
        let place = ListedPlace::Inside {
            version: Arc::clone(version),
            opened,
        };
        Ok(Listing { entries, place })
    }

    /// Files that lie in a container's directory without being part of it.
    fn list_beside(&self, path: &Path, listing: &mut Listing) -> Result<()> {
        let ListedPlace::Inside { opened, .. } = &listing.place else {
            return Ok(());
        };
        let opened = Arc::clone(opened);
        let beside = self.source_names(path, |name| {
            opened.shows_beside(name) && opened.find(EntryIndex::ROOT, name).is_none()
        })?;
        listing.entries.extend(beside);
        Ok(())
    }

    fn source_names(
        &self,
        path: &Path,
        wanted: impl Fn(&std::ffi::OsStr) -> bool,
    ) -> Result<Vec<DirectoryEntry>> {
        let entries = self
            .store
            .list(path)?
            .into_iter()
            .filter(|entry| wanted(&entry.name));
        Ok(entries
            .map(|e| DirectoryEntry {
                name: e.name,
                origin: Origin::Source,
            })
            .collect())
    }
}
