//! What a container is renamed over, and what takes a container's place: in the source a file and a
//! directory, or two directories that are not empty, which no rename replaces. They change places,
//! and the one that was replaced goes.
//!
//! Used by [`super::rename`].

use std::ffi::OsStr;
use std::path::Path;

use super::super::arrival::is_shown;
use super::super::mounted_fs::MountedFs;
use super::directories::{Side, SourceDirectories};
use crate::commit::tidy::remove_tree;
use crate::container::Recognised;
use crate::disk::Renaming;
use crate::error::Result;
use crate::live::directory::SourceDirectory;
use crate::live::refused;
use crate::source::{FileKind, Listed, Stat};
use crate::stage::new_name;

/// A container that is a file takes the place of an empty directory, or a directory that of
/// such a container: they change places, and then the one that was replaced goes.
pub(super) fn replace_other_kind(
    directories: &SourceDirectories,
    moved: &Side,
    directory: &SourceDirectory,
    name: &OsStr,
    replaced: &Stat,
) -> Result<()> {
    let disk = directories.fs.live.ground.writable()?;
    let (old, new) = (moved.place(), directory.place(name));
    let is_container = directories.is_named_container(&moved.link, &moved.stat);
    if moved.stat.kind != FileKind::Directory && !is_container {
        return disk.rename(old, new, Renaming::Over);
    }
    let path = directory.join(name);
    let is_full = match replaced.kind {
        FileKind::Directory => !directories.is_empty(&path)?,
        // A container takes the place of a container; for a directory it is one that is not
        // empty.
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

/// A container that is a directory takes the place of another: they change places, and then the
/// other one goes. If there is more in it than its own files, that is more than is replaced.
pub(super) fn replace_directory(
    directories: &SourceDirectories,
    moved: &Side,
    directory: &SourceDirectory,
    name: &OsStr,
) -> Result<()> {
    let fs = &directories.fs;
    let (disk, path) = (fs.live.ground.writable()?, directory.join(name));
    let found = recognise_here(fs, &path)?;
    let layout = found.layout();
    let mut others = false;
    fs.store.list(&path, &mut |Listed { name, .. }| {
        others |= is_shown(name) && !layout.has_member(name);
    })?;
    if others {
        return Err(refused("replace", &path, libc::ENOTEMPTY));
    }
    let (old, new) = (moved.place(), directory.place(name));
    disk.rename(old, new, Renaming::Exchange)?;
    // From here on it is one that has been replaced, whether or not it can be removed.
    let hidden = new_name(&moved.link.name);
    if let Err(e) = disk.rename(old, moved.directory.place(&hidden), Renaming::NoReplace) {
        disk.rename(old, new, Renaming::Exchange)?;
        return Err(e);
    }
    let spot = fs.live.ground.spot(&moved.path())?;
    if let Err(e) = remove_tree(disk, &*fs.store, &spot, &hidden) {
        let left = moved.directory.join(&hidden);
        log::warn!("{}", e.told_of(&fs.store.display(&left), ""));
    }
    Ok(())
}

fn recognise_here(fs: &MountedFs, path: &Path) -> Result<Recognised> {
    let stat = fs.store.stat(path)?;
    fs.recognise(path, &stat)?
        .known()
        .ok_or_else(|| fs.live.ground.changed(path))
}
