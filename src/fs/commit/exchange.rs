//! New files take the names of a container's files.
//!
//! Checking first which file has a name and renaming then would be a race. So the two exchange
//! their names, the file that came out is looked at, and if it is not the one that was seen before
//! the exchange is undone. Of several files all change places or none: after a crash in between the
//! recovery completes or undoes it, with the manifest in the log. Used by [`super::replaced`] and
//! [`super::new_container`].

use std::ffi::OsString;
use std::sync::Arc;

use super::spot::{Spot, beside};
use crate::disk::{Disk, Renaming, Target};
use crate::error::{Error, Result};
use crate::source::{FileIdentity, Store};

pub(super) struct Exchange<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) spot: &'a Spot,
}

/// A new file, and the name that it is to get.
pub(super) struct Swap {
    pub(super) name: OsString,
    pub(super) new_name: OsString,
    /// The file that has the name; if it is another one by now, it keeps it. None: no file has it.
    pub(super) seen: Option<FileIdentity>,
    pub(super) new: FileIdentity,
}

/// A swap that has been made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SwapMade {
    Exchanged,
    /// There was nothing before.
    Appeared,
    /// Where a file system has no exchange: it cannot be undone.
    Overwritten,
}

impl Exchange<'_> {
    /// Returns when it is on the disk. `unsure`: called if it may be there or not, or in part, and
    /// cannot be undone.
    pub(super) fn carry_out(&self, swaps: &[Swap], unsure: &dyn Fn()) -> Result<()> {
        let sync = |is_final| match is_final {
            true => self.sync().or_else(|_| self.sync()),
            false => self.sync(),
        };
        self.swap_all(swaps, unsure, &sync)
    }

    /// Makes the exchange without waiting for the disk, which is left to [`sync_names`].
    pub(super) fn swap_names(&self, swaps: &[Swap], unsure: &dyn Fn()) -> Result<()> {
        self.swap_all(swaps, unsure, &|_| Ok(()))
    }

    /// `sync` is given whether the exchange cannot be undone any more.
    fn swap_all(
        &self,
        swaps: &[Swap],
        unsure: &dyn Fn(),
        sync: &dyn Fn(bool) -> Result<()>,
    ) -> Result<()> {
        let mut made = Vec::new();
        let swapped = swaps.iter().try_for_each(|swap| {
            let swapped = self.swap(swap, unsure);
            // An exchange that cannot be undone is to be completed.
            made.push(match made.contains(&SwapMade::Overwritten) {
                true => swapped.or_else(|_| self.swap(swap, unsure))?,
                false => swapped?,
            });
            Ok(())
        });
        let is_final = made.contains(&SwapMade::Overwritten);
        let synced = swapped.and_then(|()| sync(is_final));
        let Err(e) = synced else {
            return Ok(());
        };
        match is_final {
            true => unsure(),
            false if made.is_empty() => {}
            false => self.undo(swaps, &made).inspect_err(|_| unsure())?,
        }
        Err(e)
    }

    fn swap(&self, swap: &Swap, unsure: &dyn Fn()) -> Result<SwapMade> {
        let (old, other) = (self.spot.place(&swap.name), self.spot.place(&swap.new_name));
        let Some(seen) = swap.seen else {
            return match self.disk.rename(other, old, Renaming::NoReplace) {
                Ok(()) => Ok(SwapMade::Appeared),
                Err(e) if e.is_already_there() => Err(self.changed(swap)),
                Err(e) => Err(e),
            };
        };
        // What goes in is ours.
        let going_in = self.store.stat(&beside(self.spot, &swap.new_name));
        if !going_in.is_ok_and(|new| new.id == swap.new.id) {
            return Err(self.changed(swap));
        }
        match self.disk.rename(other, old, Renaming::Exchange) {
            Ok(()) => {}
            // Checked a moment before, where a file system has no exchange.
            Err(e) if cannot_exchange(&e) => {
                if self.store.stat(&beside(self.spot, &swap.name))?.file() != seen {
                    return Err(self.changed(swap));
                }
                self.disk.rename(other, old, Renaming::Over)?;
                return Ok(SwapMade::Overwritten);
            }
            Err(e) if e.is_not_found() => return Err(self.changed(swap)),
            Err(e) => return Err(e),
        }
        let refused = match self.store.stat(&beside(self.spot, &swap.new_name)) {
            Ok(out) if out.file() == seen => return Ok(SwapMade::Exchanged),
            Ok(_) => self.changed(swap),
            Err(e) if e.is_not_found() => self.changed(swap),
            Err(e) => e,
        };
        let back = self.undo(std::slice::from_ref(swap), &[SwapMade::Exchanged]);
        back.inspect_err(|_| unsure())?;
        Err(refused)
    }

    /// The last one first. A name that another process has taken meanwhile is left to it.
    fn undo(&self, swaps: &[Swap], made: &[SwapMade]) -> Result<()> {
        for (swap, made) in swaps.iter().zip(made).rev() {
            let (old, other) = (self.spot.place(&swap.name), self.spot.place(&swap.new_name));
            let written_here = self.store.stat(&beside(self.spot, &swap.name));
            if written_here.is_ok_and(|written_here| written_here.id == swap.new.id) {
                let how = match made {
                    SwapMade::Appeared => Renaming::NoReplace,
                    SwapMade::Exchanged | SwapMade::Overwritten => Renaming::Exchange,
                };
                match how {
                    Renaming::NoReplace => self.disk.rename(old, other, how)?,
                    _ => self.disk.rename(other, old, how)?,
                }
            }
        }
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        sync_names(self.disk, self.spot)
    }

    fn changed(&self, swap: &Swap) -> Error {
        Error::Changed {
            path: self.store.display(&beside(self.spot, &swap.name)),
        }
    }
}

/// Has the names in a directory reach the disk.
pub(super) fn sync_names(disk: &dyn Disk, spot: &Spot) -> Result<()> {
    let (path, id) = (&*spot.directory, spot.id);
    disk.sync(Target::Named { path, id }, false)
}

pub(super) fn cannot_exchange(e: &Error) -> bool {
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
