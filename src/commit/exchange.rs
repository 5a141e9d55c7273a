//! A new file takes the name of a container's file.
//!
//! Checking first who has the name and renaming then would be a race. So the two exchange their names, what came out is
//! looked at, and if it is not the file that was seen before the exchange is undone. Used by [`super::replaced`] and
//! [`super::new_file`].

use std::ffi::OsStr;
use std::sync::Arc;

use super::{Spot, beside};
use crate::disk::{Disk, Renaming, Target};
use crate::error::{Error, Result};
use crate::source::{FileIdentity, Store};

pub(super) struct Exchange<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) spot: &'a Spot,
    /// The file that has the name; if it is another one by now, it keeps it.
    pub(super) seen: FileIdentity,
}

impl Exchange<'_> {
    /// Returns when it is on the disk. `unsure`: called if it may be there or not, and cannot be undone.
    pub(super) fn carry_out(
        &self,
        new_name: &OsStr,
        new: FileIdentity,
        unsure: &dyn Fn(),
    ) -> Result<()> {
        let (old, other) = (self.spot.place(&self.spot.name), self.spot.place(new_name));
        match self.disk.rename(other, old, Renaming::Exchange) {
            Ok(()) => {}
            // Checked a moment before, where a file system has no exchange.
            Err(e) if cannot_exchange(&e) => {
                if self.store.stat(&self.spot.path())?.identity != self.seen {
                    return Err(self.changed());
                }
                self.disk.rename(other, old, Renaming::Over)?;
                // It cannot be undone.
                return self
                    .sync()
                    .or_else(|_| self.sync())
                    .inspect_err(|_| unsure());
            }
            Err(e) if e.is_not_found() => return Err(self.changed()),
            Err(e) => return Err(e),
        }
        let out = self.store.stat(&beside(self.spot, new_name));
        let failed = match out.is_ok_and(|out| out.identity == self.seen) {
            true => match self.sync() {
                Ok(()) => return Ok(()),
                Err(e) => e,
            },
            false => self.changed(),
        };
        // Unless that has been replaced as well: then it stays as it is.
        let ours = self.store.stat(&self.spot.path());
        if ours.is_ok_and(|ours| ours.identity.id == new.id) {
            let back = self.disk.rename(other, old, Renaming::Exchange);
            let back = back.and_then(|()| self.sync());
            back.inspect_err(|_| unsure())?;
        }
        Err(failed)
    }

    /// The names, on the disk.
    fn sync(&self) -> Result<()> {
        let (path, id) = (&*self.spot.directory, self.spot.id);
        self.disk.sync(Target::Named { path, id }, false)
    }

    fn changed(&self) -> Error {
        Error::Changed {
            path: self.store.display(&self.spot.path()),
        }
    }
}

fn cannot_exchange(e: &Error) -> bool {
    use libc::{EINVAL, ENOSYS, EOPNOTSUPP};
    match e {
        Error::Io { cause, .. } => {
            let code = cause.raw_os_error();
            [EINVAL, ENOSYS, EOPNOTSUPP]
                .iter()
                .any(|one| code == Some(*one))
        }
        _ => false,
    }
}
