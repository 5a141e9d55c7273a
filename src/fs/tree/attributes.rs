//! What `stat` and `readlink` are answered of whatever is shown. Used by `kernel::adapter`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::attr::Attr;
use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use super::ordinary::OrdinaryFile;
use crate::error::Result;

/// Answers `stat` and `readlink`.
pub(crate) struct EntryAttributes {
    pub(super) fs: Arc<MountedFs>,
}

impl EntryAttributes {
    pub fn attr(&self, inode: InodeId) -> Result<Attr> {
        let node = self.fs.inodes.get(inode)?;
        if let Node::Entry(version, entry) = &*node {
            let opened = self.fs.live.opener.open(version)?;
            let stat = self.fs.live.entries.stat(version, &opened, *entry)?;
            return Ok(Attr::of_entry(inode, &stat, &self.fs.settings));
        }
        self.fs.notice_change(inode, &node);
        let moment = node.ordinary().map(OrdinaryFile::moment);
        let files = &self.fs.open_files;
        let stat = match self.fs.places.locate(inode, &node) {
            Ok((_, stat)) => stat,
            Err(missing) => match files.ask(inode, missing, |source| source.stat()) {
                Ok(stat) => stat,
                Err(missing) => match self.fs.inodes.removed(inode) {
                    Some(mut removed) => {
                        // It is an array's content by now, and as long.
                        let open = files.of_inode(inode);
                        if let Some(entry) = open.iter().find_map(|file| file.entry()) {
                            removed.size = entry.len();
                        }
                        removed
                    }
                    // It has other names than those in the table, or another has its name by now.
                    None if missing.is_not_found() => {
                        return Err(self.fs.live.ground.changed(Path::new("")));
                    }
                    None => return Err(missing),
                },
            },
        };
        let mut attr = self.fs.source_attr(inode, &node, &stat);
        if let (Some(file), Some(moment)) = (node.ordinary(), moment) {
            attr.stale = file.stale(moment, stat.identity());
        }
        Ok(attr)
    }

    pub fn read_link(&self, inode: InodeId) -> Result<OsString> {
        let node = self.fs.inodes.get(inode)?;
        match &*node {
            Node::Entry(version, entry) => self.fs.live.opener.open(version)?.read_link(*entry),
            _ => {
                let (path, _) = self.fs.places.locate(inode, &node)?;
                self.fs.store.posix()?.read_link(&path)
            }
        }
    }
}
