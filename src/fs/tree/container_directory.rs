//! Directories of containers: where arrays are shown, and where files may lie that are none.
//!
//! They are a container's own, unless it is new, and those of its groups. The files lie in the
//! container's directory if it is one, else in a hidden one beside it, in which those of groups lie
//! in directories named like the groups. Used by `lookup`, `listing` and `writing`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use crate::commit::added::added_of;
use crate::error::{Error, Result};
use crate::live::LiveContainer;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::source::FileKind;

pub(super) struct ContainerDirectory {
    pub(super) inode: InodeId,
    pub(super) container: Arc<LiveContainer>,
    pub(super) version: Arc<ContainerVersion>,
    pub(super) opened: Arc<OpenContainer>,
    pub(super) at: EntryIndex,
    /// Where it lies in the container's own.
    pub(super) below: PathBuf,
}

impl ContainerDirectory {
    /// None if the directory is another one: of the source, of a new container, or of views.
    pub(super) fn find(fs: &MountedFs, directory: InodeId) -> Result<Option<ContainerDirectory>> {
        let (inode, container, version, at) = match &*fs.inodes.get(directory)? {
            Node::Container(container) if !container.new.is_new() => {
                let version = fs.live.current.version_of(directory.into(), container)?;
                (directory, Arc::clone(container), version, EntryIndex::ROOT)
            }
            Node::Entry(version, entry) => {
                let above = InodeId::from(version.container);
                let node = fs.inodes.get(above)?;
                let container = node.container().ok_or(Error::NotADirectory)?;
                fs.live.current.check(version)?;
                (above, Arc::clone(container), Arc::clone(version), *entry)
            }
            _ => return Ok(None),
        };
        let opened = fs.live.opener.open(&version)?;
        let below = opened.group_path(at);
        Ok(below.map(|below| ContainerDirectory {
            inode,
            container,
            version,
            opened,
            at,
            below,
        }))
    }

    /// Where files lie that are shown in such a directory and are no part of the container.
    /// NotFound if there is no place for them yet.
    pub(super) fn beside(&self, fs: &MountedFs) -> Result<PathBuf> {
        let path = fs.container_path(self.inode)?;
        let own = match self.container.stored {
            FileKind::Directory => path,
            _ => {
                let added = added_of(&*fs.store, &path)?;
                added.map(|(path, _)| path).ok_or(Error::NotFound)?
            }
        };
        // Joined to nothing it would end with a slash.
        let names = self.below.iter();
        Ok(names.fold(own, |path, name| path.join(name)))
    }

    /// Where files lie that are shown in such a directory, if there is such a place: a file may
    /// have the name of a group that came later.
    pub(super) fn found_beside(&self, fs: &MountedFs) -> Result<Option<PathBuf>> {
        let path = match self.beside(fs) {
            Err(e) if e.is_not_found() => return Ok(None),
            other => other?,
        };
        match fs.store.stat(&path) {
            Err(e) if e.is_not_found() => Ok(None),
            other => Ok((other?.kind == FileKind::Directory).then_some(path)),
        }
    }

    /// Whether a file of this name may lie in it.
    pub(super) fn shows_beside(&self, name: &OsStr) -> bool {
        self.opened.shows_beside(self.at, name)
    }

    /// What is, or was before it was removed, the entry of this name; and whether it is shown.
    pub(super) fn entry(&self, name: &OsStr) -> Option<(EntryIndex, bool)> {
        let removed = || self.opened.find_removed(self.at, name);
        match self.opened.find(self.at, name) {
            Some(entry) => Some((entry, true)),
            None => removed().map(|entry| (entry, false)),
        }
    }
}
