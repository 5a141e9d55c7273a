//! Storing what has changed of a file: encoded and written in place, at once or by way of its log.
//!
//! A file that was never synced is written as it comes; after a crash it has a whole prefix of its
//! chunks. One that may have been acknowledged is changed by a *redo*: what is behind its chunks
//! and its log is written where it belongs, the rest as records behind everything, and a mark; when
//! that is on the disk the merge has happened, and the records are put in their places. A file of
//! which no stored chunk is wanted any more is emptied first, as programs do that write it anew.
//!
//! Readers wait only while chunks move that they may want. Uses [`super::snapshot`] and the ways of
//! writing below it; used by [`super::files`] and all above.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::base::StoredChunks;
use super::file::{ScratchFile, StoredState};
use super::mark::{Epoch, TailMark};
use super::merge::MergePlan;
use super::pieces::MergePiece;
use super::redo::apply;
use super::reserve;
use super::snapshot::{FlushExtent, FlushSnapshot};
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::Stat;

impl ScratchFile {
    /// Stores what has changed.
    pub(super) fn flush(&self, extent: FlushExtent) -> Result<()> {
        self.flush_locked(&mut self.io(), extent)
    }

    /// One that has been open for long: a daemon that is killed loses no more than the latest.
    pub(super) fn flush_open(&self) -> Result<()> {
        let mut io = self.io();
        if !io.is_synced || self.log_is_long(&io) {
            return self.flush_locked(&mut io, FlushExtent::All);
        }
        let since = self.times().since.take();
        self.check_whole(&io)?;
        self.log(&mut io).inspect_err(|_| self.not_stored(since))
    }

    /// Returns when everything is on the disk. `data`: without what is not needed to find it.
    pub(super) fn sync(&self, data: bool) -> Result<()> {
        self.take_failure()?;
        let mut io = self.io();
        self.check_whole(&io)?;
        let is_first = !io.is_synced || self.is_written_anew();
        if is_first {
            self.flush_locked(&mut io, FlushExtent::BeforeSync)?;
            self.store_times(&mut io)?;
        } else if self.log_is_long(&io) {
            self.flush_locked(&mut io, FlushExtent::All)?;
            if data {
                return Ok(());
            }
        } else {
            self.log(&mut io)?;
        }
        if let Err(e) = self.sync_stored(data) {
            // The system forgets what it could not write: all of it is to be written again.
            self.change().note_unlogged();
            io.log = None;
            return Err(e);
        }
        io.is_on_disk = true;
        if is_first {
            io.is_synced = true;
            self.streams.store(false, Ordering::Relaxed);
            self.rest(&mut io, &self.read().stored, Epoch::NONE)?;
            self.store_times(&mut io)?;
        }
        Ok(())
    }

    /// What is stored was never synced, so a log would not make it safe.
    pub(super) fn is_unsynced(&self) -> bool {
        self.has_writer() && (!self.io().is_synced || self.is_written_anew())
    }

    /// All that programs have written is on the disk.
    pub(super) fn is_on_disk(&self) -> bool {
        let io = self.io();
        let content = self.read();
        io.is_on_disk && !content.is_unlogged() && !content.is_written_anew()
    }

    /// It has no name and no handle any more.
    pub(super) fn is_gone(&self) -> bool {
        let has_names = || self.reader.stat().map_or(true, |stat| stat.nlink > 0);
        !self.is_open() && !has_names()
    }

    /// A merge that could not be finished is the next mount's.
    fn check_whole(&self, io: &StoredState) -> Result<()> {
        match io.is_broken {
            true => {
                let fault = Fault::new("a merge could not be finished; mount the store again");
                Err(fault.container(&self.path).into())
            }
            false => Ok(()),
        }
    }

    pub(super) fn flush_locked(&self, io: &mut StoredState, extent: FlushExtent) -> Result<()> {
        if !self.has_writer() {
            return Ok(());
        }
        self.check_whole(io)?;
        let stat = self.reader.stat()?;
        self.check_unchanged(io, &stat)?;
        let since = {
            let mut times = self.times();
            times.keep(&stat);
            times.since.take()
        };
        let stored = self.store(io, extent);
        if stored.is_err() {
            self.not_stored(since);
            // Nothing that was begun counts.
            if !io.is_broken {
                let _ = self.cut(io, io.len);
            }
        }
        reserve::reserve_again(self, io);
        self.note_space(&stored);
        stored
    }

    /// It is to be tried again.
    fn not_stored(&self, since: Option<Instant>) {
        let mut times = self.times();
        times.since = since.or(times.since).or_else(|| Some(Instant::now()));
    }

    fn store(&self, io: &mut StoredState, extent: FlushExtent) -> Result<()> {
        io.left = None;
        if self.is_written_anew() {
            self.empty(io)?;
        }
        if let Some(snapshot) = self.snapshot(extent, io)? {
            let stored = self.store_snapshot(io, &snapshot, extent);
            if stored.is_err() {
                let mut content = self.change();
                content.least_len = content.least_len.min(snapshot.least_len);
            }
            stored?;
        } else if io.log.is_some() {
            self.drop_log(io)?;
        }
        match extent {
            FlushExtent::All | FlushExtent::IfCheap => self.store_times(io),
            FlushExtent::BeforeSync | FlushExtent::FullChunks => Ok(()),
        }
    }

    fn store_snapshot(
        &self,
        io: &mut StoredState,
        snapshot: &FlushSnapshot,
        extent: FlushExtent,
    ) -> Result<()> {
        if self.append(io, snapshot)? {
            return Ok(());
        }
        let order = self.encode(snapshot)?;
        let plan = MergePlan::new(&self.read().stored, order)?;
        if extent == FlushExtent::IfCheap
            && io.is_synced
            && plan.moved() > self.shared.options.most_moved
            && !self.log_is_long(io)
        {
            let mut content = self.change();
            content.least_len = content.least_len.min(snapshot.least_len);
            drop(content);
            self.is_deferred.store(true, Ordering::Relaxed);
            return self.log(io);
        }
        match io.is_synced || self.disturbs(&plan) {
            true => self.redo(io, snapshot, plan),
            false => self.put(io, snapshot, plan),
        }
    }

    /// Nothing of what is stored is wanted.
    fn empty(&self, io: &mut StoredState) -> Result<()> {
        self.cut(io, 0)?;
        let mut content = self.change();
        content.stored = StoredChunks::none(content.form());
        self.charge_places(&content.stored);
        self.shared.cache.forget(self.version);
        *io = StoredState::default();
        self.streams.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Another program may have changed what is stored: nothing of that is overwritten.
    fn check_unchanged(&self, io: &mut StoredState, stat: &Stat) -> Result<()> {
        let now = stat.file();
        let Some(left) = io.left else {
            // Something of ours was not finished.
            return match now.size > io.len {
                true => self.cut(io, io.len),
                false => Ok(()),
            };
        };
        let is_same = || {
            if now.size == 0 {
                return true;
            }
            let content = self.read();
            let size = self.shared.options.chunk_size;
            let found = StoredChunks::read(&*self.reader, now.size, size);
            found.is_ok_and(|found| found.fingerprint() == content.stored.fingerprint())
        };
        match io.len == now.size && (left == now.mtime || is_same()) {
            true => Ok(()),
            false => Err(Error::Changed {
                path: self.path.clone(),
            }),
        }
    }

    /// Writes what overwrites nothing, of a file that was never synced.
    fn put(&self, io: &mut StoredState, snapshot: &FlushSnapshot, plan: MergePlan) -> Result<()> {
        let end = plan.stored.end();
        let rest = self.rest_of(&plan.stored, self.shared.epoch())?;
        let mark = TailMark::Rest(rest).bytes();
        let mut pieces = plan.pieces;
        put_behind(&mut pieces, end, &mark)?;
        (io.log, io.rest, io.is_on_disk) = (None, None, false);
        pieces.iter().try_for_each(|piece| apply(self, piece))?;
        self.note_rest(io, end, rest);
        // Space may have been reserved where nothing was stored yet.
        if let Some(hole) = plan.hole {
            self.give_back(io, hole);
        }
        self.publish(&mut self.change(), snapshot, plan.stored);
        Ok(())
    }

    /// Whether bytes go, or are overwritten, that readers may want.
    fn disturbs(&self, plan: &MergePlan) -> bool {
        let content = self.read();
        let chunks = content.stored.first()..content.stored.end();
        let overlaps =
            |piece: &MergePiece| piece.to() < chunks.end && piece.to() + piece.len() > chunks.start;
        let is_shorter = plan.stored.end() < chunks.end;
        let is_cleared = |hole: &Range<u64>| hole.start < chunks.end && hole.end > chunks.start;
        let clears = plan.hole.as_ref().is_some_and(is_cleared);
        !chunks.is_empty() && (is_shorter || clears || plan.pieces.iter().any(overlaps))
    }
}

/// Has a mark written together with what ends where it lies: a disk has both or, at the end of a
/// sector, neither.
fn put_behind(pieces: &mut Vec<MergePiece>, end: u64, mark: &[u8]) -> Result<()> {
    let is_last = |piece: &&mut MergePiece| piece.len() > 0 && piece.to() + piece.len() == end;
    let mut together = Vec::new();
    match pieces.iter_mut().find(is_last) {
        // A small file is one write.
        Some(MergePiece::New { bytes, .. }) => {
            bytes.extend_from_slice(mark);
            return Ok(());
        }
        Some(MergePiece::Repeated { bytes, count, .. }) => {
            *count -= 1;
            together = fallible::copy(bytes, "cannot store a file")?;
        }
        _ => {}
    }
    let to = end - together.len() as u64;
    together.extend_from_slice(mark);
    let bytes = together;
    // Before what tells of it.
    pieces.insert(0, MergePiece::New { to, bytes });
    Ok(())
}
