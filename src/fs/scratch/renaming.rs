//! Renames over something of another kind: a link over a file, a raw file over a packed one.
//!
//! The two have different names in the store, so the new name comes first, which is what readers
//! find at once where it is that of a packed file; then the old entry goes. Before that it gets a
//! second name, by which recovery knows what had to go. Uses [`super::store`]; used by
//! [`super::disk`] and [`super::recovery`].

use std::ffi::OsStr;
use std::path::Path;

use super::find::{FoundEntry, StoredPlace};
use super::names;
use super::shared::refused;
use super::store::ScratchStore;
use crate::disk::{Place, Renaming, Target};
use crate::error::Result;
use crate::source::{FileKind, Listed};

impl ScratchStore {
    pub(super) fn rename_over_another(
        &self,
        (old, from): (&StoredPlace, &FoundEntry),
        (new, to): (&StoredPlace, &FoundEntry),
        stored: &OsStr,
    ) -> Result<()> {
        let disk = self.disk()?;
        let is_directory = |found: &FoundEntry| found.stat.kind == FileKind::Directory;
        let code = match (is_directory(from), is_directory(to)) {
            (true, false) => libc::ENOTDIR,
            (false, true) => libc::EISDIR,
            // What lies there beside the one that is found has no name else.
            _ if self.inner().stat(&new.directory.join(stored)).is_ok() => libc::EBUSY,
            (true, true) => {
                disk.remove_directory(new.named(&to.name))?;
                let to = new.named(stored);
                return disk.rename(old.named(&from.name), to, Renaming::Over);
            }
            (false, false) => return self.replace_another((old, from), (new, to), stored),
        };
        Err(refused("rename", &old.shown, code))
    }

    fn replace_another(
        &self,
        (old, from): (&StoredPlace, &FoundEntry),
        (new, to): (&StoredPlace, &FoundEntry),
        stored: &OsStr,
    ) -> Result<()> {
        let (disk, id) = (self.disk()?, to.stat.id);
        let second = names::renaming(id.inode);
        let path = &new.directory.join(&to.name);
        let linked = disk.link(Target::Named { path, id }, new.named(&second));
        // Not everything can be linked; then a crash between the two may leave both.
        let is_marked = linked.is_ok();
        let renamed = disk.rename(old.named(&from.name), new.named(stored), Renaming::Over);
        let done = renamed.and_then(|()| disk.unlink(new.named(&to.name)));
        if is_marked {
            disk.unlink(new.named(&second))?;
        }
        done
    }
}

/// Finishes a rename that a crash has interrupted, of which the second name is left.
pub(super) fn finish(scratch: &ScratchStore, directory: &Path, second: &OsStr) -> Result<()> {
    let (store, disk) = (scratch.inner(), scratch.disk()?);
    let id = store.stat(directory)?.id;
    let replaced = store.stat(&directory.join(second))?.id;
    let mut entries = Vec::new();
    store.list(directory, &mut |Listed { name, kind, .. }| {
        if name != second && kind != FileKind::Directory {
            entries.push((name.to_owned(), kind));
        }
    })?;
    for (name, kind) in entries {
        let is_it = store
            .stat(&directory.join(&name))
            .is_ok_and(|stat| stat.id == replaced);
        let is_packed = kind == FileKind::File && names::unpacked(&name).is_some();
        let other = directory.join(names::other_kind(&name, is_packed));
        if is_it && store.stat(&other).is_ok() {
            disk.unlink(Place {
                directory,
                id,
                name: &name,
            })?;
            // What has another name beside it is another matter.
            break;
        }
    }
    disk.unlink(Place {
        directory,
        id,
        name: second,
    })
}
