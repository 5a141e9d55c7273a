//! Extended attributes that the source has: of what is shown as it is, and POSIX access control
//! lists, where the kernel looks at them.
//!
//! Entries of containers have the list of the container's files, with the rights that their modes
//! show. Used by [`super::xattr`] and `writing`.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::attr::enterable;
use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use super::ordinary::OrdinaryFile;
use crate::error::{Error, Result};
use crate::live::owner::Owner;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;
use crate::source::acl::{ACCESS, AccessList, DEFAULT, is_list};
use crate::source::{FileKind, Source};

/// Namespaces with attributes that could exist here. The others are answered with "not supported",
/// which `ls -l` understands for the whole mount instead of asking for every file.
fn is_of_users(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"user.")
}

/// Answers as the source does.
pub(crate) struct StoredXattrs(pub(super) Arc<MountedFs>);

impl StoredXattrs {
    pub(super) fn offers(&self, name: &OsStr) -> bool {
        is_of_users(name) || self.0.settings.lists.are_shown() && is_list(name)
    }

    /// Of what is shown as it is.
    pub(super) fn xattr(&self, inode: InodeId, node: &Node, name: &OsStr) -> Result<Vec<u8>> {
        self.0.refuse_absorbed(inode, node)?;
        match self.0.places.locate(inode, node) {
            Ok((path, _)) => self.0.store.posix()?.xattr(&path, node.file(), name),
            Err(missing) => {
                let missing = self.0.without_names(inode, missing);
                let ask = |source: &dyn Source| source.posix()?.xattr(name);
                self.0.open_files.ask(inode, missing, ask)
            }
        }
    }

    pub(super) fn names(&self, inode: InodeId, node: &Node) -> Result<Vec<OsString>> {
        self.0.refuse_absorbed(inode, node)?;
        let names = match self.0.places.locate(inode, node) {
            Ok((path, _)) => self.0.store.posix()?.xattr_names(&path, node.file()),
            Err(missing) => {
                let missing = self.0.without_names(inode, missing);
                let ask = |source: &dyn Source| source.posix()?.xattr_names();
                self.0.open_files.ask(inode, missing, ask)
            }
        }?;
        Ok(names.into_iter().filter(|name| self.offers(name)).collect())
    }

    /// What has no list, and what is on a file system without lists, has none: any other answer
    /// would have the kernel refuse access altogether.
    pub(super) fn access_list(&self, inode: InodeId, name: &OsStr) -> Result<Vec<u8>> {
        let node = self.0.inodes.get(inode)?;
        let list = match &*node {
            Node::Entry(..) | Node::Container(_) if name == DEFAULT && !is_stored(&node) => None,
            Node::Entry(version, entry) => self.list_of_entry(version, *entry)?,
            Node::Container(_) if !is_stored(&node) => {
                let path = self.0.container_path(inode)?;
                let list = self.0.store.posix()?.stat_with_list(&path)?.list;
                list.map(|list| list.map(enterable))
            }
            _ => {
                let list = self.named_list(inode, &node, name);
                let list = list.unwrap_or_else(|| self.xattr(inode, &node, name));
                return list.map_err(|e| match e {
                    Error::Unsupported => Error::NoAttribute,
                    e => e,
                });
            }
        };
        list.map(|list| list.value()).ok_or(Error::NoAttribute)
    }

    /// The list of what is shown as it is, by its name: in a few calls, because `ls -l` asks for
    /// that of each file. None if the name leads elsewhere by now.
    fn named_list(&self, inode: InodeId, node: &Node, name: &OsStr) -> Option<Result<Vec<u8>>> {
        let (paths, file) = (self.0.inodes.paths(inode), node.file()?);
        if paths.len() != 1 || node.ordinary().is_some_and(OrdinaryFile::is_absorbed) {
            return None;
        }
        let posix = self.0.store.posix().ok()?;
        match posix.xattr(&paths[0], Some(file), name) {
            Err(Error::Changed { .. }) => None,
            Err(e) if e.is_not_found() => None,
            answer => Some(answer),
        }
    }

    fn list_of_entry(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
    ) -> Result<Option<AccessList>> {
        let path = self.0.container_path(version.container.into())?;
        let posix = self.0.store.posix()?;
        let ask = |paths: &[std::path::PathBuf]| {
            paths
                .iter()
                .map(|path| posix.stat_with_list(path))
                .collect()
        };
        let owner = Owner::of_container(&version.recognised.stat_by(&path, &ask)?);
        if owner.list.is_none() {
            return Ok(None);
        }
        let opened = self.0.live.opener.open(version)?;
        let owner = self.0.live.entries.owner(&opened, entry, owner)?;
        let shown = match opened.kind(entry)? {
            FileKind::Directory => enterable,
            _ => |mode| mode & 0o666,
        };
        Ok(owner.list.map(|list| list.map(shown)))
    }

    /// Names of the lists of something in or of a container.
    pub(super) fn list_names(&self, inode: InodeId) -> Vec<OsString> {
        let has = |name: &&str| {
            let name = OsStr::new(name);
            self.offers(name) && self.access_list(inode, name).is_ok()
        };
        let names = [ACCESS, DEFAULT].into_iter().filter(has);
        names.map(OsString::from).collect()
    }
}

/// Whether a container is a directory in the source, too.
fn is_stored(node: &Node) -> bool {
    let container = node.container();
    container.is_some_and(|container| container.stored == FileKind::Directory)
}
