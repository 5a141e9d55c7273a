//! Removing names: of files, of directories, and of containers entry by entry, as `rm -r` does it,
//! and then the directory, which is the container.
//!
//! Used by `kernel::adapter`.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::super::arrival::is_shown;
use super::super::container_directory::ContainerDirectory;
use super::super::half_removed::HalfRemoved;
use super::super::inode::{Dirent, InodeId};
use super::super::lookup::NameLookup;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::directories::{SourceDirectories, spot_in};
use crate::commit::added::{added_of, remove_empty};
use crate::disk::Place;
use crate::error::{Error, Result};
use crate::live::directory::SourceDirectory;
use crate::live::shown::cookie::Cookie;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::{OpenContainer, Views};
use crate::live::{LiveContainer, refused};
use crate::source::{FileKind, Listed, Stat};

/// The warning about an array that was removed while its container stays.
pub const COMES_BACK: &str = "is there again: an array is only removed with its container (rm -r)";

/// Removes what `unlink` and `rmdir` name.
pub(crate) struct Removing {
    pub(super) fs: Arc<MountedFs>,
    pub(super) names: Arc<NameLookup>,
    pub(super) half_removed: Arc<HalfRemoved>,
    pub(super) directories: Arc<SourceDirectories>,
}

impl Removing {
    /// Removes a name that is no directory's.
    pub fn unlink(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        let disk = self.fs.live.ground.writable()?;
        let _stays = self.fs.live.new.shared();
        if self.removes_entry(parent, name, false)? {
            return Ok(());
        }
        let directory = self.directories.find(parent)?;
        let (link, stat) = (
            Dirent::new(parent, name),
            self.fs.store.stat(&directory.join(name))?,
        );
        self.directories.as_looked_up(&link, &stat)?;
        disk.unlink(directory.place(name))?;
        self.directories.forget_name(&link, &stat);
        self.directories.tidy_added(parent);
        Ok(())
    }

    /// Removes a directory: of the source, if it is empty, or of a container.
    pub fn remove_directory(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        let disk = self.fs.live.ground.writable()?;
        if self.removes_entry(parent, name, true)? {
            return Ok(());
        }
        let directory = self.directories.find(parent)?;
        let link = Dirent::new(parent, name);
        let stat = self.fs.store.stat(&directory.join(name))?;
        let (inode, node) = self.directories.as_looked_up(&link, &stat)?;
        match &*node {
            Node::Container(container) => {
                let at = spot_in(&directory, name);
                let logs = self.fs.live.discarding.logs_beside(&at);
                let place = directory.place(name);
                match self
                    .fs
                    .live
                    .drafts
                    .remove_new(inode.into(), container, place)
                {
                    Some(removed) => removed?,
                    None => self.remove_container(inode, container, &directory, name, &stat)?,
                }
                self.fs.live.discarding.discard_removed(container);
                self.fs.live.discarding.remove_logs(&at, &logs);
            }
            _ => disk.remove_directory(directory.place(name))?,
        }
        self.directories.forget_name(&link, &stat);
        Ok(())
    }

    /// Hides an entry of a container until the container itself is removed. False if the name is
    /// none of a container's own: what lies beside its arrays is removed as any other file.
    fn removes_entry(&self, parent: InodeId, name: &OsStr, is_directory: bool) -> Result<bool> {
        let (version, at) = match &*self.fs.inodes.get(parent)? {
            Node::Container(container) if !container.new.is_new() => (
                self.fs.live.current.version_of(parent.into(), container)?,
                EntryIndex::ROOT,
            ),
            Node::Entry(version, entry) => (Arc::clone(version), *entry),
            _ => return Ok(false),
        };
        let opened = self.fs.live.opener.open(&version)?;
        let Some(entry) = opened.find(at, name) else {
            return match opened.group_path(at).is_some() && opened.shows_beside(at, name) {
                true => Ok(false),
                false => Err(Error::NotFound),
            };
        };
        // What is only read, and is a tree of files, is not taken apart name by name.
        let recognised = &version.recognised;
        if !recognised.format.is_changed() && !recognised.layout().is_file() {
            let path = self.fs.inodes.path(version.container.into())?.join(name);
            return Err(refused("remove", &path, libc::EROFS));
        }
        match (opened.kind(entry)? == FileKind::Directory, is_directory) {
            (true, false) => return Err(Error::IsADirectory),
            (false, true) => return Err(Error::NotADirectory),
            _ => {}
        }
        if is_directory
            && !(is_empty(&opened, entry, self.fs.settings.views)?
                && self.is_bare((parent, name))?)
        {
            let path = self.fs.inodes.path(version.container.into())?.join(name);
            return Err(refused("remove", &path, libc::ENOTEMPTY));
        }
        // No listing has led anybody there, so this is no `rm -r` on its way.
        let is_in_views =
            opened.group_path(at).is_none() || is_directory && opened.group_path(entry).is_none();
        if is_in_views && self.fs.settings.views == Views::Unlisted {
            let path = self.fs.inodes.path(version.container.into())?.join(name);
            return Err(refused("remove", &path, libc::EPERM));
        }
        version.tombstones.add(entry);
        self.half_removed.remember(&version);
        self.directories.names_changed(parent);
        Ok(true)
    }

    /// Whether no file lies in a group beside its arrays.
    fn is_bare(&self, (parent, name): (InodeId, &OsStr)) -> Result<bool> {
        let Some(above) = ContainerDirectory::find(&self.fs, parent)? else {
            return Ok(true);
        };
        let path = above.found_beside(&self.fs)?.map(|path| path.join(name));
        match path.map(|path| self.directories.is_empty(&path)) {
            Some(Err(e)) if e.is_not_found() => Ok(true),
            Some(is_empty) => is_empty,
            None => Ok(true),
        }
    }

    /// Removes a container whose entries have been removed, all of them.
    fn remove_container(
        &self,
        inode: InodeId,
        container: &LiveContainer,
        above: &SourceDirectory,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<()> {
        let version = self.fs.live.current.version_of(inode.into(), container)?;
        let opened = self.fs.live.opener.open(&version)?;
        let not_empty = || refused("remove", &above.join(name), libc::ENOTEMPTY);
        if !is_empty(&opened, EntryIndex::ROOT, self.fs.settings.views)? {
            return Err(not_empty());
        }
        let left = match stat.kind {
            FileKind::Directory => self.files_not_shown(&above.join(name), &opened)?,
            _ => {
                let path = above.join(name);
                if added_of(&*self.fs.store, &path)?.is_some() {
                    let (disk, spot) = (
                        self.fs.live.ground.writable()?,
                        self.fs.live.ground.spot(&path)?,
                    );
                    remove_empty(disk, &*self.fs.store, &spot)?;
                }
                Some(Vec::new())
            }
        };
        let removed = self.remove_files(above.place(name), stat, left.ok_or_else(not_empty)?);
        if removed.is_err() {
            version.tombstones.clear();
            self.fs.places.invalidate(inode, None);
        }
        if self.half_removed.remove(inode) {
            self.fs.inodes.let_go(inode);
            self.names.forget(inode, 1);
        }
        removed
    }

    /// Removes a container's file, or its directory with these files in it.
    fn remove_files(&self, place: Place<'_>, stat: &Stat, files: Vec<OsString>) -> Result<()> {
        let disk = self.fs.live.ground.writable()?;
        if stat.kind != FileKind::Directory {
            return disk.unlink(place);
        }
        let (path, id) = (place.directory.join(place.name), stat.id);
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

    /// What is left in the directory of a container: its own files. None if there is something
    /// else.
    fn files_not_shown(
        &self,
        path: &std::path::Path,
        opened: &OpenContainer,
    ) -> Result<Option<Vec<OsString>>> {
        let (mut files, mut others) = (Vec::new(), false);
        self.fs.store.list(path, &mut |Listed { name, kind, .. }| {
            // A log of ours goes with what it is of.
            let is_other = is_shown(name) && opened.shows_beside(EntryIndex::ROOT, name);
            others |= kind == FileKind::Directory || is_other;
            files.push(name.to_owned());
        })?;
        Ok((!others).then_some(files))
    }
}

/// Whether nothing is left that a listing has.
fn is_empty(opened: &OpenContainer, directory: EntryIndex, views: Views) -> Result<bool> {
    let left = opened.children_after(directory, Cookie::START, 1, views)?;
    Ok(left.is_empty())
}
