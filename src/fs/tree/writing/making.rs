//! Making entries of directories: files, directories, links, and containers (`mkdir x.blp`).
//!
//! What is made stays what it is as long as the mount lives. Used by `kernel::adapter`;
//! `live::creation` makes a container in the source, and packs it.

use std::ffi::OsStr;
use std::sync::Arc;

use super::super::arrival::node_of;
use super::super::attr::Attr;
use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::lookup::NameLookup;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::open_file::{Open, OpenFile, Stored};
use super::super::ordinary::StillKnown;
use super::super::written_here::WrittenHere;
use super::content::FileContents;
use super::directories::{SourceDirectories, spot_in};
use super::targets::with_target;
use crate::container::creation::{Creation, format_named};
use crate::disk::{Caller, NewEntry};
use crate::error::{Error, Result};
use crate::live::{refused, refused_saying};
use crate::source::{FileId, FileKind, Stat};

/// Makes entries, and gives files other names.
pub(crate) struct Making {
    pub(super) fs: Arc<MountedFs>,
    pub(super) names: Arc<NameLookup>,
    pub(super) written_here: Arc<WrittenHere>,
    pub(super) directories: Arc<SourceDirectories>,
    pub(super) contents: Arc<FileContents>,
}

impl Making {
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
        let disk = self.fs.live.ground.writable()?;
        let _stays = self.fs.live.new.shared();
        if let Some(above) = ContainerDirectory::find(&self.fs, parent)?
            && let Some(made) = self.create_removed((parent, &above), name, caller)?
        {
            return Ok(made);
        }
        let directory = self.directories.find_to_fill(parent, name)?;
        let made = disk.create(directory.new_place(name)?, mode, caller);
        let file = made.map_err(|e| match e.is_already_there() && !exclusive {
            true => self.fs.live.ground.changed(&directory.join(name)),
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
        let (pages, size) = (false, true);
        let open = Open::new(handle, StillKnown { pages, size }, true);
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
        let disk = self.fs.live.ground.writable()?;
        let _stays = self.fs.live.new.shared();
        if let NewEntry::Directory { mode } = what
            && let Some(format) = format_named(name)
            && !self.fs.has_no_containers()
            && !self.fs.enclosing.is_below_container(parent)
        {
            let creation = format.creation().ok_or_else(|| {
                let path = self.fs.path_in(parent, name);
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
            self.directories.refuse_in_container(parent, name)?;
        }
        let directory = self.directories.find_to_fill(parent, name)?;
        disk.make(directory.new_place(name)?, what, caller)?;
        let stat = self.look_at_made(parent, name, None)?;
        let (attr, _) = self.enter_made(parent, name, &stat)?;
        Ok(attr)
    }

    /// Gives a file another name. Counts one look-up.
    pub fn link(&self, file: InodeId, parent: InodeId, name: &OsStr) -> Result<Attr> {
        let disk = self.fs.live.ground.writable()?;
        let _stays = self.fs.live.new.shared();
        self.directories.refuse_in_container(parent, name)?;
        let directory = self.directories.find_to_fill(parent, name)?;
        let node = self.fs.inodes.get(file)?;
        let id = match &*node {
            Node::File(_) | Node::Special(..) => node.file().ok_or(Error::NotFound)?,
            Node::Container(_) | Node::Entry(..) => return Err(Error::ReadOnly),
            Node::Directory(_) => return Err(Error::IsADirectory),
            Node::Unseen(_) => return Err(self.fs.unseen(file)),
        };
        with_target(&self.fs, file, &node, |target, _| {
            disk.link(target, directory.new_place(name)?)
        })?;
        let stat = self.look_at_made(parent, name, Some(id))?;
        let (attr, _) = self.entered(parent, name, &stat)?;
        Ok(attr)
    }

    /// What is made under the name of an array that was removed is the array's new content. None if
    /// there is no such array.
    fn create_removed(
        &self,
        (parent, above): (InodeId, &ContainerDirectory),
        name: &OsStr,
        caller: Caller,
    ) -> Result<Option<(Attr, Open)>> {
        let (version, opened) = (&above.version, &above.opened);
        let Some(named) = opened.find_removed(above.at, name) else {
            return Ok(None);
        };
        self.fs.live.writable.array(version, named)?;
        version.tombstones.remove(named);
        let link = Dirent::new(parent, name);
        let attr = self.names.enter(version, opened, named, link)?;
        let entry = opened.file_of(named);
        let (inode, contents) = (attr.inode, &self.contents);
        let open = contents.open_array_for_writing(inode, version, entry)?;
        contents.set_len(inode, Some(open.handle), 0, caller)?;
        Ok(Some((Attr { size: 0, ..attr }, open)))
    }

    /// Makes an empty container. Counts one look-up of its inode.
    fn make_container(
        &self,
        parent: InodeId,
        name: &OsStr,
        creation: &dyn Creation,
        mode: u32,
        owner: Caller,
    ) -> Result<Attr> {
        let directory = self.directories.find(parent)?;
        directory.new_place(name)?;
        let path = directory.join(name);
        if self.fs.store.stat(&path).is_ok() {
            return Err(refused("make", &path, libc::EEXIST));
        }
        let spot = spot_in(&directory, name);
        let drafts = self
            .fs
            .live
            .drafts
            .make_empty(&spot, creation, mode, owner)?;
        self.directories.names_changed(parent);
        let link = Dirent::new(parent, name);
        let attr = self.names.enter_source(link, &spot.directory)?;
        if let Some(container) = self.fs.inodes.get(attr.inode)?.container()
            && let Some(id) = drafts
        {
            container.new.begin(id);
            self.fs.live.drafts.watch(attr.inode.into());
        }
        Ok(attr)
    }

    /// The inode of what has just been made. It is no container, whatever it becomes.
    fn enter_made(&self, parent: InodeId, name: &OsStr, stat: &Stat) -> Result<(Attr, Arc<Node>)> {
        if stat.kind == FileKind::File {
            self.written_here.add(stat.id)?;
        }
        self.entered(parent, name, stat)
    }

    fn entered(&self, parent: InodeId, name: &OsStr, stat: &Stat) -> Result<(Attr, Arc<Node>)> {
        self.directories.names_changed(parent);
        let (link, found) = (Dirent::new(parent, name), node_of(stat, None));
        let (inode, node) = self.fs.inodes.enter(link, found)?;
        Ok((self.fs.source_attr(inode, &node, stat), node))
    }

    /// Wherever its directory has been moved to since: what has been made is not made again. `id`:
    /// which file it must be; another process may have put one there.
    fn look_at_made(&self, parent: InodeId, name: &OsStr, id: Option<FileId>) -> Result<Stat> {
        self.fs.moves.retry(|| {
            let path = self.directories.find(parent)?.join(name);
            let stat = self.fs.store.stat(&path)?;
            match id.is_none_or(|id| id == stat.id) {
                true => Ok(stat),
                false => Err(self.fs.live.ground.changed(&path)),
            }
        })
    }
}
