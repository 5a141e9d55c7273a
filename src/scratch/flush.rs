//! Storing what has changed of a file: encoded and written in place, at once or by way of its log.
//!
//! A file that was never synced is written as it comes; after a crash it has a whole prefix of its
//! chunks. One that may have been acknowledged is changed by a *redo*: what is behind its chunks
//! and its log is written where it belongs, the rest as records behind everything, and a mark; when
//! that is on the disk the merge has happened, and the records are put in their places. A file of
//! which no stored chunk is wanted any more is emptied first, as programs do that write it anew.
//!
//! Readers wait only while chunks move that they may want. Used by [`super::room`],
//! [`super::handles`] and [`super::recovery`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::StoredChunks;
use super::content::{FileContent, HeldChunk};
use super::encode::{ChunkEncoder, encoded_zeros};
use super::file::{ScratchFile, StoredState};
use super::merge::{MergeOrder, MergePiece, MergePlan};
use super::redo::apply;
use super::tail::DAEMON;
use crate::disk::{NewAttributes, NewTime, Target};
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::pipeline;
use crate::source::Timestamp;

/// How much of a file is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushExtent {
    All,
    /// Chunks that are full: the program is still writing.
    FullChunks,
}

impl FlushExtent {
    /// For a file that is being written.
    pub(super) fn of_writer(file: &ScratchFile) -> FlushExtent {
        match file.streams.load(Ordering::Relaxed) {
            true => FlushExtent::FullChunks,
            false => FlushExtent::All,
        }
    }
}

/// What is to be stored, as it was at one moment.
pub(super) struct FlushSnapshot {
    len: u64,
    valid: u64,
    chunks: Vec<(u64, usize, HeldChunk)>,
    drops_metadata: bool,
}

impl ScratchFile {
    /// Stores what has changed.
    pub(super) fn flush(&self, extent: FlushExtent) -> Result<()> {
        self.flush_locked(&mut self.io(), extent)
    }

    /// One that has been open for long: a daemon that is killed loses no more than the latest.
    pub(super) fn flush_open(&self) -> Result<()> {
        let mut io = self.io();
        match io.is_synced {
            true => self.log(&mut io)?,
            false => self.flush_locked(&mut io, FlushExtent::All)?,
        }
        self.times().since = None;
        Ok(())
    }

    /// Returns when everything is on the disk. `data`: without what is not needed to find it.
    pub(super) fn sync(&self, data: bool) -> Result<()> {
        self.take_failure()?;
        let mut io = self.io();
        if !io.is_synced || self.is_written_anew() {
            self.flush_locked(&mut io, FlushExtent::All)?;
            if io.log.is_none() && io.len == self.read().stored.end() {
                self.mark_synced(&mut io, &self.read().stored)?;
                self.settle_times(&mut io)?;
            }
        } else if self.log_is_long(&io) {
            self.flush_locked(&mut io, FlushExtent::All)?;
            if data {
                return Ok(());
            }
        } else {
            self.log(&mut io)?;
        }
        self.sync_stored(data)?;
        io.is_synced = true;
        self.streams.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// It was never synced as it is.
    pub(super) fn is_unsynced(&self) -> bool {
        !self.io().is_synced
    }

    /// It has no name and no handle any more.
    pub(super) fn is_gone(&self) -> bool {
        let has_names = || self.reader.stat().map_or(true, |stat| stat.nlink > 0);
        !self.is_open() && !has_names()
    }

    /// None of what is stored is part of it any more.
    fn is_written_anew(&self) -> bool {
        let content = self.read();
        content.valid == 0 && content.stored.chunks() > 0
    }

    pub(super) fn sync_stored(&self, data: bool) -> Result<()> {
        self.room
            .disk()?
            .sync(Target::Open(self.writer()?.source()), data)
    }

    fn flush_locked(&self, io: &mut StoredState, extent: FlushExtent) -> Result<()> {
        let writer = match self.has_writer() {
            true => self.writer()?,
            false => return Ok(()),
        };
        self.check_unchanged(io)?;
        if self.is_written_anew() {
            writer.set_len(0, DAEMON)?;
            let options = &self.room.options;
            let mut content = self.change();
            content.stored = StoredChunks::none(options.chunk_size, options.checksum);
            self.room.cache.forget(self.version);
            *io = StoredState {
                reserved: io.reserved,
                ..StoredState::default()
            };
            self.streams.store(true, Ordering::Relaxed);
        }
        if let Some(snapshot) = self.snapshot(extent, io)? {
            let order = self.encode(&snapshot)?;
            let plan = MergePlan::new(&self.read().stored, order)?;
            match io.is_synced {
                true => self.redo(io, &snapshot, plan)?,
                false => self.put(io, &snapshot, plan)?,
            }
        }
        if extent == FlushExtent::All {
            self.settle_times(io)?;
        }
        Ok(())
    }

    /// Another program may have changed what is stored: nothing of that is overwritten.
    fn check_unchanged(&self, io: &mut StoredState) -> Result<()> {
        let now = self.reader.stat()?.identity;
        match io.left {
            Some(left) if left != now.mtime || io.len != now.size => Err(Error::Changed {
                path: self.path.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn snapshot(&self, extent: FlushExtent, io: &StoredState) -> Result<Option<FlushSnapshot>> {
        let mut content = self.change();
        let size = content.chunk_size();
        let full = content.len / size;
        // What is stored beyond full chunks would have to be kept apart, and so what a log has.
        let is_apart = io.is_synced || content.stored.len() > full * size;
        let (len, chunks) = match extent {
            FlushExtent::FullChunks if !is_apart => (full * size, full),
            _ => (content.len, content.chunks()),
        };
        let is_new = content.stored.chunks() == 0 && io.len == 0;
        if chunks == 0 || !content.differs() && !is_new {
            return Ok(None);
        }
        content.cut = u64::MAX;
        let valid = content.valid.min(chunks);
        let plain = |number: u64| (len - (number * size).min(len)).min(size) as usize;
        let mut wanted: BTreeMap<u64, HeldChunk> = content
            .held()
            .range(..chunks)
            .map(|(number, held)| (*number, held.clone()))
            .collect();
        let ends = [valid.checked_sub(1), Some(chunks - 1)];
        for number in ends.into_iter().flatten() {
            let stored = match number < valid {
                true => content.stored.plain(number),
                false => size as usize,
            };
            if plain(number) != stored && !wanted.contains_key(&number) {
                wanted.insert(number, self.unheld(&content, number)?);
            }
        }
        let chunks = wanted
            .into_iter()
            .map(|(number, held)| (number, plain(number), held));
        Ok(Some(FlushSnapshot {
            len,
            valid,
            chunks: chunks.collect(),
            drops_metadata: len != content.stored.len(),
        }))
    }

    /// A chunk of which the length alone changes.
    fn unheld(&self, content: &FileContent, number: u64) -> Result<HeldChunk> {
        let has = match number < content.valid {
            true => content.stored.plain(number),
            false => 0,
        };
        let mut bytes = fallible::zeros(has as u64, "cannot store a file")?;
        if has > 0 {
            let read = self.read_chunk(&content.stored, number, 0, &mut bytes);
            read.map_err(|e| e.of_container(&self.path))?;
        }
        Ok(HeldChunk {
            bytes: Arc::new(bytes),
            edition: 0,
            unlogged: 0..0,
        })
    }

    fn encode(&self, snapshot: &FlushSnapshot) -> Result<MergeOrder> {
        let checksum = self.read().stored.checksum;
        let size = self.read().stored.chunk_size as usize;
        let sample = snapshot.chunks.iter().map(|(_, _, held)| &held.bytes[..]);
        let sample = sample.max_by_key(|bytes| bytes.len()).unwrap_or(&[]);
        let encoder = ChunkEncoder::choose(sample, &self.room.options, checksum);
        let lanes = std::thread::available_parallelism().map_or(1, usize::from);
        let mut encoded = BTreeMap::new();
        let chunks = &snapshot.chunks;
        pipeline::in_order(
            vec![(); lanes.min(chunks.len()).max(1)],
            chunks.len(),
            |(), job| {
                let (_, plain, held) = &chunks[job];
                match held.bytes.len() {
                    0 if *plain == size => encoded_zeros(size, checksum),
                    n if n == *plain => encoder.encode(&held.bytes),
                    n => {
                        let mut bytes = fallible::zeros(*plain as u64, "cannot encode a chunk")?;
                        let n = n.min(*plain);
                        bytes[..n].copy_from_slice(&held.bytes[..n]);
                        encoder.encode(&bytes)
                    }
                }
            },
            |job, (), bytes: Vec<u8>| {
                encoded.insert(chunks[job].0, bytes);
                Ok(())
            },
        )?;
        let all = snapshot.len.div_ceil(size as u64).max(1);
        let beyond = encoded.range(snapshot.valid..).count() as u64;
        let zeros = match snapshot.valid + beyond < all {
            true => encoded_zeros(size, checksum)?,
            false => Vec::new(),
        };
        Ok(MergeOrder {
            len: snapshot.len,
            valid: snapshot.valid,
            encoded,
            zeros,
            drops_metadata: snapshot.drops_metadata,
        })
    }

    /// Writes a file that was never synced.
    fn put(&self, io: &mut StoredState, snapshot: &FlushSnapshot, plan: MergePlan) -> Result<()> {
        let writer = self.writer()?;
        let end = plan.stored.end();
        if self.disturbs(&plan) {
            let mut content = self.change();
            plan.pieces
                .iter()
                .try_for_each(|piece| apply(self, piece))?;
            self.publish(&mut content, snapshot, plan);
        } else {
            plan.pieces
                .iter()
                .try_for_each(|piece| apply(self, piece))?;
            self.publish(&mut self.change(), snapshot, plan);
        }
        io.len = io.len.max(end);
        if io.len > end {
            writer.set_len(end, DAEMON)?;
            io.len = end;
        }
        io.log = None;
        io.left = None;
        Ok(())
    }

    /// Whether bytes are overwritten that readers may want.
    fn disturbs(&self, plan: &MergePlan) -> bool {
        let content = self.read();
        let chunks = content.stored.first()..content.stored.end();
        let overlaps =
            |piece: &MergePiece| piece.to() < chunks.end && piece.to() + piece.len() > chunks.start;
        !chunks.is_empty() && plan.pieces.iter().any(overlaps)
    }

    /// What was flushed is stored from now on.
    pub(super) fn publish(
        &self,
        content: &mut FileContent,
        snapshot: &FlushSnapshot,
        plan: MergePlan,
    ) {
        let before = content.held_bytes();
        for (number, _, flushed) in &snapshot.chunks {
            self.forget_chunk(*number);
            content.let_go(*number, flushed.edition);
        }
        for number in snapshot.valid..content.stored.chunks() {
            self.forget_chunk(number);
        }
        content.stored = plan.stored;
        content.valid = content.stored.chunks().min(content.cut);
        content.note_stored();
        let now = content.held_bytes();
        self.room.charge(now as i64 - before as i64);
    }

    /// Gives the stored file the times that programs see, and gives back what was reserved.
    fn settle_times(&self, io: &mut StoredState) -> Result<()> {
        let writer = self.writer()?;
        if std::mem::take(&mut io.reserved) > io.len {
            writer.set_len(io.len, DAEMON)?;
        }
        let mut times = self.times();
        if let Some(mtime) = times.mtime {
            let to = NewAttributes {
                mtime: Some(NewTime::At(mtime)),
                ..NewAttributes::default()
            };
            self.room
                .disk()?
                .set_attributes(Target::Open(writer.source()), &to)?;
        }
        let stat = self.reader.stat()?;
        io.left = Some(stat.identity.mtime);
        if let Some((shown, _)) = times.ctime {
            times.ctime = Some((shown, Some(stat.ctime)));
        }
        times.since = None;
        Ok(())
    }

    /// When it was changed, for programs.
    pub(super) fn stamp(&self) {
        let now = Timestamp::tick();
        let mut times = self.times();
        times.mtime = Some(now);
        times.ctime = Some((now, None));
        times.since.get_or_insert_with(std::time::Instant::now);
    }
}
