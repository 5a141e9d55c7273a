//! The steps of a commit, as the stage sees them: the layer is frozen, and either becomes the
//! container or is unfrozen.
//!
//! One commit at a time: [`Stage::freeze`] gives the layer to commit, writes go on into a new one
//! above it. Then either [`Stage::committed`] or [`Stage::unfreeze`]. Each of these gives readers
//! of the stage the new layers before anything is written to them ([`ShowLayers`]). Records that
//! recovery needs meanwhile are appended by [`Stage::append`], which returns before they are on the
//! disk; [`Stage::sync_log`] waits for that.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layer::Layer;
use super::log::{Base, CommitRecord, HeldFile, LogBytes, LogWriter, LoggedArray, Record};
use super::staging::{LayerPair, OpenLog, Stage, Syncing};
use super::written_array::WrittenArray;
use crate::error::{Error, Result};

/// Gives the layers, the top first, to the handles that read through them. Called under the locks
/// of the stage, so it must not call the stage.
pub type ShowLayers<'a> = &'a mut dyn FnMut(&[Arc<Layer>]);

/// For a stage that no handle reads through.
pub fn to_nobody(_: &[Arc<Layer>]) {}

impl Stage {
    /// Everything that is staged, to be committed. None if there is nothing, or a commit is under
    /// way.
    pub fn freeze(&self, show: ShowLayers<'_>) -> Option<Arc<Layer>> {
        self.freeze_if(|active| !active.is_clean(), show)
    }

    /// Everything that is staged, for a commit that brings more than the staged bytes. None if a
    /// commit is under way.
    pub fn freeze_all(&self, show: ShowLayers<'_>) -> Option<Arc<Layer>> {
        self.freeze_if(|_| true, show)
    }

    fn freeze_if(
        &self,
        is: impl FnOnce(&Layer) -> bool,
        show: ShowLayers<'_>,
    ) -> Option<Arc<Layer>> {
        let log = self.lock_log();
        let mut layers = self.write_layers();
        if layers.frozen.is_some() || !is(&layers.active) {
            return None;
        }
        let frozen = Arc::clone(&layers.active);
        frozen.end_encodings();
        let bytes = log.writer.as_ref().map(LogWriter::bytes);
        let next = Layer::new(frozen.number() + 1, &frozen.lens(), bytes);
        layers.active = Arc::new(next);
        layers.frozen = Some(Arc::clone(&frozen));
        show(&layers.list().collect::<Vec<_>>());
        Some(frozen)
    }

    /// The layer that is being committed.
    pub fn frozen(&self) -> Option<Arc<Layer>> {
        self.read_layers().frozen.clone()
    }

    /// The commit has failed: everything is staged as if it had not begun.
    pub fn unfreeze(&self, show: ShowLayers<'_>) -> Result<()> {
        let mut log = self.lock_log();
        let mut layers = self.write_layers();
        if let Some(frozen) = layers.frozen.take() {
            frozen.absorb(&layers.active);
            layers.active = Arc::clone(&frozen);
        }
        let layer = layers.active.number();
        show(&layers.list().collect::<Vec<_>>());
        drop(layers);
        let said = match std::mem::take(&mut log.commit_logged) {
            true => log.put_at_last(Record::Thawed { layer }),
            false => Ok(()),
        };
        drop(log);
        said
    }

    /// An array is the stored one now, of this length, whatever was staged of it before the commit
    /// that is under way began.
    pub fn replaced(&self, array: WrittenArray, len: u64) -> Result<()> {
        let log = self.lock_log();
        let layers = self.write_layers();
        let Some(frozen) = &layers.frozen else {
            return Ok(());
        };
        frozen.show_below(array, len)?;
        // Unless it has been written to since.
        if layers.active.leaves(array) {
            layers.active.show_below(array, len)?;
        }
        drop((layers, log));
        self.has_changed();
        Ok(())
    }

    /// Begins to give an array another content as a whole, above what is frozen. Until all of it is
    /// in the log, a crash leaves what was there before: so no thread syncs meanwhile.
    pub fn begin_content(&self, _alone: &Syncing<'_>, array: WrittenArray) -> Result<()> {
        let mut log = self.open_log()?;
        let layers = self.read_layers();
        // What another handle has written since would be lost if this came to nothing.
        if !layers.active.leaves(array) {
            let cause = std::io::Error::from_raw_os_error(libc::EBUSY);
            return Err(Error::io("cannot replace an array that is written", cause));
        }
        let (layer, number) = (layers.active.number(), array.0);
        drop(layers);
        log.put_record(&Record::Provisional {
            layer,
            array: number,
        })?;
        log.provisional.push((layer, array));
        Ok(())
    }

    /// Bytes staged of an array since that began are void.
    pub fn take_back_content(&self, array: WrittenArray) -> Result<()> {
        let mut log = self.lock_log();
        let layers = self.write_layers();
        if let Some(frozen) = &layers.frozen {
            layers.active.show_below(array, frozen.len(array))?;
        }
        drop(layers);
        self.has_changed();
        log.provisional.retain(|(_, other)| *other != array);
        log.put_at_last(Record::TakenBack { array: array.0 })
    }

    /// The commit has failed after a part of it was done. The log does not call it off: the
    /// recovery carries it out again.
    pub fn stay_sealed(&self) {
        self.half_done.store(true, Ordering::Release);
        self.lock_log().commit_logged = false;
    }

    /// The frozen layer is the container's now, which has these files and lengths of arrays. The
    /// log says so, or is gone; [`Stage::sync_log`] waits until that is on the disk. Whatever it
    /// returns, the layer is no longer part of the stage.
    pub fn committed(
        &self,
        alone: &Syncing<'_>,
        base: Base,
        lens: &[u64],
        show: ShowLayers<'_>,
    ) -> Result<()> {
        let mut log = self.lock_log();
        let mut layers = self.write_layers();
        let Some(frozen) = layers.frozen.take() else {
            return Ok(());
        };
        layers.active.rebase(lens);
        let in_log = layers.active.has_logged();
        match layers.active.is_clean() {
            true => self.forget_last_write(),
            false => self.restage(),
        }
        show(&layers.list().collect::<Vec<_>>());
        drop(layers);
        self.has_changed();
        log.commit_logged = false;
        let committed = frozen.number();
        log.provisional.retain(|(layer, _)| *layer > committed);
        log.base = base;
        for (LoggedArray { len: own, .. }, &len) in log.arrays.iter_mut().zip(lens) {
            *own = len;
        }
        let noted = match in_log {
            false => log.remove(committed, alone),
            true => log.put_committed(committed),
        };
        log.remove_next_at(alone);
        drop(log);
        frozen.uncharge();
        noted
    }

    /// The container has arrays of these lengths: those that follow from others may have another
    /// than the log says.
    pub fn rebase(&self, lens: &[u64]) {
        let mut log = self.lock_log();
        let layers = self.write_layers();
        layers.active.rebase(lens);
        for (LoggedArray { len: own, .. }, &len) in log.arrays.iter_mut().zip(lens) {
            *own = len;
        }
    }

    /// Has attributes of the container's files changed, not their content: a log that is made from
    /// now on names them by the base that `change` returns. None, and nothing is changed, if there
    /// is a log, which knows them as they are. One that was removed does not come back after that.
    pub fn change_base(
        &self,
        change: &mut dyn FnMut() -> (Result<()>, Option<Base>),
    ) -> Option<Result<()>> {
        let mut log = self.lock_log();
        if log.writer.is_some() {
            return None;
        }
        if let Err(e) = log.be_gone() {
            return Some(Err(e));
        }
        let (changed, base) = change();
        if let Some(base) = base {
            log.base = base;
        }
        Some(changed)
    }

    /// Returns when the log's name is on the disk: one that an earlier commit has removed does not
    /// come back after that.
    pub fn make_log(&self) -> Result<()> {
        drop(self.open_log()?);
        self.sync_log()
    }

    /// Appends a record of the commit that is under way.
    pub fn append(&self, record: &CommitRecord) -> Result<()> {
        let mut log = self.open_log()?;
        log.commit_logged = true;
        log.put_commit_record(record)
    }

    /// Says what the file is for which a commit waits, if anything has been logged.
    pub fn note_held(&self, held: HeldFile) -> Result<()> {
        match self.has_log() {
            true => self.open_log()?.put_record(&Record::Held(held)),
            false => Ok(()),
        }
    }

    /// Says that the commit that is under way has come to nothing, and that the files are what they
    /// were; that is on the disk when this returns.
    pub fn call_off(&self, layer: u64) -> Result<()> {
        let mut log = self.open_log()?;
        log.put_record(&Record::Thawed { layer })?;
        drop(log);
        self.sync_log()
    }

    /// Appends bytes that a file of the container is to have; `each` is called for parts of them,
    /// with their offset in the file and their range in the log.
    pub fn append_redo(
        &self,
        file: u32,
        offset: u64,
        bytes: &[u8],
        each: &mut dyn FnMut(u64, Range<u64>),
    ) -> Result<()> {
        let mut log = self.open_log()?;
        log.commit_logged = true;
        log.writer()?.put_redo(file, offset, bytes, each)
    }

    /// Bytes of the log.
    pub fn read_logged(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.log_bytes()?.read(at, out)
    }

    pub fn log_bytes(&self) -> Result<LogBytes> {
        Ok(self.lock_log().writer()?.bytes())
    }

    /// Returns when all appended records are on the disk; staged bytes need not be.
    pub fn sync_log(&self) -> Result<()> {
        let _alone = self.alone();
        self.sync_written()
    }

    /// Forgets everything that is staged. [`Stage::sync_log`] waits until the log says so.
    pub fn discard(&self, alone: &Syncing<'_>, show: ShowLayers<'_>) -> Result<()> {
        self.discard_if(alone, |_| true, show)
    }

    /// Forgets everything that is staged in a stage that no handle reads through. When this returns
    /// the log says so, or is gone.
    pub fn throw_away(&self) -> Result<()> {
        self.discard(&self.alone(), &mut to_nobody)?;
        self.sync_log()
    }

    /// Removes the log if there is nothing to commit: the bytes that were synced have been taken
    /// back since.
    pub fn tidy(&self, alone: &Syncing<'_>, show: ShowLayers<'_>) -> Result<()> {
        if self.lock_log().writer.is_none() {
            return Ok(());
        }
        let is_clean = |layers: &LayerPair| layers.frozen.is_none() && layers.active.is_clean();
        self.discard_if(alone, is_clean, show)
    }

    fn discard_if(
        &self,
        alone: &Syncing<'_>,
        is: impl FnOnce(&LayerPair) -> bool,
        show: ShowLayers<'_>,
    ) -> Result<()> {
        let mut log = self.lock_log();
        let lens: Vec<u64> = log.arrays.iter().map(|array| array.len).collect();
        let mut layers = self.write_layers();
        if !is(&layers) {
            return Ok(());
        }
        let number = layers.active.number() + 1;
        let new = LayerPair {
            active: Arc::new(Layer::new(
                number,
                &lens,
                log.writer.as_ref().map(LogWriter::bytes),
            )),
            frozen: None,
        };
        let old = std::mem::replace(&mut *layers, new);
        show(&layers.list().collect::<Vec<_>>());
        drop(layers);
        self.has_changed();
        self.forget_last_write();
        log.commit_logged = false;
        log.provisional.clear();
        let removed = log.remove(number - 1, alone);
        drop(log);
        old.list().for_each(|layer| layer.uncharge());
        removed
    }
}

impl OpenLog {
    /// Unlinks the log, all of whose layers are void. If that fails it goes on being used, and says
    /// so.
    fn remove(&mut self, layer: u64, alone: &Syncing<'_>) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let removed = match alone.spot() {
            Some(Ok(spot)) => writer.remove(spot),
            // It has gone with its container.
            Some(Err(e)) if e.is_not_found() => Ok(()),
            Some(Err(e)) => Err(e),
            None => self.place.spot().and_then(|spot| writer.remove(&spot)),
        };
        let Err(e) = removed else {
            self.deferred.clear();
            self.provisional.clear();
            self.arrays_logged = 0;
            self.set_writer(None);
            self.may_return = true;
            // Not before the log, which refers to it.
            self.remove_next_at(alone);
            return Ok(());
        };
        log::debug!("the log of a stage cannot be removed: {e}");
        self.writer = Some(writer);
        self.put_committed(layer)
    }

    /// Removes the next file, if the container still lies anywhere.
    fn remove_next_at(&mut self, alone: &Syncing<'_>) {
        match alone.spot() {
            Some(Ok(spot)) => self.remove_next(spot),
            Some(Err(_)) => {}
            None => {
                if let Some(spot) = self.has_next.then(|| self.place.spot()) {
                    spot.into_iter().for_each(|spot| self.remove_next(&spot));
                }
            }
        }
    }

    /// Returns when the log that was removed last is gone for good.
    fn be_gone(&mut self) -> Result<()> {
        if self.may_return {
            let spot = self.place.spot()?;
            spot.disk.sync(spot.names(), false)?;
            self.may_return = false;
        }
        Ok(())
    }

    /// Says that the layers up to this one are void, because the container is what the base says
    /// now.
    fn put_committed(&mut self, layer: u64) -> Result<()> {
        let lens = self.arrays.iter().map(|array| array.len).collect();
        let base = self.base.clone();
        self.put_at_last(Record::Committed { layer, base, lens })
    }

    /// All that is staged has been logged: the new content of arrays, too.
    pub(super) fn keep_provisional(&mut self) -> Result<()> {
        while let Some(&(_, array)) = self.provisional.first() {
            self.put_record(&Record::Kept { array: array.0 })?;
            self.provisional.remove(0);
        }
        Ok(())
    }

    /// Puts a record now, or before the next one.
    fn put_at_last(&mut self, record: Record) -> Result<()> {
        self.deferred.push(record);
        self.flush_deferred()
    }
}
