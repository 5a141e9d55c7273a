//! What an fsync writes: the changes that no log has yet, as records behind the chunks.
//!
//! Assumes that the caller holds [`ScratchFile::io`]. Uses [`super::file`] and [`super::tail`];
//! used by [`super::flush`] and [`super::at_rest`].

use super::content::FileContent;
use super::file::{ScratchFile, StoredState};
use super::mark::SeenChange;
use super::tail::{RECORD_MOST, RecordKind, TailLog, TailRecord};
use crate::error::Result;

/// A log with more than this, and more than a part of the file, is merged at the next fsync.
const LOG_MOST: u64 = 8 << 20;
const LOG_PART: u64 = 4;

impl ScratchFile {
    pub(super) fn log_is_long(&self, io: &StoredState) -> bool {
        let content = self.read();
        let unlogged = content
            .held()
            .values()
            .map(|held| held.unlogged.len() as u64);
        let bytes = unlogged.sum::<u64>() + io.log.map_or(0, |log| log.bytes());
        bytes > LOG_MOST.max(content.stored.end() / LOG_PART)
    }

    /// Writes to the log what it does not have yet. It is not synced.
    pub(super) fn log(&self, io: &mut StoredState) -> Result<()> {
        let mut content = self.change();
        if !content.is_unlogged() {
            return Ok(());
        }
        let stored = &content.stored;
        let begin = || TailLog::begin(stored.end(), stored.fingerprint());
        let mut log = io.log.unwrap_or_else(begin);
        let mut records = content.records(log.fingerprint)?;
        io.left = None;
        if let Err(e) = log.append(self.writer()?, &mut records) {
            // What was begun counts for nothing.
            let _ = self.cut(io, io.len);
            return Err(e);
        }
        content.is_logged();
        drop(content);
        io.len = io.len.max(log.len);
        (io.log, io.rest, io.is_on_disk) = (Some(log), None, false);
        self.times().stored = None;
        io.left = Some(self.reader.stat()?.mtime);
        Ok(())
    }
}

impl ScratchFile {
    /// Has a log say when programs changed the file last. It is not synced.
    pub(super) fn log_change(&self, io: &mut StoredState, changed: SeenChange) -> Result<()> {
        let Some(mut log) = io.log else {
            return Ok(());
        };
        let (mut bytes, [seen, stored]) = (Vec::new(), changed.numbers());
        let said = (seen, stored);
        TailRecord::write(RecordKind::Changed, said, &[], log.fingerprint, &mut bytes);
        log.append(self.writer()?, &mut bytes)?;
        io.len = io.len.max(log.len);
        io.log = Some(log);
        self.times().stored = Some(changed);
        Ok(())
    }
}

impl FileContent {
    /// What a log has to hold to have everything.
    fn records(&self, fingerprint: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut add = |kind, at, len, bytes: &[u8]| {
            TailRecord::write(kind, (at, len), bytes, fingerprint, &mut out);
        };
        if self.least_len < self.logged_len {
            add(RecordKind::Length, self.least_len, 0, &[]);
        }
        for (number, held) in self.held() {
            let at = number * self.chunk_size();
            let all = held.unlogged.start..held.unlogged.end.min(self.plain(*number));
            let has = all.start..all.end.min(held.bytes.len()).max(all.start);
            let parts = held
                .bytes
                .get(has.clone())
                .unwrap_or(&[])
                .chunks(RECORD_MOST);
            let mut from = at + has.start as u64;
            for part in parts {
                add(RecordKind::Data, from, part.len() as u64, part);
                from += part.len() as u64;
            }
            if has.end < all.end {
                let zeros = at + has.end as u64;
                add(RecordKind::Length, self.len.max(zeros), 0, &[]);
                add(RecordKind::Zeros, zeros, (all.end - has.end) as u64, &[]);
            }
        }
        add(RecordKind::Length, self.len, 0, &[]);
        Ok(out)
    }

    /// A log has everything.
    pub(super) fn is_logged(&mut self) {
        for held in self.held_mut() {
            held.unlogged = 0..0;
        }
        (self.logged_len, self.least_len) = (self.len, self.len);
    }

    /// The log has gone: the chunks have what it had.
    pub(super) fn note_stored(&mut self) {
        let all = 0..self.chunk_size() as usize;
        self.held_mut().for_each(|held| held.unlogged = all.clone());
        self.logged_len = self.stored.len();
        self.least_len = self.least_len.min(self.logged_len);
    }

    /// What the log has may not be on the disk.
    pub(super) fn note_unlogged(&mut self) {
        self.note_stored();
        self.least_len = self
            .least_len
            .min(self.valid.saturating_mul(self.chunk_size()));
    }
}
