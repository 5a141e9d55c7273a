//! A container's file that is new: written under a hidden name and synced, before it is at its place.
//!
//! It appears under a name that nobody has, or takes that of a container which was empty. A crash before leaves what was there, and
//! a hidden file, which whoever makes the next one removes. Used by `tree` for new containers.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::Arc;

use super::Spot;
use super::exchange::Exchange;
use super::replaced::put_all;
use crate::container::rewrite::{MemberNumber, Recipe};
use crate::disk::{Caller, Disk, DiskFile, NewAttributes, Renaming, Target};
use crate::error::{Error, Result};
use crate::source::{FileIdentity, Store};
use crate::stage::new_name;

/// Where new files of a container are made, and for whom.
pub struct NewFilePlace<'a> {
    pub disk: &'a dyn Disk,
    pub store: &'a Arc<dyn Store>,
    pub spot: &'a Spot,
    pub owner: Caller,
    /// Asked all the time while it is written: writing much takes long.
    pub go_on: &'a dyn Fn() -> bool,
}

/// A file that is written and synced, and not at its place yet.
pub struct NewFile<'a> {
    at: &'a NewFilePlace<'a>,
    name: OsString,
    file: Arc<dyn DiskFile>,
}

impl<'a> NewFilePlace<'a> {
    /// Writes what `tell` tells. Nothing is left after an error.
    pub fn write(
        &'a self,
        mode: u32,
        to: &NewAttributes,
        tell: impl FnOnce(&mut dyn Recipe) -> Result<()>,
    ) -> Result<NewFile<'a>> {
        let name = new_name(&self.spot.name);
        let file = create_hidden(self.disk, self.spot, &name, mode, self.owner)?;
        let new = NewFile {
            at: self,
            name,
            file,
        };
        match new.fill(to, tell) {
            Ok(()) => Ok(new),
            Err(e) => {
                new.discard();
                Err(e)
            }
        }
    }
}

impl NewFile<'_> {
    fn fill(
        &self,
        to: &NewAttributes,
        tell: impl FnOnce(&mut dyn Recipe) -> Result<()>,
    ) -> Result<()> {
        tell(&mut HiddenFile {
            file: &*self.file,
            caller: self.at.owner,
            go_on: self.at.go_on,
        })?;
        let target = Target::Open(self.file.source());
        if !to.is_empty() {
            self.at.disk.set_attributes(target, to)?;
        }
        self.at.disk.sync(target, false)
    }

    /// It gets its name, which nothing may have (EEXIST).
    pub fn appear(self) -> Result<()> {
        let spot = self.at.spot;
        let (from, to) = (spot.place(&self.name), spot.place(&spot.name));
        let made = self.at.disk.rename(from, to, Renaming::NoReplace);
        if made.is_err() {
            self.discard();
        }
        made
    }

    /// It takes the name of the file that was `seen`, which is left under the hidden name. Returns when that is on the disk.
    pub fn replace(self, seen: FileIdentity) -> Result<()> {
        let exchange = Exchange {
            disk: self.at.disk,
            store: self.at.store,
            spot: self.at.spot,
            seen,
        };
        let new = self.file.source().stat()?.identity;
        let replaced = exchange.carry_out(&self.name, new, &|| {});
        if replaced.is_err() {
            self.discard();
        }
        replaced
    }

    /// Ours, unless somebody else's could not be put back.
    pub fn discard(self) {
        let left = self.at.store.stat(&self.at.spot.directory.join(&self.name));
        if left.is_ok_and(|left| left.identity.id == self.file.source().identity().id)
            && let Err(e) = self.at.disk.unlink(self.at.spot.place(&self.name))
        {
            log::warn!("{e}");
        }
    }
}

/// Makes a file under a hidden name; what was left under it goes.
pub(super) fn create_hidden(
    disk: &dyn Disk,
    spot: &Spot,
    name: &OsStr,
    mode: u32,
    owner: Caller,
) -> Result<Arc<dyn DiskFile>> {
    let place = spot.place(name);
    match disk.create(place, mode, owner) {
        Err(e) if e.is_already_there() => {
            disk.unlink(place)?;
            disk.create(place, mode, owner)
        }
        other => other,
    }
}

/// New bytes alone.
struct HiddenFile<'a> {
    file: &'a dyn DiskFile,
    caller: Caller,
    go_on: &'a dyn Fn() -> bool,
}

impl Recipe for HiddenFile<'_> {
    fn copy(&mut self, _file: MemberNumber, _from: Range<u64>, _to: u64) -> Result<()> {
        Err(Error::Bug(
            "a new container has nothing to copy from".into(),
        ))
    }

    fn put(&mut self, _file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        if !(self.go_on)() {
            let cause = std::io::Error::from_raw_os_error(libc::EBUSY);
            return Err(Error::io("writing a container has been given up", cause));
        }
        put_all(self.file, at, bytes, self.caller)
    }

    fn set_len(&mut self, _file: MemberNumber, len: u64) -> Result<()> {
        self.file.set_len(len, self.caller)
    }
}
