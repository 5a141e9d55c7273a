//! Removing containers: entry by entry, as `rm -r` does it, and then the directory, which is the container.
//!
//! Used by [`super::names`].

use std::ffi::{OsStr, OsString};

use super::super::cookie::Cookie;
use super::super::entry_table::EntryIndex;
use super::super::listing::is_shown;
use super::super::node::{ContainerNode, Node};
use super::super::open_container::OpenContainer;
use super::super::{InodeId, Tree};
use super::{SourceDirectory, refused};
use crate::disk::Place;
use crate::error::{Error, Result};
use crate::source::{FileKind, Stat};

/// A name in a directory of a container.
enum Found {
    Entry(
        EntryIndex,
        std::sync::Arc<super::super::version::ContainerVersion>,
    ),
    /// It lies beside the container's files, in the directory that the container is.
    Beside(SourceDirectory),
    Guest(std::sync::Arc<super::super::version::ContainerVersion>),
}

impl Tree {
    /// Hides an entry of a container until the container itself is removed, or removes what lies beside its files.
    pub(super) fn unlink_inside(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        match self.find_inside(parent, name)? {
            Found::Entry(entry, version) => {
                let opened = self.open_version(&version)?;
                if opened.kind(entry)? == FileKind::Directory {
                    return Err(Error::IsADirectory);
                }
                version.hidden.add(entry);
            }
            Found::Beside(directory) => self.writable()?.unlink(directory.place(name))?,
            Found::Guest(version) => drop(self.remove_guest(&version, name)),
        }
        self.names_changed(parent);
        Ok(())
    }

    pub(super) fn remove_directory_inside(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        match self.find_inside(parent, name)? {
            Found::Entry(entry, version) => {
                let opened = self.open_version(&version)?;
                if opened.kind(entry)? != FileKind::Directory {
                    return Err(Error::NotADirectory);
                }
                if !is_empty(&opened, entry)? {
                    let path = self.inodes.path(version.container)?.join(name);
                    return Err(refused("remove", &path, libc::ENOTEMPTY));
                }
                version.hidden.add(entry);
            }
            Found::Beside(directory) => self.writable()?.remove_directory(directory.place(name))?,
            Found::Guest(_) => return Err(Error::NotADirectory),
        }
        self.names_changed(parent);
        Ok(())
    }

    fn find_inside(&self, parent: InodeId, name: &OsStr) -> Result<Found> {
        let (version, at) = match &*self.inodes.get(parent)? {
            Node::Container(container) => (self.current(parent, container)?, EntryIndex::ROOT),
            Node::Entry(version, entry) => (std::sync::Arc::clone(version), *entry),
            _ => return Err(Error::NotADirectory),
        };
        let opened = self.open_version(&version)?;
        match opened.find(at, name) {
            Some(entry) => Ok(Found::Entry(entry, version)),
            None if at == EntryIndex::ROOT && opened.shows_beside(name) => {
                let path = self.inodes.path(parent)?;
                let id = self.store.stat(&path)?.identity.id;
                Ok(Found::Beside(SourceDirectory::new(path, id)))
            }
            None if at == EntryIndex::ROOT && version.guests.has(name) => Ok(Found::Guest(version)),
            None => Err(Error::NotFound),
        }
    }

    /// Removes a container whose entries have been removed, all of them.
    pub(super) fn remove_container(
        &self,
        inode: InodeId,
        container: &ContainerNode,
        above: &SourceDirectory,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<()> {
        let version = self.current(inode, container)?;
        let opened = self.open_version(&version)?;
        let not_empty = || refused("remove", &above.join(name), libc::ENOTEMPTY);
        if !is_empty(&opened, EntryIndex::ROOT)? {
            return Err(not_empty());
        }
        let left = match stat.kind {
            FileKind::Directory => self.files_not_shown(&above.join(name), &opened)?,
            _ => Some(Vec::new()),
        };
        let removed = self.remove_files(above.place(name), stat, left.ok_or_else(not_empty)?);
        if removed.is_err() {
            version.hidden.clear();
            self.invalidate(inode, None);
        }
        removed
    }

    /// Removes a container's file, or its directory with these files in it.
    fn remove_files(&self, place: Place<'_>, stat: &Stat, files: Vec<OsString>) -> Result<()> {
        let disk = self.writable()?;
        if stat.kind != FileKind::Directory {
            return disk.unlink(place);
        }
        let (path, id) = (place.directory.join(place.name), stat.identity.id);
        for file in &files {
            let (directory, name) = (&*path, &**file);
            disk.unlink(Place {
                directory,
                id,
                name,
            })?;
        }
        disk.remove_directory(place)
    }

    /// What is left in the directory of a container: its own files. None if there is something else.
    fn files_not_shown(
        &self,
        path: &std::path::Path,
        opened: &OpenContainer,
    ) -> Result<Option<Vec<OsString>>> {
        let (mut files, mut others) = (Vec::new(), false);
        self.store.list(path, &mut |name, kind| {
            // A log of ours goes with what it is of.
            let is_other = is_shown(name) && opened.shows_beside(name);
            others |= kind == FileKind::Directory || is_other;
            files.push(name.to_owned());
        })?;
        Ok((!others).then_some(files))
    }
}

fn is_empty(opened: &OpenContainer, directory: EntryIndex) -> Result<bool> {
    let left = opened.children_after(directory, Cookie::START, 1)?;
    Ok(left.is_empty())
}
