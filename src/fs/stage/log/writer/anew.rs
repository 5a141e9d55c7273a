//! A log that is written anew beside the one there is, and takes its name. Used by
//! `stage::compaction`.

use std::sync::Arc;

use super::LogWriter;
use super::file::{opened, path_of};
use crate::disk::{DiskFile, Renaming, Target};
use crate::error::{Error, Result};
use crate::stage::log::{Base, LogSpot, new_name};
use crate::stage::place::LogPlace;

impl LogWriter {
    /// Makes it. What a crash has left under its name goes.
    pub(crate) fn create_anew(
        &self,
        (place, spot): (&Arc<dyn LogPlace>, &LogSpot),
        base: &Base,
    ) -> Result<LogWriter> {
        let name = new_name(&self.name);
        let new = spot.place(&name);
        match spot.disk.unlink(new) {
            Err(e) if !e.is_not_found() => return Err(e),
            _ => {}
        }
        let file = spot.disk.create(new, 0o600, spot.owner)?;
        let file = opened((place, spot), &name, file)?;
        let mut writer =
            LogWriter::of(file, self.name.clone(), spot.owner, super::first_sequence());
        match writer.begin(spot, base) {
            Ok(()) => Ok(writer),
            Err(e) => {
                writer.remove_anew(spot);
                Err(e)
            }
        }
    }

    /// Takes the place of the log, whole as it is: what was on the disk before is on it from now
    /// on, under either file. That the name leads to this one is synced when something else has to
    /// be.
    pub(crate) fn take_name(
        &mut self,
        (place, spot): (&Arc<dyn LogPlace>, &LogSpot),
        old: &LogWriter,
    ) -> Result<()> {
        // A reader may just read from it.
        old.file.keep_open()?;
        spot.disk.sync(Target::Open(self.file.source()), true)?;
        if self.file.take_failure() {
            let cause = std::io::Error::from_raw_os_error(libc::EIO);
            return Err(Error::io("cannot sync a log that is written anew", cause));
        }
        let new = new_name(&self.name);
        let (old, new) = (spot.place(&self.name), spot.place(&new));
        spot.disk.rename(new, old, Renaming::Over)?;
        self.file.lies_at(path_of(place, &self.name));
        self.synced = self.end;
        Ok(())
    }

    pub(crate) fn remove_anew(&self, spot: &LogSpot) {
        let name = new_name(&self.name);
        if let Err(e) = spot.disk.unlink(spot.place(&name)) {
            log::debug!("{e}");
        }
    }
}
