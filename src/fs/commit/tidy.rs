//! Removing hidden things beside containers: directories of drafts, and containers that were to be,
//! or have been, replaced.
//!
//! Used by [`super::new_container`], by `tree`, and by the commands on stages.

use std::ffi::OsStr;
use std::path::Path;

use super::spot::{Spot, beside};
use crate::container::Layout;
use crate::disk::{Disk, Place};
use crate::error::{Error, Result};
use crate::source::{FileKind, Listed, Stat, Store};
use crate::stage::is_hidden_name;

/// Removes the file of this name, or the directory with all that is in it.
pub fn remove_tree(disk: &dyn Disk, store: &dyn Store, spot: &Spot, name: &OsStr) -> Result<()> {
    let path = beside(spot, name);
    match store.stat(&path) {
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e),
        Ok(found) if found.kind == FileKind::Directory => {
            remove_directory(disk, store, &path, &mut |_, _| {})
        }
        Ok(_) => disk.unlink(spot.place(name)),
    }
}

/// Removes a container of ours that was not finished, or has been replaced: a directory is removed
/// only if it has no files but a container's.
pub fn remove_left(
    disk: &dyn Disk,
    store: &dyn Store,
    spot: &Spot,
    name: &OsStr,
    layout: Layout,
) -> Result<()> {
    let path = beside(spot, name);
    let is_directory = store
        .stat(&path)
        .is_ok_and(|found| found.kind == FileKind::Directory);
    let mut others = false;
    if is_directory {
        store.list(&path, &mut |Listed { name, kind, .. }| {
            let is_own = layout.has_member(name) || is_hidden_name(name);
            others |= kind == FileKind::Directory || !is_own;
        })?;
    }
    match others {
        false => remove_tree(disk, store, spot, name),
        true => {
            let cause = std::io::Error::from_raw_os_error(libc::EEXIST);
            let shown = store.display(&path);
            let doing = format!(
                "{} is not of arrayfs; look into it, and move or remove it",
                shown.display()
            );
            Err(Error::io(doing, cause))
        }
    }
}

/// Removes a directory with all that is in it. `each` is called for every entry in it that has
/// gone, with its path from there.
pub fn remove_directory(
    disk: &dyn Disk,
    store: &dyn Store,
    path: &Path,
    each: &mut dyn FnMut(&Path, &Stat),
) -> Result<()> {
    // Where there is more than one, the last one is done first: a directory after all that are in
    // it.
    let mut left = vec![(path.to_owned(), false)];
    while let Some((directory, is_emptied)) = left.pop() {
        let stat = store.stat(&directory)?;
        if is_emptied {
            remove_empty(disk, store, &directory)?;
            if let Some(inside) = directory
                .strip_prefix(path)
                .ok()
                .filter(|inside| **inside != *"")
            {
                each(inside, &stat);
            }
            continue;
        }
        left.push((directory.clone(), true));
        let mut names = Vec::new();
        store.list(&directory, &mut |Listed { name, .. }| {
            names.push(name.to_owned())
        })?;
        for name in &names {
            let found = directory.join(name);
            let of = store.stat(&found)?;
            if of.kind == FileKind::Directory {
                left.push((found, false));
                continue;
            }
            disk.unlink(Place {
                directory: &directory,
                id: stat.id,
                name,
            })?;
            if let Ok(inside) = found.strip_prefix(path) {
                each(inside, &of);
            }
        }
    }
    Ok(())
}

fn remove_empty(disk: &dyn Disk, store: &dyn Store, path: &Path) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new(""));
    disk.remove_directory(Place {
        directory,
        id: store.stat(directory)?.id,
        name: path.file_name().ok_or(Error::Unsuitable)?,
    })
}
