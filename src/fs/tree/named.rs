//! Errors as lines of the log: each names the container and what in it, or the file, whatever the
//! error says by itself. Programs that are answered with a number learn the rest there.
//!
//! Used by the kernel's side.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::attributes::EntryAttributes;
use super::container_directory::ContainerDirectory;
use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use crate::error::Error;

/// What is said of an array that a program has emptied and not been able to fill.
const EMPTIED: &str = "it was emptied before and has 0 bytes now, which is staged: write all of it, \
     or take its old content back with 'arrayfs stage discard'";

/// Says of errors where they happened.
pub(crate) struct ErrorLines {
    pub(super) fs: Arc<MountedFs>,
    pub(super) attributes: Arc<EntryAttributes>,
}

impl ErrorLines {
    /// An error of a request about an inode, or a name in it.
    pub fn named(&self, inode: InodeId, name: Option<&OsStr>, e: &Error) -> String {
        let names_all = match e {
            Error::Fault(fault) => fault.container.is_some(),
            Error::NotShown(not) => not.container.is_some(),
            _ => false,
        };
        let line = match self.place_of(inode, name).filter(|_| !names_all) {
            Some((container, within)) => e.told_of(&container, &within.to_string_lossy()),
            None => e.to_string(),
        };
        match matches!(e, Error::Invalid(_)) && name.is_none() && self.is_emptied(inode) {
            true => format!("{line}; {EMPTIED}"),
            false => line,
        }
    }

    /// A container and the path in it; or a file, and nothing.
    fn place_of(&self, inode: InodeId, name: Option<&OsStr>) -> Option<(PathBuf, PathBuf)> {
        let below = |path: PathBuf| name.map_or_else(|| path.clone(), |name| path.join(name));
        match &*self.fs.inodes.get(inode).ok()? {
            Node::Entry(version, entry) => {
                let container = self.fs.inodes.path(version.container.into()).ok()?;
                let within = self.fs.live.opener.open(version).ok()?.place_of(*entry)?;
                Some((self.fs.store.display(&container), below(within)))
            }
            Node::Container(_) => {
                let container = self.fs.inodes.path(inode).ok()?;
                Some((self.fs.store.display(&container), below(PathBuf::new())))
            }
            _ => {
                let path = self.fs.inodes.path(inode).ok()?;
                let (container, within) = self
                    .place_in_container(inode, &path)
                    .unwrap_or_else(|| (below(path), None));
                let within = within.map_or_else(PathBuf::new, below);
                Some((self.fs.store.display(&container), within))
            }
        }
    }

    /// Of a file that lies hidden in the source and is shown in a container, which may be new: the
    /// container, and where it is shown.
    fn place_in_container(&self, file: InodeId, path: &Path) -> Option<(PathBuf, Option<PathBuf>)> {
        let parent = self.fs.inodes.parent(file)?;
        if let Some((new, _)) = self.fs.enclosing.new_above(parent) {
            let drafts = self.fs.live.drafts.at(new.into()).ok()??;
            let within = path.strip_prefix(drafts).ok()?;
            return Some((self.fs.inodes.path(new).ok()?, Some(within.to_owned())));
        }
        let above = ContainerDirectory::find(&self.fs, parent).ok()??;
        let within = above.below.join(path.file_name()?);
        Some((self.fs.container_path(above.inode).ok()?, Some(within)))
    }

    /// Whether an array has no bytes any more and is stored with some.
    fn is_emptied(&self, inode: InodeId) -> bool {
        let emptied = || {
            let node = self.fs.inodes.get(inode).ok()?;
            let Node::Entry(version, entry) = &*node else {
                return None;
            };
            let opened = self.fs.live.opener.open(version).ok()?;
            let stored = opened.info(opened.array_at(*entry)?).ok()?.bytes;
            Some(stored > 0 && self.attributes.attr(inode).ok()?.size == 0)
        };
        emptied() == Some(true)
    }
}
