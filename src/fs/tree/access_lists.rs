//! POSIX access control lists as extended attributes, where the kernel looks at them.
//!
//! What is shown as it is has the list of the source. Entries of containers have the one of the
//! container's files, with the rights that their modes show. Used by [`super::xattr`].

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::Tree;
use super::attr::enterable;
use super::inode::InodeId;
use super::node::Node;
use super::ordinary::OrdinaryFile;
use crate::error::{Error, Result};
use crate::live::owner::Owner;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;
use crate::source::FileKind;
use crate::source::acl::{ACCESS, AccessList, DEFAULT};

impl Tree {
    /// What has no list, and what is on a file system without lists, has none: any other answer
    /// would have the kernel refuse access altogether.
    pub(super) fn access_list(&self, inode: InodeId, name: &OsStr) -> Result<Vec<u8>> {
        let node = self.inodes.get(inode)?;
        let list = match &*node {
            Node::Entry(..) | Node::Container(_) if name == DEFAULT && !is_stored(&node) => None,
            Node::Entry(version, entry) => self.list_of_entry(version, *entry)?,
            Node::Container(_) if !is_stored(&node) => {
                let path = self.container_path(inode)?;
                let list = self.store.posix()?.stat_with_list(&path)?.list;
                list.map(|list| list.map(enterable))
            }
            _ => {
                let list = self.named_list(inode, &node, name);
                let list = list.unwrap_or_else(|| self.source_xattr(inode, &node, name));
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
        let (paths, file) = (self.inodes.paths(inode), node.file()?);
        if paths.len() != 1 || node.ordinary().is_some_and(OrdinaryFile::is_absorbed) {
            return None;
        }
        let posix = self.store.posix().ok()?;
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
        let path = self.container_path(version.container.into())?;
        let posix = self.store.posix()?;
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
        let opened = self.live.open_version(version)?;
        let owner = self.live.owner_of_entry(&opened, entry, owner)?;
        let shown = match opened.kind(entry)? {
            FileKind::Directory => enterable,
            _ => |mode| mode & 0o666,
        };
        Ok(owner.list.map(|list| list.map(shown)))
    }

    /// Names of the lists of something in or of a container.
    pub(super) fn list_names(&self, inode: InodeId) -> Vec<OsString> {
        let has = |name: &&str| self.xattr(inode, OsStr::new(name)).is_ok();
        let names = [ACCESS, DEFAULT].into_iter().filter(has);
        names.map(OsString::from).collect()
    }
}

/// Whether a container is a directory in the source, too.
fn is_stored(node: &Node) -> bool {
    let container = node.container();
    container.is_some_and(|container| container.stored == FileKind::Directory)
}
