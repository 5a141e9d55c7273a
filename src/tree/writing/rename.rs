//! Renaming, of files, directories and containers alike.
//!
//! Used by [`super`].

use std::ffi::OsStr;
use std::path::Path;

use super::super::inode::Dirent;
use super::super::{InodeId, Tree};
use super::{SourceDirectory, refused};
use crate::disk::Renaming;
use crate::error::Result;
use crate::source::{FileKind, Stat};

/// A name that is renamed, and what it led to before.
struct Side {
    link: Dirent,
    directory: SourceDirectory,
    stat: Stat,
}

impl Tree {
    pub fn rename(
        &self,
        from: (InodeId, &OsStr),
        to: (InodeId, &OsStr),
        how: Renaming,
    ) -> Result<()> {
        let disk = self.writable()?;
        let mut moved = self.side(from)?;
        // What lies below is not to be looked for meanwhile; paths above may have changed until nobody else moves.
        let moving = self.moves.begin();
        moved.directory = self.directory(from.0)?;
        let (link, directory) = (Dirent::new(to.0, to.1), self.directory(to.0)?);
        let replaced = match self.store.stat(&directory.join(to.1)) {
            Ok(stat) => Some(stat),
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        self.as_looked_up(&moved.link, &moved.stat)?;
        if let Some(stat) = &replaced {
            self.as_looked_up(&link, stat)?;
        }
        let (old, new) = (moved.directory.place(from.1), directory.place(to.1));
        match &replaced {
            // In the mount both are directories; in the source only one is.
            Some(stat) if how == Renaming::Over && differ(stat.kind, moved.stat.kind) => {
                self.replace_other_kind(&moved, &directory, to.1, stat)?;
            }
            _ => disk.rename(old, new, how)?,
        }
        moving.made();
        match (how, replaced) {
            (Renaming::Exchange, Some(stat)) => {
                let ends = ((&moved.link, &moved.stat), (&link, &stat));
                self.inodes.exchanged(ends.0, ends.1);
                self.look_again(&moved.link, &stat);
            }
            (_, replaced) => {
                if let Some(stat) = replaced.filter(|stat| !is_same(stat, &moved.stat)) {
                    self.forget_name(&link, &stat);
                }
                self.inodes.renamed(&moved.link, &link, &moved.stat);
            }
        }
        self.look_again(&link, &moved.stat);
        self.names_changed(from.0);
        self.names_changed(to.0);
        Ok(())
    }

    fn side(&self, (parent, name): (InodeId, &OsStr)) -> Result<Side> {
        let directory = self.directory(parent)?;
        Ok(Side {
            stat: self.store.stat(&directory.join(name))?,
            link: Dirent::new(parent, name),
            directory,
        })
    }

    /// A container that is a file takes the place of an empty directory, or a directory that of such a container: they
    /// change places, and then the one that was replaced goes.
    fn replace_other_kind(
        &self,
        moved: &Side,
        directory: &SourceDirectory,
        name: &OsStr,
        replaced: &Stat,
    ) -> Result<()> {
        let disk = self.writable()?;
        let (old, new) = (
            moved.directory.place(&moved.link.name),
            directory.place(name),
        );
        let is_container = self.is_container(&moved.link, &moved.stat);
        if moved.stat.kind != FileKind::Directory && !is_container {
            return disk.rename(old, new, Renaming::Over);
        }
        let path = directory.join(name);
        let is_full = match replaced.kind {
            FileKind::Directory => !self.is_empty(&path)?,
            // A container takes the place of a container; for a directory it is one that is not empty.
            _ => !is_container,
        };
        if is_full {
            return Err(refused("replace", &path, libc::ENOTEMPTY));
        }
        disk.rename(old, new, Renaming::Exchange)?;
        let removed = match replaced.kind {
            FileKind::Directory => disk.remove_directory(old),
            _ => disk.unlink(old),
        };
        if removed.is_err() {
            disk.rename(old, new, Renaming::Exchange)?;
        }
        removed
    }

    fn is_container(&self, link: &Dirent, stat: &Stat) -> bool {
        let known = self.inodes.named(link, stat);
        known.is_some_and(|(_, node)| node.container().is_some())
    }

    fn is_empty(&self, path: &Path) -> Result<bool> {
        let mut empty = true;
        self.store.list(path, &mut |_, _| empty = false)?;
        Ok(empty)
    }

    /// What an entry is may go by its name: if it is something else now, the kernel is to look the name up afresh.
    fn look_again(&self, link: &Dirent, stat: &Stat) {
        let Some((inode, node)) = self.inodes.named(link, stat) else {
            return;
        };
        let before = node.container().is_some();
        let Ok(above) = self.inodes.path(link.parent) else {
            return;
        };
        match self.shown_kind(link, &above) {
            Ok(kind) if stat.kind == FileKind::File && before != (kind == FileKind::Directory) => {
                self.invalidate(inode, Some(link.clone()));
            }
            _ => {}
        }
    }
}

fn differ(one: FileKind, other: FileKind) -> bool {
    (one == FileKind::Directory) != (other == FileKind::Directory)
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    one.identity.id == other.identity.id && one.mount == other.mount
}
