//! A container that is new: a file, or a directory of files, written under a hidden name and
//! synced, before it is at its place.
//!
//! It appears under a name that is free, or takes that of a container which was empty. A crash
//! before leaves what was there, and something hidden, which the making of the next one removes.
//! Used by `tree` for new containers.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use super::exchange::{Exchange, Swap};
use super::new_files::{MakeFile, NewFile, NewFiles, create_hidden};
use super::spot::Spot;
use super::tidy::{remove_left, remove_tree};
use crate::container::Layout;
use crate::container::writable::{MemberNumber, Recipe};
use crate::disk::{Caller, Disk, DiskFile, NewAttributes, NewEntry, Renaming, Target};
use crate::error::{Error, Result};
use crate::source::{FileId, FileIdentity, FileKind, Store};
use crate::stage::new_name;

/// Of a directory while its files are written.
pub(super) const CLOSED: u32 = 0o700;

/// Where new containers are made, and for which user.
pub struct NewContainerPlace<'a> {
    pub disk: &'a dyn Disk,
    pub store: &'a Arc<dyn Store>,
    pub spot: &'a Spot,
    pub layout: Layout,
    pub owner: Caller,
    /// Asked all the time while it is written: writing much takes long.
    pub go_on: &'a dyn Fn() -> bool,
}

/// Modes that a new container begins with.
#[derive(Debug, Clone, Copy)]
pub struct NewModes {
    /// Of its files.
    pub files: u32,
    /// Of the directory that it is.
    pub directory: u32,
}

/// A container that is written and synced, and not at its place yet.
pub struct NewContainer<'a> {
    at: &'a NewContainerPlace<'a>,
    name: OsString,
    id: FileId,
}

impl<'a> NewContainerPlace<'a> {
    /// Writes what `tell` tells. Nothing is left after an error.
    pub fn write(
        &'a self,
        modes: NewModes,
        to: &NewAttributes,
        tell: impl FnOnce(&mut dyn Recipe) -> Result<()>,
    ) -> Result<NewContainer<'a>> {
        let name = new_name(&self.spot.name);
        let hidden = match self.layout.is_file() {
            true => HiddenContainer::file(self, &name, modes)?,
            false => HiddenContainer::directory(self, &name, modes)?,
        };
        let new = NewContainer {
            at: self,
            id: hidden.id,
            name,
        };
        let mut files = NewFiles::new(hidden);
        match tell(&mut files).and_then(|()| files.finish(to)) {
            Ok(()) => Ok(new),
            Err(e) => {
                new.discard();
                Err(e)
            }
        }
    }
}

impl NewContainer<'_> {
    /// It gets its name, which nothing may have (EEXIST).
    pub fn appear(self) -> Result<()> {
        let name = &self.at.spot.name;
        self.appear_as(name)
    }

    /// It gets this name, in its directory, which nothing may have (EEXIST).
    pub fn appear_as(self, name: &OsStr) -> Result<()> {
        let spot = self.at.spot;
        let (from, to) = (spot.place(&self.name), spot.place(name));
        if self.at.store.stat(&self.path())?.id != self.id {
            let path = self.at.store.display(&self.path());
            return Err(Error::Changed { path });
        }
        let made = self.at.disk.rename(from, to, Renaming::NoReplace);
        if made.is_err() {
            self.discard();
        }
        made
    }

    /// It takes the name of the file that was `seen`, which is left under the hidden name. Returns
    /// when that is on the disk.
    pub fn replace(self, seen: FileIdentity) -> Result<()> {
        let exchange = Exchange {
            disk: self.at.disk,
            store: self.at.store,
            spot: self.at.spot,
        };
        let new = self.at.store.stat(&self.path())?.file();
        if new.id != self.id {
            let path = self.at.store.display(&self.path());
            return Err(Error::Changed { path });
        }
        let swap = Swap {
            name: self.at.spot.name.clone(),
            new_name: self.name.clone(),
            seen: Some(seen),
            new,
        };
        let replaced = exchange.carry_out(&[swap], &|| {});
        if replaced.is_err() {
            self.discard();
        }
        replaced
    }

    /// Where it lies until then.
    pub fn path(&self) -> PathBuf {
        self.at.spot.directory.join(&self.name)
    }

    /// Removes ours, unless another process's file could not be put back.
    pub fn discard(self) {
        let left = self.at.store.stat(&self.path());
        if left.is_ok_and(|left| left.id == self.id)
            && let Err(e) = remove_tree(self.at.disk, &**self.at.store, self.at.spot, &self.name)
        {
            log::warn!("{e}");
        }
    }
}

/// The files of a container that is new, as it lies there.
struct HiddenContainer<'a> {
    at: &'a NewContainerPlace<'a>,
    modes: NewModes,
    /// Of the file, or of the directory.
    id: FileId,
    is: Hidden,
}

enum Hidden {
    File(Arc<dyn DiskFile>),
    Directory(Spot),
}

impl<'a> HiddenContainer<'a> {
    fn file(at: &'a NewContainerPlace<'a>, name: &OsStr, modes: NewModes) -> Result<Self> {
        let file = create_hidden(at.disk, at.spot, name, modes.files, at.owner)?;
        Ok(HiddenContainer {
            at,
            modes,
            id: file.source().id(),
            is: Hidden::File(file),
        })
    }

    fn directory(at: &'a NewContainerPlace<'a>, name: &OsStr, modes: NewModes) -> Result<Self> {
        let (disk, place) = (at.disk, at.spot.place(name));
        let what = NewEntry::Directory { mode: CLOSED };
        match disk.make(place, what, at.owner) {
            Err(e) if e.is_already_there() => {
                remove_left(disk, &**at.store, at.spot, name, at.layout)?;
                let what = NewEntry::Directory { mode: CLOSED };
                disk.make(place, what, at.owner)
            }
            other => other,
        }?;
        let path = at.spot.directory.join(name);
        let made = at.store.stat(&path)?;
        if made.kind != FileKind::Directory {
            return Err(Error::Changed { path });
        }
        let id = made.id;
        Ok(HiddenContainer {
            at,
            modes,
            id,
            is: Hidden::Directory(Spot {
                directory: path,
                id,
                name: OsString::new(),
            }),
        })
    }
}

impl MakeFile for HiddenContainer<'_> {
    type Known = ();

    fn make(&self, number: MemberNumber) -> Result<(NewFile, ())> {
        let (at, name) = (self.at, self.at.layout.member(number));
        let file = match (&self.is, name) {
            (Hidden::File(file), None) if number == MemberNumber::ONLY => Arc::clone(file),
            (Hidden::Directory(spot), Some(name)) => {
                let place = spot.place(OsStr::new(name));
                at.disk.create(place, self.modes.files, at.owner)?
            }
            _ => {
                let what = "there is no such file in a new container";
                return Err(Error::Bug(what.into()));
            }
        };
        Ok((NewFile::new(file, at.owner), ()))
    }

    fn go_on(&self) -> Result<()> {
        if (self.at.go_on)() {
            return Ok(());
        }
        let cause = std::io::Error::from_raw_os_error(libc::EBUSY);
        Err(Error::io("writing a container has been given up", cause))
    }
}

impl NewFiles<HiddenContainer<'_>> {
    /// `to`: of all files; of a directory its owner and time as well.
    fn finish(&self, to: &NewAttributes) -> Result<()> {
        self.check()?;
        let (at, modes) = (self.maker.at, self.maker.modes);
        for (new, ()) in self.each() {
            let target = Target::Open(new.file.source());
            if !to.is_empty() {
                at.disk.set_attributes(target, to)?;
            }
            at.disk.sync(target, false)?;
        }
        let Hidden::Directory(spot) = &self.maker.is else {
            return Ok(());
        };
        let (path, id) = (&*spot.directory, spot.id);
        // The bit that it has from the directory that it lies in.
        let group = u32::from(at.store.stat(path)?.mode) & 0o2000;
        let own = NewAttributes {
            mode: Some(modes.directory | group),
            ..*to
        };
        at.disk.set_attributes(Target::Named { path, id }, &own)?;
        at.disk.sync(Target::Named { path, id }, false)
    }
}
