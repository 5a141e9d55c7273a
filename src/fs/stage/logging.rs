//! How what is staged gets into the log: at a sync, when memory is wanted back, and when there is
//! none to write to.

use std::ops::Range;
use std::sync::Arc;

use super::layer::{Layer, no_array};
use super::log::{CommitRecord, LogSpot, LogWriter, Record, with_buffer};
use super::slab::Lender;
use super::staging::{OpenLog, Stage};
use super::written_array::WrittenArray;
use crate::error::{Error, Result};
use crate::sync::MutexGuard;

/// What is staged and in no log.
#[derive(Debug)]
pub struct Unlogged {
    pub why: Error,
    /// Paths of arrays, and how many bytes of each; 0 where it is the length alone.
    pub arrays: Vec<(String, u64)>,
}

/// About how much memory is given back at once.
const GIVEN_BACK: u64 = 1 << 20;

impl Stage {
    /// Returns when everything that is staged is in the log, and the log on the disk. If there is
    /// no room for all of it, as much as there is room for is.
    pub fn sync(&self) -> Result<()> {
        let alone = self.alone();
        let logged = self.log_everything();
        let synced = logged.and(self.sync_written());
        drop(alone);
        self.compact();
        self.note_logged(&synced);
        synced
    }

    /// Returns when everything that is staged is in the log: a killed daemon loses none of it.
    pub fn log_all(&self) -> Result<()> {
        let alone = self.alone();
        let logged = self.log_everything();
        drop(alone);
        self.compact();
        self.note_logged(&logged);
        logged
    }

    fn note_logged(&self, outcome: &Result<()>) {
        let failure = outcome.as_ref().err().cloned();
        *self.failure.lock() = failure;
    }

    /// What would be lost with the daemon: what the log could not be given when that was tried
    /// last.
    pub fn unlogged(&self) -> Option<Unlogged> {
        let failure = self.failure.lock();
        let why = failure.clone().filter(|_| !self.is_clean())?;
        drop(failure);
        let log = self.lock_log();
        let layers = self.layers();
        let arrays = log.arrays.iter().enumerate().filter_map(|(number, array)| {
            let number = WrittenArray(number as u32);
            let is_provisional = log.provisional.iter().any(|(_, of)| *of == number);
            let lacks = layers.iter().map(|layer| match is_provisional {
                true => Some(layer.changed_bytes(number)),
                false => layer.lacks(number),
            });
            let lacks = lacks.flatten().reduce(u64::saturating_add);
            lacks.map(|bytes| (array.path.clone(), bytes))
        });
        let arrays = arrays.collect();
        Some(Unlogged { why, arrays })
    }

    /// Lets go of the log, which has everything: another stage goes on with it. The caller sees to
    /// it that nothing is written any more.
    pub fn hand_over(&self) -> Result<()> {
        let _alone = self.alone();
        self.log_everything()?;
        self.sync_written()?;
        let mut log = self.lock_log();
        log.set_writer(None);
        log.has_next = false;
        Ok(())
    }

    /// The log, made if there is none: a move of the container waits until it is there.
    pub(super) fn open_log(&self) -> Result<MutexGuard<'_, OpenLog>> {
        let log = self.lock_log();
        if log.writer.is_some() {
            return Ok(log);
        }
        drop(log);
        let pinned = self.place.pinned()?;
        let mut log = self.lock_log();
        log.open(&pinned.spot, &self.layers())?;
        Ok(log)
    }

    fn log_everything(&self) -> Result<()> {
        // What another thread has taken to log it is logged, or given back, once it lets go.
        let mut log = self.lock_log();
        if self.layers().iter().all(|layer| layer.is_logged()) {
            return log.keep_provisional();
        }
        drop(log);
        let mut log = self.open_log()?;
        let layers = self.layers();
        for layer in layers.iter().rev() {
            for array in layer.unlogged_arrays() {
                log.put_array(layer, array)?;
            }
        }
        log.keep_provisional()
    }

    /// Waits for the disk without the lock of the log, so that writers go on. The caller holds the
    /// lock of the sync.
    pub(super) fn sync_written(&self) -> Result<()> {
        let mut log = self.lock_log();
        log.follow_owner(&self.layers())?;
        log.flush_deferred()?;
        let Some(writer) = &mut log.writer else {
            return Ok(());
        };
        let Some(round) = writer.begin_sync()? else {
            return Ok(());
        };
        let place = Arc::clone(&log.place);
        drop(log);
        // All that this round says to be on the disk may refer to the next file.
        let synced = self.sync_next().and_then(|()| round.wait(&*place));
        let is_there = match &mut self.lock_log().writer {
            Some(writer) => writer.end_sync(&round, synced.is_ok()),
            None => true,
        };
        match is_there {
            true => synced,
            false => synced.and_then(|()| {
                let cause = std::io::Error::from_raw_os_error(libc::EIO);
                Err(Error::io("cannot sync the log of the stage", cause))
            }),
        }
    }

    /// For want of memory.
    pub(super) fn write_to_log(&self, array: WrittenArray, at: u64, bytes: &[u8]) -> Result<()> {
        let mut log = self.open_log()?;
        log.check(array)?;
        let layers = self.layers();
        let Some(active) = layers.first() else {
            return Err(no_array());
        };
        // What was cut off before must not be cut off what is written now.
        log.put_lengths(&layers[1..], array)?;
        log.put_cut(active, array)?;
        let layer = active.number();
        let mut done = 0;
        let written = with_buffer(bytes.len(), |buffer| {
            while done < bytes.len() {
                let from = at + done as u64;
                let rest = &bytes[done..];
                let (put, n) = log.put_extent(layer, array, from, buffer, |room| {
                    let n = room.len().min(rest.len());
                    room[..n].copy_from_slice(&rest[..n]);
                    n
                })?;
                active.put_logged(array, from..from + n as u64, put)?;
                done += n;
            }
            Ok(())
        });
        drop(log);
        self.compact();
        written
    }
}

impl OpenLog {
    /// A container may have been given to another user: its log, and the next file, go to him, for
    /// no other user's are believed.
    fn follow_owner(&mut self, layers: &[Arc<Layer>]) -> Result<()> {
        // Where the container is gone, nobody will look for its log.
        let (Some(writer), Ok(spot)) = (&mut self.writer, self.place.spot()) else {
            return Ok(());
        };
        if writer.owner() == spot.owner {
            return Ok(());
        }
        let mut files = layers.iter().filter_map(|layer| layer.next_file());
        files.try_for_each(|next| spot.give(next.source()))?;
        writer.give(&spot)
    }

    /// Sees to it that there is a log, which these layers read from.
    pub(super) fn open(&mut self, spot: &LogSpot, layers: &[Arc<Layer>]) -> Result<()> {
        if self.writer.is_none() {
            let writer = LogWriter::create((&self.place, spot), &self.base)?;
            for layer in layers {
                layer.set_log(writer.bytes());
            }
            self.arrays_logged = 0;
            self.set_writer(Some(writer));
        }
        Ok(())
    }

    pub(super) fn writer(&mut self) -> Result<&mut LogWriter> {
        self.flush_deferred()?;
        let none = || crate::error::Error::Bug("a log is written that was not made".into());
        self.writer.as_mut().ok_or_else(none)
    }

    pub(super) fn put_record(&mut self, record: &Record) -> Result<()> {
        self.writer()?.put(record)
    }

    pub(super) fn put_commit_record(&mut self, record: &CommitRecord) -> Result<()> {
        self.writer()?.put_commit(record)
    }

    /// Puts what could not be put before, and which arrays have come.
    pub(super) fn flush_deferred(&mut self) -> Result<()> {
        while let (Some(writer), Some(array)) =
            (&mut self.writer, self.arrays.get(self.arrays_logged))
        {
            writer.put(&Record::Array(array.clone()))?;
            self.arrays_logged += 1;
        }
        while let (Some(writer), Some(record)) = (&mut self.writer, self.deferred.first()) {
            writer.put(record)?;
            self.deferred.remove(0);
        }
        Ok(())
    }

    /// Logs all of an array: what was cut off, what is in memory alone, and the length if the
    /// extents do not imply it.
    fn put_array(&mut self, layer: &Layer, array: WrittenArray) -> Result<()> {
        self.put_cut(layer, array)?;
        self.put_extents(layer, array, 0..layer.len(array))?;
        self.put_len(layer, array)
    }

    /// Before anything of a layer is logged, the lengths of those below it are: so what is logged
    /// of them when they have become one ([`Layer::absorb`]) cuts nothing off that came later.
    fn put_lengths(&mut self, below: &[Arc<Layer>], array: WrittenArray) -> Result<()> {
        below.iter().rev().try_for_each(|layer| {
            self.put_cut(layer, array)?;
            self.put_len(layer, array)
        })
    }

    fn put_len(&mut self, layer: &Layer, array: WrittenArray) -> Result<()> {
        let (len, logged) = layer.lengths(array);
        if len != logged {
            let record = Record::Length {
                layer: layer.number(),
                array: array.0,
                len,
            };
            self.put_record(&record)?;
            layer.logged_len(array, len);
        }
        Ok(())
    }

    /// Logs how short an array has been, before anything is logged that came later.
    fn put_cut(&mut self, layer: &Layer, array: WrittenArray) -> Result<()> {
        let Some(len) = layer.cut(array) else {
            return Ok(());
        };
        let record = Record::Length {
            layer: layer.number(),
            array: array.0,
            len,
        };
        self.put_record(&record)?;
        layer.logged_cut(array, len);
        Ok(())
    }

    /// Logs what of a range is in memory alone. What is written meanwhile may be missed: it goes
    /// through once.
    fn put_extents(&mut self, layer: &Layer, array: WrittenArray, range: Range<u64>) -> Result<()> {
        let number = layer.number();
        let mut at = range.start;
        while let Some(next) = layer.next_unlogged(array, at..range.end) {
            if let Some(zeros) = layer.take_unlogged_zeros(array, next.clone()) {
                at = zeros.end;
                self.put_zeros(layer, array, zeros)?;
                continue;
            }
            if layer.begins_in_next(array, &next) {
                at = self.put_reference(layer, array, next)?;
                continue;
            }
            let wanted = usize::try_from(next.end - next.start).unwrap_or(usize::MAX);
            at = with_buffer(wanted, |buffer| {
                let mut taken = next.start..next.start;
                let put = self.put_extent(number, array, next.start, buffer, |room| {
                    taken = layer.take_unlogged(array, next.clone(), room);
                    (taken.end - taken.start) as usize
                });
                match put {
                    Ok((put, _)) => layer.logged(array, taken.clone(), put),
                    Err(_) => layer.not_logged(array, taken.clone()),
                }
                put.map(|_| taken.end.max(next.start + 1))
            })?;
        }
        Ok(())
    }

    /// Logs where the first bytes of a range are that lie in the next file; says where they end,
    /// which is where they begin if they have been written over meanwhile.
    fn put_reference(
        &mut self,
        layer: &Layer,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Result<u64> {
        let Some((end, record)) = layer.refer(array, range.clone())? else {
            return Ok(range.start);
        };
        let put = self.put_record(&record);
        match &put {
            Ok(()) => layer.logged_next(array, end),
            Err(_) => layer.not_logged(array, range.start..end),
        }
        put.map(|()| end)
    }

    /// Logs zeros that were taken.
    fn put_zeros(&mut self, layer: &Layer, array: WrittenArray, range: Range<u64>) -> Result<()> {
        let record = Record::Zeros {
            layer: layer.number(),
            array: array.0,
            offset: range.start,
            len: range.end - range.start,
        };
        let put = self.put_record(&record);
        match &put {
            Ok(()) => layer.logged_zeros(array, range),
            Err(_) => layer.not_logged(array, range),
        }
        put
    }

    /// Puts an extent whose bytes `fill` gives, as many as there is room for; says where they are,
    /// and how many.
    fn put_extent(
        &mut self,
        layer: u64,
        array: WrittenArray,
        offset: u64,
        buffer: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<(u64, usize)> {
        self.writer()?
            .put_extent(layer, array, offset, buffer, fill)
    }

    /// Gives back about so much of the memory of a layer.
    fn give_back(&mut self, layer: &Layer, below: &[Arc<Layer>]) -> bool {
        let held = layer.bytes_held();
        for array in 0..self.arrays.len() {
            let array = WrittenArray(array as u32);
            let mut at = 0;
            while let Some(range) = layer.next_in_memory(array, at, GIVEN_BACK) {
                let logged = self.put_lengths(below, array);
                let logged = logged.and_then(|()| self.put_cut(layer, array));
                let logged = logged.and_then(|()| self.put_extents(layer, array, range.clone()));
                if let Err(e) = logged {
                    log::debug!("what is staged cannot be written to its log: {e}");
                    return layer.bytes_held() < held;
                }
                layer.forget_memory(array, range.clone());
                if held.saturating_sub(layer.bytes_held()) >= GIVEN_BACK {
                    return true;
                }
                at = range.end;
            }
        }
        layer.bytes_held() < held
    }
}

impl Lender for Stage {
    fn give_up(&self) -> bool {
        // A move is not waited for: the thread that moves something may be the one that wants
        // memory.
        let pinned = match self.has_log() {
            true => None,
            false => match self.place.try_pinned() {
                Some(Ok(pinned)) => Some(pinned),
                _ => return false,
            },
        };
        let Some(mut log) = self.log.try_lock() else {
            return false;
        };
        let layers: Vec<Arc<Layer>> = match self.layers.try_read() {
            Some(layers) => layers.list().collect(),
            None => return false,
        };
        if layers.iter().all(|layer| layer.bytes_held() == 0) {
            return false;
        }
        let opened = match (&log.writer, &pinned) {
            (None, None) => return false,
            (Some(_), _) => Ok(()),
            (None, Some(pinned)) => log.open(&pinned.spot, &layers),
        };
        if let Err(e) = opened {
            log::debug!("what is staged cannot be written to a log: {e}");
            return false;
        }
        // What is frozen first: it is written to no more.
        let mut numbers = (0..layers.len()).rev();
        numbers.any(|at| log.give_back(&layers[at], &layers[at + 1..]))
    }

    fn give_up_encoded(&self) -> bool {
        match self.layers.try_read() {
            Some(layers) => layers.list().any(|layer| layer.give_up_encoded()),
            None => false,
        }
    }
}
