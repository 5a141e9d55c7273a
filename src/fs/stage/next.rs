//! A [`Stage`] and its next file: beginning one, writing to it, syncing and removing it.
//!
//! One is begun only while no commit is under way, so layers above each other never have two.

use std::ops::Range;
use std::sync::Arc;

use super::log::{LogSpot, next_name};
use super::next_file::NextFile;
use super::staging::{OpenLog, Stage};
use super::written_array::WrittenArray;
use crate::array::stored_run::StoredRun;
use crate::error::Result;

impl Stage {
    /// Whether an array could get a place in the next file, if it lies in one piece.
    pub fn may_have_run(&self, array: WrittenArray) -> bool {
        let layers = self.read_layers();
        layers.frozen.is_none() && layers.active.run(array).is_none()
    }

    /// Whether a next file has been begun for what is written now.
    pub fn has_next(&self) -> bool {
        self.read_layers().active.next_file().is_some()
    }

    /// What is written of an array goes to its place in the next file from now on, which is begun
    /// if there is none.
    pub fn begin_run(&self, array: WrittenArray, run: StoredRun) -> Result<()> {
        let pinned = self.place.pinned()?;
        let mut log = self.lock_log();
        // No layer is frozen while the log is locked.
        let layers = self.layers();
        let [active] = &layers[..] else {
            return Ok(());
        };
        if active.next_file().is_none() {
            log.open(&pinned.spot, &layers)?;
            let Some(next) = NextFile::begin(&pinned.spot)? else {
                return Ok(());
            };
            log.has_next = true;
            active.set_next(next);
        }
        active.add_area(array, run);
        Ok(())
    }

    /// Bytes that are staged there.
    pub fn bytes_in_next(&self) -> u64 {
        let layers = self.layers();
        layers.iter().map(|layer| layer.bytes_in_next()).sum()
    }

    /// Whether bytes could be put into the next file, and were.
    pub(super) fn write_next(&self, array: WrittenArray, at: u64, bytes: &[u8]) -> Result<bool> {
        let layers = self.read_layers();
        let active = Arc::clone(&layers.active);
        let Some(next) = active.next_file() else {
            return Ok(false);
        };
        self.charge_intervals(&active)?;
        drop(layers);
        let range = at..at.saturating_add(bytes.len() as u64);
        let Some(held) = next.enter() else {
            return Ok(false);
        };
        let Some(run) = active.takes_next(array, &range) else {
            return Ok(false);
        };
        if let Err(e) = next.put(&held, &run, (at, bytes)) {
            log::debug!("written bytes go to memory: {e}");
            return Ok(false);
        }
        self.show_in_next(&active, array, range)
    }

    /// False if the layer is being committed by now: then the commit does not know the bytes.
    fn show_in_next(
        &self,
        active: &Arc<super::Layer>,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Result<bool> {
        let layers = self.read_layers();
        let is_active = Arc::ptr_eq(&layers.active, active);
        if is_active {
            active.put_next(array, range)?;
        }
        Ok(is_active)
    }

    /// Has the bytes to which the log refers reach the disk.
    pub(super) fn sync_next(&self) -> Result<()> {
        let layers = self.layers();
        let mut files = layers.iter().filter_map(|layer| layer.next_file());
        files.try_for_each(|next| next.sync(&*self.place))
    }
}

impl OpenLog {
    /// Removes the next file, of which no layer needs anything. What cannot be removed is by the
    /// next commit.
    pub(super) fn remove_next(&mut self, spot: &LogSpot) {
        if !std::mem::take(&mut self.has_next) {
            return;
        }
        let name = next_name(&spot.container);
        match spot.disk.unlink(spot.place(&name)) {
            Err(e) if !e.is_not_found() => {
                self.has_next = true;
                log::debug!("{e}");
            }
            _ => {}
        }
    }
}
