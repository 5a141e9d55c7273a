//! What a program has written reaches the disk, and is judged: sync, close, and the end of a
//! handle.
//!
//! Used by `kernel::adapter`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::container_directory::ContainerDirectory;
use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::named::ErrorLines;
use super::super::node::Node;
use super::super::open_file::HandleId;
use super::directories::SourceDirectories;
use super::promote::Promotion;
use super::strays::Strays;
use crate::disk::Target;
use crate::error::{Error, Result};
use crate::live::creation::content::read_description;
use crate::live::shown::entry_table::ARRAYS_JSON;

/// Syncs and closes files.
pub(crate) struct FileClosing {
    pub(super) fs: Arc<MountedFs>,
    pub(super) directories: Arc<SourceDirectories>,
    pub(super) strays: Arc<Strays>,
    pub(super) promotion: Arc<Promotion>,
    pub(super) error_lines: Arc<ErrorLines>,
}

impl FileClosing {
    /// Returns when what was written to a file has reached the disk. `data`: without what is not
    /// needed to find it. A handle that is open for reading may ask for that as well.
    pub fn sync(&self, inode: InodeId, handle: HandleId, data: bool) -> Result<()> {
        let open = self.fs.open_files.get(handle)?;
        if let Some(writer) = open.array_writer() {
            return self.fs.live.arrays.sync(writer);
        }
        match (open.source(), &self.fs.disk) {
            (Some(source), Some(disk)) => {
                if open.written().is_some() {
                    self.strays.refuse_to_write_stray(inode)?;
                }
                disk.sync(Target::Open(source), data)?;
                self.sync_new_above(handle)?;
                self.directories.sync_added_above(inode)
            }
            _ => match self.fs.inodes.get(inode).as_deref() {
                Ok(Node::Entry(version, _)) => self.fs.live.arrays.sync_staged(version),
                // Nothing was written.
                _ => Ok(()),
            },
        }
    }

    /// Returns when the names in a directory have reached the disk.
    pub fn sync_directory(&self, inode: InodeId, data: bool) -> Result<()> {
        let Some(disk) = &self.fs.disk else {
            return Ok(());
        };
        if let Some(done) = self.fs.live.packing.sync_new(inode.into()) {
            return done;
        }
        let version = match self.fs.inodes.get(inode).as_deref() {
            Ok(Node::Container(container)) => container.known().version.clone(),
            Ok(Node::Entry(version, _)) => Some(Arc::clone(version)),
            _ => None,
        };
        // The names of a container's arrays are never dirty, what is staged of it is.
        if let Some(version) = version {
            self.fs.live.later.commit_closed(&version)?;
            self.fs.live.arrays.sync_staged(&version)?;
        }
        let directory = match ContainerDirectory::find(&self.fs, inode) {
            Ok(Some(directory)) => return self.directories.sync_beside(&directory),
            Ok(None) => self.directories.find(inode),
            Err(e) => Err(e),
        };
        match directory {
            Ok(directory) => {
                let (path, id) = (&*directory.path, directory.id);
                disk.sync(Target::Named { path, id }, data)
            }
            // Entries of a container are never dirty, whatever lies above them, and a directory
            // that was removed has none.
            Err(Error::ReadOnly | Error::NotFound) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// A file has been synced. One of a new container is found after a crash.
    fn sync_new_above(&self, handle: HandleId) -> Result<()> {
        match self.fs.open_files.inode_of(handle) {
            Ok(inode) if !self.fs.live.new.is_empty() => {
                let above = self.fs.inodes.above(inode).into_iter();
                let mut new = above.filter(|above| self.fs.live.new.has((*above).into()));
                new.try_for_each(|container| self.fs.live.drafts.sync(container.into()))
            }
            _ => Ok(()),
        }
    }

    /// A handle is closed, perhaps not for the last time: a child has one more. What was written is
    /// committed.
    pub fn close(&self, handle: HandleId) -> Result<()> {
        let open = self.fs.open_files.get(handle)?;
        match open.array_writer() {
            Some(writer) => self.fs.live.arrays.close(writer),
            None => match open.written() {
                Some((file, _)) => {
                    self.promotion.closed(handle);
                    file.flush()?;
                    self.strays.refuse_stray(handle)?;
                    self.check_description(handle)
                }
                None => Ok(()),
            },
        }
    }

    /// A file is closed after it was written. If it is to describe a new container, it must be
    /// understood.
    fn check_description(&self, handle: HandleId) -> Result<()> {
        if self.fs.live.new.is_empty() {
            return Ok(());
        }
        let inode = self.fs.open_files.inode_of(handle)?;
        let Some((container, file)) = self.described_container(inode) else {
            return Ok(());
        };
        let format = container
            .container()
            .map(|container| container.known().recognised.format);
        let creation = format.and_then(|format| format.creation());
        let (Some(creation), true) = (creation, self.fs.store.stat(&file)?.size > 0) else {
            return Ok(());
        };
        let (description, _charged) = read_description(&self.fs.live.ground, &file)?;
        creation.accepts(&description)
    }

    /// The new container in which a file is an `arrays.json`, its own or a group's, and where that
    /// lies.
    fn described_container(&self, file: InodeId) -> Option<(Arc<Node>, PathBuf)> {
        let (container, node) = self.fs.enclosing.new_above(self.fs.inodes.parent(file)?)?;
        let drafts = self.fs.live.drafts.of(container.into()).ok()??;
        let mut paths = self.fs.inodes.paths(file).into_iter();
        let format = node.container()?.known().recognised.format;
        let has_groups = format
            .creation()
            .is_some_and(|creation| creation.has_links());
        let is_it = |path: &PathBuf| {
            let is_own = path.parent() == Some(&*drafts.path);
            path.file_name() == Some(OsStr::new(ARRAYS_JSON))
                && (is_own || has_groups && path.starts_with(&drafts.path))
        };
        paths.find(is_it).map(|path| (node, path))
    }

    pub fn release(&self, handle: HandleId) {
        let closed = self.fs.open_files.get(handle);
        let inode = self.fs.open_files.inode_of(handle);
        self.strays.end_stray(handle);
        // Before it is closed, so that no thread finds it neither open nor used.
        if let Ok(inode) = inode {
            self.fs.enclosing.note_use(inode);
        }
        self.fs.open_files.remove(handle);
        if let Ok(closed) = closed {
            if let Some(writer) = closed.array_writer() {
                self.fs.live.arrays.end(writer);
            }
            if let Some((file, _)) = closed.written()
                && let Err(e) = file.release()
            {
                let told = inode
                    .as_ref()
                    .map(|inode| self.error_lines.named(*inode, None, &e));
                log::error!("{}", told.unwrap_or_else(|_| e.to_string()));
            }
            if let Some(derived) = closed.entry().and_then(|entry| entry.derived()) {
                let staged = &derived.version.writes;
                staged.note_edition(derived.entry, derived.edition);
            }
        }
        if let Ok(inode) = inode {
            self.fs.enclosing.note_let_go(inode);
        }
    }
}
