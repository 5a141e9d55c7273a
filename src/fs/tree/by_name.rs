//! Opening ordinary files by their names, or by a handle where they have none.
//!
//! A file may have several names, and any of them may lead to another file by now, for others
//! change the source, too. What is opened is the file that was looked up, or nothing. Used by
//! [`Tree::open`] and `writing`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Tree;
use super::inode::InodeId;
use super::node::Node;
use super::open_file::{Open, OpenFile};
use super::ordinary::OrdinaryFile;
use crate::error::Result;
use crate::source::Source;

impl Tree {
    /// ESTALE for a file that was renamed over an array: the name that the kernel has followed may
    /// be the array's, which it is to look up afresh.
    pub(super) fn refuse_absorbed(&self, inode: InodeId, node: &Node) -> Result<()> {
        match node.ordinary().is_some_and(OrdinaryFile::is_absorbed) {
            true => Err(self.unseen(inode)),
            false => Ok(()),
        }
    }

    /// Whether a file has become the content of an array.
    pub fn is_absorbed(&self, inode: InodeId) -> bool {
        self.absorbed.of(inode).is_some()
    }

    /// A file that has no name any more is opened by a handle that has it open (as `/proc/self/fd`
    /// does).
    pub(super) fn open_again(&self, inode: InodeId, write: bool) -> Option<Open> {
        if !self.inodes.paths(inode).is_empty() {
            return None;
        }
        let open = self.open_files.of_inode(inode);
        let fits = |file: &Arc<OpenFile>| match write {
            true => file.written().is_some(),
            false => file.source().is_some(),
        };
        let file = open.into_iter().find(fits)?;
        Some(Open {
            handle: self.open_files.share(inode, file),
            keep_cache: true,
            size_is_old: false,
            ordinary: true,
            set_id: false,
        })
    }

    /// The caller was let in to the file that was looked up: no other one is opened.
    pub(super) fn open_ordinary(
        &self,
        inode: InodeId,
        file: &OrdinaryFile,
    ) -> Result<Arc<dyn Source>> {
        self.by_a_name(inode, file, |path| match self.store.open(path) {
            Ok(source) if source.id() == file.at.id => Ok(source),
            Ok(_) => Err(self.changed(path)),
            Err(e) => Err(e),
        })
    }

    /// Opens a file by the first of its names that leads to it.
    pub(super) fn by_a_name<T>(
        &self,
        inode: InodeId,
        file: &OrdinaryFile,
        open: impl Fn(&Path) -> Result<T>,
    ) -> Result<T> {
        let mut missing = None;
        for path in self.names_that_hold(inode, file)? {
            match open(&path) {
                Ok(opened) => return Ok(opened),
                Err(e) => {
                    missing.get_or_insert(e);
                }
            }
        }
        // Names that others have removed: the kernel is to look again, and finds what is there
        // instead.
        match missing {
            Some(e) if !e.is_not_found() => Err(e),
            _ => Err(self.changed(&self.inodes.path(inode).unwrap_or_default())),
        }
    }

    /// The paths of a file. The kernel does not say by which of its names it is opened: if one of
    /// several leads to another file by now, they are to be looked up afresh, or the old file would
    /// be opened under a new one's name.
    fn names_that_hold(&self, inode: InodeId, file: &OrdinaryFile) -> Result<Vec<PathBuf>> {
        let all = self.inodes.paths(inode);
        if all.len() < 2 {
            return Ok(all);
        }
        let (mut holding, mut replaced) = (all.clone(), None);
        holding.retain(|path| match self.store.stat(path) {
            Ok(stat) if stat.id == file.at.id => true,
            Ok(_) => {
                replaced = Some(self.changed(path));
                false
            }
            Err(_) => false,
        });
        if holding.len() < all.len() {
            self.inodes.keep_names(inode, &holding);
        }
        match replaced {
            Some(changed) => Err(changed),
            None if holding.is_empty() => Ok(all),
            None => Ok(holding),
        }
    }
}
