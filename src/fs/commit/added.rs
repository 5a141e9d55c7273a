//! Added files: put into the directory of a container that is one file, and no part of the
//! container.
//!
//! They lie as they are in a hidden directory beside the container, those of a group in directories
//! of that name in it. It is found by the container's name, and believed as one of
//! [`drafts`](super::drafts) is. Recovery of drafts and logs never looks at it. When the container
//! gets another name, so does that directory: two steps, between which a crash may come. So before
//! the first one a hidden link beside the new name says which directory follows which container,
//! and it is removed after the second one. Used by `tree`, and by the commands that list what
//! another process has left behind.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::drafts::is_of;
use super::new_container::CLOSED;
use super::spot::Spot;
use crate::disk::{Caller, Disk, NewEntry, Place, Renaming, Target};
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind, Listed, Store};
use crate::stage::{added_name, move_name};

/// Where the added files of a container lie.
pub fn added_path(container: &Path) -> PathBuf {
    let name = container.file_name().unwrap_or(OsStr::new(""));
    container.with_file_name(added_name(name))
}

/// The directory of a container's added files, if there is one that is believed.
pub fn added_of(store: &dyn Store, container: &Path) -> Result<Option<(PathBuf, FileId)>> {
    let path = added_path(container);
    let found = match store.stat(&path) {
        Err(e) if e.is_not_found() => return Ok(None),
        other => other?,
    };
    let is_believed = is_of(&found, store.stat(container)?.uid);
    Ok(is_believed.then_some((path, found.id)))
}

/// A container gets the name `to`, and the directory of its added files is to follow: what the
/// hidden link says.
#[derive(Debug, PartialEq, Eq)]
struct AddedMove {
    /// Inode numbers of the container and of the directory.
    container: u64,
    directory: u64,
    /// The container's name before, in the source.
    from: PathBuf,
}

impl AddedMove {
    fn text(&self) -> OsString {
        let mut text = format!("{} {} ", self.container, self.directory).into_bytes();
        text.extend_from_slice(self.from.as_os_str().as_bytes());
        OsString::from_vec(text)
    }

    fn parse(text: &OsStr) -> Option<AddedMove> {
        let mut parts = text.as_bytes().splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (container, directory) = (number()?, number()?);
        Some(AddedMove {
            container,
            directory,
            from: PathBuf::from(OsStr::from_bytes(parts.next()?)),
        })
    }
}

/// Says, before a container is renamed, that its added files follow it: false if it has none. When
/// this returns, that is on the disk.
pub fn announce_move(disk: &dyn Disk, store: &dyn Store, from: &Spot, to: &Spot) -> Result<bool> {
    let path = from.path();
    let Some((_, directory)) = added_of(store, &path)? else {
        return Ok(false);
    };
    let container = store.stat(&path)?;
    let target = AddedMove {
        container: container.id.inode,
        directory: directory.inode,
        from: path,
    };
    let name = move_name(&to.name);
    let owner = Caller::of(container.uid, container.gid);
    let target = target.text();
    let make = || {
        disk.make(
            to.place(&name),
            NewEntry::Symlink { target: &target },
            owner,
        )
    };
    match make() {
        // Of a move that came to nothing.
        Err(e) if e.is_already_there() => {
            disk.unlink(to.place(&name))?;
            make()
        }
        other => other,
    }?;
    sync(disk, to)?;
    Ok(true)
}

/// Has the added files of a container follow it that was to get this name, if it has, and they have
/// not. After that the announced move is done, or has come to nothing.
pub fn finish_move(disk: &dyn Disk, store: &dyn Store, to: &Spot) -> Result<()> {
    let link = to.directory.join(move_name(&to.name));
    let found = match store.stat(&link) {
        Err(e) if e.is_not_found() => return Ok(()),
        other => other?,
    };
    let is_believed = |uid| found.kind == FileKind::Symlink && found.uid == uid;
    let container = match store.stat(&to.path()) {
        Err(e) if e.is_not_found() => None,
        other => Some(other?),
    };
    let said = match &container {
        Some(container) if is_believed(container.uid) => {
            let said = AddedMove::parse(&store.posix()?.read_link(&link)?);
            said.filter(|said| said.container == container.id.inode)
        }
        _ => None,
    };
    if let Some(said) = said {
        follow(disk, store, &said, to)?;
    }
    disk.unlink(to.place(&move_name(&to.name)))
}

fn follow(disk: &dyn Disk, store: &dyn Store, said: &AddedMove, to: &Spot) -> Result<()> {
    let (old, new) = (added_path(&said.from), added_path(&to.path()));
    let is_left = store
        .stat(&old)
        .is_ok_and(|found| found.kind == FileKind::Directory && found.id.inode == said.directory);
    if !is_left {
        return Ok(());
    }
    let above = said.from.parent().unwrap_or(Path::new(""));
    let from = Spot {
        directory: above.to_owned(),
        id: store.stat(above)?.id,
        name: said.from.file_name().ok_or(Error::Unsuitable)?.to_owned(),
    };
    // The container has its new name for good before the directory gets its own.
    sync(disk, &from)?;
    sync(disk, to)?;
    let how = match store.stat(&new) {
        Err(e) if e.is_not_found() => Renaming::NoReplace,
        // Of the container with which it has changed places.
        other => other.map(|_| Renaming::Exchange)?,
    };
    let (old, new) = (added_name(&from.name), added_name(&to.name));
    disk.rename(from.place(&old), to.place(&new), how)?;
    sync(disk, &from)?;
    sync(disk, to)
}

fn sync(disk: &dyn Disk, spot: &Spot) -> Result<()> {
    let (path, id) = (&*spot.directory, spot.id);
    disk.sync(Target::Named { path, id }, false)
}

/// The directory of this group among a container's added files, which lie at `top`; made if it is
/// not there.
pub fn make_below(
    disk: &dyn Disk,
    store: &dyn Store,
    top: (PathBuf, FileId),
    (group, owner): (&Path, Caller),
) -> Result<(PathBuf, FileId)> {
    let (mut directory, mut id) = top;
    for name in group {
        let place = Place {
            directory: &directory,
            id,
            name,
        };
        match disk.make(place, NewEntry::Directory { mode: CLOSED }, owner) {
            Err(e) if e.is_already_there() => {}
            other => other?,
        }
        directory.push(name);
        let found = store.stat(&directory)?;
        if found.kind != FileKind::Directory {
            return Err(Error::NotADirectory);
        }
        id = found.id;
    }
    Ok((directory, id))
}

/// Removes the directory of a container's added files, if there is one, with those of its groups;
/// ENOTEMPTY if there is something in it.
pub fn remove_empty(disk: &dyn Disk, store: &dyn Store, spot: &Spot) -> Result<()> {
    let name = added_name(&spot.name);
    let place = Place {
        directory: &spot.directory,
        id: spot.id,
        name: &name,
    };
    remove_empty_at(disk, store, place)
}

fn remove_empty_at(disk: &dyn Disk, store: &dyn Store, place: Place<'_>) -> Result<()> {
    let path = place.directory.join(place.name);
    let found = match store.stat(&path) {
        Err(e) if e.is_not_found() => return Ok(()),
        other => other?,
    };
    let mut groups = Vec::new();
    if found.kind == FileKind::Directory {
        store.list(&path, &mut |Listed { name, kind, .. }| {
            if kind == FileKind::Directory {
                groups.push(name.to_owned());
            }
        })?;
    }
    for name in &groups {
        let within = Place {
            directory: &path,
            id: found.id,
            name,
        };
        match remove_empty_at(disk, store, within) {
            Err(e) if e.is_not_empty() => {}
            other => other?,
        }
    }
    match disk.remove_directory(place) {
        Err(e) if e.is_not_found() => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_says_is_read_again() {
        let said = AddedMove {
            container: 7,
            directory: 12,
            from: PathBuf::from("a b/c \u{e9}.blp"),
        };
        assert_eq!(AddedMove::parse(&said.text()), Some(said));
        for bad in ["", "7", "7 12", "x 12 a", "7 -1 a"] {
            assert_eq!(AddedMove::parse(OsStr::new(bad)), None, "{bad}");
        }
    }
}
