//! What comes into the directory of a container that is one file, and is no array of it.
//!
//! A container there would be a file among the arrays of another, and the old content would stay:
//! what `cp new.nc old.nc`, `mv` and `rsync` make of the names is never what was meant. So it is
//! refused: when it is renamed into the directory, when it is opened for writing there, when it is
//! synced, and when it is closed, upon which what was written goes. Any other file is kept, and
//! told, if it will never be an array. Used by `closing`, `content` and `rename`; what has been put
//! into a new container is no stray.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::open_file::HandleId;
use super::directories::{Side, SourceDirectories};
use crate::error::{Error, Result};
use crate::live::recognition::Recognition;
use crate::live::refused;
use crate::source::{FileKind, Stat};

/// What to do instead.
const INSTEAD: &str = "it would be a file among the arrays, and replace nothing. To replace the container, \
     remove it first (rm -r); or copy under another name beside it, \
     `arrayfs refresh` that, and `mv -T` it over the container";

/// A file that was written into the directory of a container.
struct WrittenBeside {
    link: Dirent,
    directory: ContainerDirectory,
    path: PathBuf,
    stat: Stat,
}

/// Refuses, and tells of, what is no array.
pub(crate) struct Strays {
    pub(super) fs: Arc<MountedFs>,
    pub(super) directories: Arc<SourceDirectories>,
}

impl Strays {
    /// A file that was written is closed: a container does not stay in the directory of another.
    pub(super) fn refuse_stray(&self, handle: HandleId) -> Result<()> {
        let Some(written) = self.written_beside(self.fs.open_files.inode_of(handle)?)? else {
            return Ok(());
        };
        match self.is_container(&written.path, &written.stat) {
            false => self.tell_beside(&written),
            true => return self.remove_stray(&written),
        }
        Ok(())
    }

    /// A file is released that a mapping has written after its close: a container does not stay,
    /// and nobody is told but the log.
    pub(crate) fn end_stray(&self, handle: HandleId) {
        let open = self.fs.open_files.get(handle);
        if open.is_ok_and(|open| open.written().is_some()) {
            let _ = self.refuse_stray(handle);
        }
    }

    /// One that lies there from before is not written to: closing it would cost it. Nor is one
    /// synced: of those who sync a file, give it its name and close it, few look at what the close
    /// says.
    pub(super) fn refuse_to_write_stray(&self, file: InodeId) -> Result<()> {
        match self.written_beside(file)? {
            Some(found) if self.is_container(&found.path, &found.stat) => {
                Err(refused("write to", &found.path, libc::EPERM))
            }
            _ => Ok(()),
        }
    }

    /// A file gets a name in a directory.
    pub(super) fn refuse_stray_moved(
        &self,
        moved: &Side,
        (parent, name): (InodeId, &OsStr),
    ) -> Result<()> {
        // What lies among arrays already has been judged, or was there before.
        if self.fs.enclosing.is_of_container(moved.link.parent) || self.fs.has_no_containers() {
            return Ok(());
        }
        let Some(directory) = self.one_file_above(parent)? else {
            return Ok(());
        };
        // An array takes bytes of any kind.
        if directory.entry(name).is_some() {
            return Ok(());
        }
        let path = moved.path();
        match self.is_container(&path, &moved.stat) {
            true => Err(self.told_stray(&directory, &moved.link.name, "was not put into it")),
            false => Ok(()),
        }
    }

    /// A file has got a name there.
    pub(super) fn tell_moved_beside(&self, (link, stat): (&Dirent, &Stat)) {
        if let Some((file, _)) = self.fs.inodes.named(link, stat)
            && let Ok(Some(written)) = self.written_beside(file)
        {
            self.tell_beside(&written);
        }
    }

    /// An array cannot be renamed: a copy would not have its type, and the old one would come back.
    pub(super) fn tell_not_moved(&self, above: &ContainerDirectory, name: &OsStr) {
        let path = self.fs.container_path(above.inode).unwrap_or_default();
        log::warn!(
            "{}: {} cannot be renamed: arrays are renamed by programs of the format",
            self.fs.store.display(&path).display(),
            above.below.join(name).display()
        );
    }

    /// The directory, if it is of a container that is one file and not new.
    fn one_file_above(&self, directory: InodeId) -> Result<Option<ContainerDirectory>> {
        let found = ContainerDirectory::find(&self.fs, directory)?;
        Ok(found.filter(|found| found.container.stored == FileKind::File))
    }

    fn written_beside(&self, file: InodeId) -> Result<Option<WrittenBeside>> {
        if self.fs.has_no_containers() {
            return Ok(None);
        }
        let Some(parent) = self.fs.inodes.parent(file) else {
            return Ok(None);
        };
        if !self.fs.enclosing.is_of_container(parent) {
            return Ok(None);
        }
        let (Some(directory), Some(path)) = (
            self.one_file_above(parent)?,
            self.fs.inodes.paths(file).into_iter().next(),
        ) else {
            return Ok(None);
        };
        let (Some(name), stat) = (path.file_name(), self.fs.store.stat(&path)) else {
            return Ok(None);
        };
        let (link, stat) = match stat {
            Err(e) if e.is_not_found() => return Ok(None),
            stat => (Dirent::new(parent, name), stat?),
        };
        let is_it = self.fs.inodes.get(file)?.file() == Some(stat.id);
        Ok(
            (is_it && directory.shows_beside(&link.name)).then_some(WrittenBeside {
                link,
                directory,
                path,
                stat,
            }),
        )
    }

    /// Whether a file is a container, and sound as far as its first bytes tell.
    fn is_container(&self, path: &Path, stat: &Stat) -> bool {
        let found = self.fs.recognise(path, stat);
        matches!(found, Ok(Recognition::Container(found)) if found.damage.is_none())
    }

    fn remove_stray(&self, written: &WrittenBeside) -> Result<()> {
        let _stays = self.fs.live.new.shared();
        let (parent, name) = (written.link.parent, &*written.link.name);
        let directory = self.directories.find(parent)?;
        self.fs
            .live
            .ground
            .writable()?
            .unlink(directory.place(name))?;
        let inode = self.fs.inodes.named(&written.link, &written.stat);
        self.directories.forget_name(&written.link, &written.stat);
        self.directories.tidy_added(parent);
        if let Some((inode, _)) = inode {
            self.fs.places.invalidate(inode, Some(written.link.clone()));
        }
        Err(self.told_stray(&written.directory, name, "was removed"))
    }

    fn told_stray(&self, directory: &ContainerDirectory, name: &OsStr, what: &str) -> Error {
        let path = self.fs.container_path(directory.inode).unwrap_or_default();
        let (shown, name) = (self.fs.store.display(&path), name.display());
        let shown = shown.display();
        log::warn!("{shown}: {name} is a container itself, and {what}: {INSTEAD}");
        refused("put a container into", &path, libc::EPERM)
    }

    /// Says of a file that it is none of the arrays among which it is listed, once, unless it may
    /// become one. Names that begin with a dot are those of temporary files.
    fn tell_beside(&self, written: &WrittenBeside) {
        let WrittenBeside {
            link, directory, ..
        } = written;
        let is_temporary = link.name.as_encoded_bytes().starts_with(b".");
        let facts = self.fs.live.lasting.facts_of(&directory.container);
        if is_temporary || facts.takes_later {
            return;
        }
        let node = self.fs.inodes.named(link, &written.stat);
        let is_first = |node: &Node| node.ordinary().is_some_and(|file| file.note_told_beside());
        if node.is_some_and(|(_, node)| is_first(&node)) {
            let path = self.fs.container_path(directory.inode).unwrap_or_default();
            log::warn!(
                "{}: {} is a file beside its arrays, and none of them: only a container that this mount \
                 has made, of a format that can, takes new arrays",
                self.fs.store.display(&path).display(),
                directory.below.join(&link.name).display()
            );
        }
    }
}
