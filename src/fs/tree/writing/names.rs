//! Making and removing entries of directories.
//!
//! Used by [`super`].

use std::ffi::OsStr;
use std::sync::Arc;

use super::super::Tree;
use super::super::arrival::node_of;
use super::super::attr::Attr;
use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::node::Node;
use super::super::open_file::{Open, OpenFile, Stored};
use crate::commit::Spot;
use crate::container::creation::format_named;
use crate::disk::{Caller, NewEntry};
use crate::error::{Error, Result};
use crate::live::refused_saying;
use crate::source::{FileId, FileKind, Stat};

impl Tree {
    /// Makes a regular file and opens it. If it is there, that is an error if it must not be
    /// (`exclusive`); else the kernel looks again, and opens it as any other.
    pub fn create(
        &self,
        parent: InodeId,
        name: &OsStr,
        mode: u32,
        exclusive: bool,
        caller: Caller,
    ) -> Result<(Attr, Open)> {
        let disk = self.fs.live.writable()?;
        let _stays = self.fs.live.new.shared();
        if let Some(above) = ContainerDirectory::find(&self.fs, parent)?
            && let Some(made) = self.create_removed((parent, &above), name, caller)?
        {
            return Ok(made);
        }
        let directory = self.directory_to_fill(parent, name)?;
        let made = disk.create(directory.new_place(name)?, mode, caller);
        let file = made.map_err(|e| match e.is_already_there() && !exclusive {
            true => self.fs.live.changed(&directory.join(name)),
            false => e,
        })?;
        // The file was made in that very directory under this name, wherever the directory has been
        // moved to since.
        let (identity, stat) = (
            file.source().identity(),
            self.fs.store.posix()?.stat_made(file.source())?,
        );
        let (attr, node) = self.enter_made(parent, name, &stat)?;
        if let Some(of) = node.ordinary() {
            of.opened(of.moment(), identity);
        }
        let opened = OpenFile::Ordinary(Stored::Written(file), node);
        let handle = self.fs.open_files.insert(attr.inode, opened);
        let open = Open {
            handle,
            keep_cache: false,
            size_is_old: false,
            ordinary: true,
            set_id: false,
        };
        Ok((attr, open))
    }

    /// Makes an entry that is not opened. Counts one look-up of its inode.
    pub fn make(
        &self,
        parent: InodeId,
        name: &OsStr,
        what: NewEntry<'_>,
        caller: Caller,
    ) -> Result<Attr> {
        let disk = self.fs.live.writable()?;
        let _stays = self.fs.live.new.shared();
        if let NewEntry::Directory { mode } = what
            && let Some(format) = format_named(name)
            && !self.fs.has_no_containers()
            && !self.fs.enclosing.is_below_container(parent)
        {
            let creation = format.creation().ok_or_else(|| {
                let path = self.fs.inodes.path(parent).unwrap_or_default().join(name);
                let what = format!(
                    "make {}: new {} containers cannot be made in a mount yet; make the file elsewhere and copy it",
                    self.fs.store.display(&path).display(),
                    format.name()
                );
                refused_saying(what, libc::EPERM)
            })?;
            let owner = Caller::of(caller.uid, caller.gid);
            return self.make_container(parent, name, creation, mode & !caller.umask, owner);
        }
        if !matches!(what, NewEntry::File { .. }) {
            self.refuse_in_container(parent, name)?;
        }
        let directory = self.directory_to_fill(parent, name)?;
        disk.make(directory.new_place(name)?, what, caller)?;
        let stat = self.look_at_made(parent, name, None)?;
        let (attr, _) = self.enter_made(parent, name, &stat)?;
        Ok(attr)
    }

    /// Gives a file another name. Counts one look-up.
    pub fn link(&self, file: InodeId, parent: InodeId, name: &OsStr) -> Result<Attr> {
        let disk = self.fs.live.writable()?;
        let _stays = self.fs.live.new.shared();
        self.refuse_in_container(parent, name)?;
        let directory = self.directory_to_fill(parent, name)?;
        let node = self.fs.inodes.get(file)?;
        let id = match &*node {
            Node::File(_) | Node::Special(..) => node.file().ok_or(Error::NotFound)?,
            Node::Container(_) | Node::Entry(..) => return Err(Error::ReadOnly),
            Node::Directory(_) => return Err(Error::IsADirectory),
            Node::Unseen(_) => return Err(self.fs.unseen(file)),
        };
        self.with_target(file, &node, |target, _| {
            disk.link(target, directory.new_place(name)?)
        })?;
        let stat = self.look_at_made(parent, name, Some(id))?;
        self.names_changed(parent);
        let (inode, node) = self
            .fs
            .inodes
            .enter(Dirent::new(parent, name), node_of(&stat, None))?;
        Ok(self.names.source_attr(inode, &node, &stat))
    }

    /// Removes a name that is no directory's.
    pub fn unlink(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        let disk = self.fs.live.writable()?;
        let _stays = self.fs.live.new.shared();
        if self.removes_entry(parent, name, false)? {
            return Ok(());
        }
        let directory = self.directory(parent)?;
        let (link, stat) = (
            Dirent::new(parent, name),
            self.fs.store.stat(&directory.join(name))?,
        );
        self.as_looked_up(&link, &stat)?;
        disk.unlink(directory.place(name))?;
        self.forget_name(&link, &stat);
        self.tidy_added(parent);
        Ok(())
    }

    /// Removes a directory: of the source, if it is empty, or of a container.
    pub fn remove_directory(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        let disk = self.fs.live.writable()?;
        if self.removes_entry(parent, name, true)? {
            return Ok(());
        }
        let directory = self.directory(parent)?;
        let link = Dirent::new(parent, name);
        let stat = self.fs.store.stat(&directory.join(name))?;
        let (inode, node) = self.as_looked_up(&link, &stat)?;
        match &*node {
            Node::Container(container) => {
                let at = Spot {
                    directory: directory.path.clone(),
                    id: directory.id,
                    name: name.to_owned(),
                };
                let logs = self.fs.live.logs_beside(&at);
                match self
                    .fs
                    .live
                    .remove_new(inode.into(), container, directory.place(name))
                {
                    Some(removed) => removed?,
                    None => self.remove_container(inode, container, &directory, name, &stat)?,
                }
                self.fs.live.discard_removed(container);
                self.fs.live.remove_logs(&at, &logs);
            }
            _ => disk.remove_directory(directory.place(name))?,
        }
        self.forget_name(&link, &stat);
        Ok(())
    }

    /// What the kernel has looked up under a name, and let the caller change. If the name leads to
    /// something else by now, the kernel is to look again, and to ask who may change that.
    pub(super) fn as_looked_up(&self, link: &Dirent, stat: &Stat) -> Result<(InodeId, Arc<Node>)> {
        let known = self.fs.inodes.named(link, stat);
        known.ok_or_else(|| {
            let above = self.fs.inodes.path(link.parent).unwrap_or_default();
            self.fs.live.changed(&above.join(&link.name))
        })
    }

    /// A name led to this, and is gone.
    pub(super) fn forget_name(&self, link: &Dirent, stat: &Stat) {
        let is_last = stat.kind != FileKind::File || stat.nlink < 2;
        if is_last
            && let Some((_, node)) = self.fs.inodes.named(link, stat)
            && let Some(container) = node.container()
        {
            self.fs.live.forget_lasting(container);
        }
        if let Some(Node::Container(container)) = self.fs.inodes.unlinked(link, stat).as_deref() {
            self.fs.live.close(container);
        }
        if is_last && stat.kind == FileKind::File {
            self.written_here.remove(stat.id);
        }
        self.names_changed(link.parent);
    }

    /// The inode of what has just been made. It is no container, whatever it becomes.
    fn enter_made(&self, parent: InodeId, name: &OsStr, stat: &Stat) -> Result<(Attr, Arc<Node>)> {
        if stat.kind == FileKind::File {
            self.written_here.add(stat.id)?;
        }
        self.names_changed(parent);
        let (inode, node) = self
            .fs
            .inodes
            .enter(Dirent::new(parent, name), node_of(stat, None))?;
        Ok((self.names.source_attr(inode, &node, stat), node))
    }

    /// Wherever its directory has been moved to since: what has been made is not made again. `id`:
    /// which file it must be; another process may have put one there.
    fn look_at_made(&self, parent: InodeId, name: &OsStr, id: Option<FileId>) -> Result<Stat> {
        self.moves.retry(|| {
            let path = self.directory(parent)?.join(name);
            let stat = self.fs.store.stat(&path)?;
            match id.is_none_or(|id| id == stat.id) {
                true => Ok(stat),
                false => Err(self.fs.live.changed(&path)),
            }
        })
    }
}
