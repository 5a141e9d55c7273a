//! Changing a stored file that may have been synced: behind its log, and certain before it begins.
//!
//! Assumes that the caller holds [`ScratchFile::io`]. Used by [`super::flush`]; what a crash leaves
//! of it is [`super::recovery`]'s.

use super::base::{StoredChunks, read_all};
use super::file::{ScratchFile, StoredState};
use super::flush::FlushSnapshot;
use super::merge::{MergePiece, MergePlan};
use super::tail::{DAEMON, MARK_LEN, RECORD_MOST, RecordKind, TailMark, TailRecord, put_all};
use crate::error::Result;
use crate::memory::fallible;

/// Bytes that move at once.
const STEP: u64 = 1 << 20;

impl ScratchFile {
    /// Changes a file that may have been synced.
    pub(super) fn redo(
        &self,
        io: &mut StoredState,
        snapshot: &FlushSnapshot,
        plan: MergePlan,
    ) -> Result<()> {
        let writer = self.writer()?;
        let (before, end) = (io.len, plan.stored.end());
        let behind = before.max(end).next_multiple_of(8);
        let prepared = self
            .prepare(before, behind, &plan)
            .and_then(|()| self.sync_stored(true));
        if let Err(e) = prepared {
            // Nothing has happened yet.
            let _ = writer.set_len(before, DAEMON);
            return Err(e);
        }
        let mut content = self.change();
        for piece in plan.pieces.iter().filter(|piece| piece.to() < before) {
            apply(self, piece)?;
        }
        self.sync_stored(true)?;
        writer.set_len(end, DAEMON)?;
        self.publish(&mut content, snapshot, plan);
        io.len = end;
        io.log = None;
        io.left = None;
        self.mark_synced(io, &content.stored)
    }

    /// After a crash this says that what is stored was synced as it is.
    pub(super) fn mark_synced(&self, io: &mut StoredState, stored: &StoredChunks) -> Result<()> {
        let mark = TailMark {
            is_redo: false,
            start: stored.end(),
            fingerprint: stored.fingerprint(),
            end: stored.end(),
        };
        put_all(self.writer()?, io.len, &mark.bytes())?;
        io.len += MARK_LEN;
        io.left = None;
        Ok(())
    }

    /// Writes what lies behind a file of `before` bytes, and at `behind` what makes the rest
    /// certain.
    fn prepare(&self, before: u64, behind: u64, plan: &MergePlan) -> Result<()> {
        let fingerprint = plan.stored.fingerprint();
        let mut redo = RedoWriter {
            file: self,
            at: behind,
            fingerprint,
            bytes: Vec::new(),
        };
        for piece in &plan.pieces {
            match piece.to() < before {
                true => redo.add(piece)?,
                false => apply(self, piece)?,
            }
        }
        let mark = TailMark {
            is_redo: true,
            start: behind,
            fingerprint,
            end: plan.stored.end(),
        };
        redo.bytes.extend_from_slice(&mark.bytes());
        redo.write_out()
    }
}

/// Does what a piece says.
pub(super) fn apply(file: &ScratchFile, piece: &MergePiece) -> Result<()> {
    let writer = file.writer()?;
    match piece {
        MergePiece::New { to, bytes } => put_all(writer, *to, bytes),
        MergePiece::Moved { from, to, len } => {
            let mut buf = fallible::zeros(STEP.min(*len), "cannot move chunks")?;
            let mut done = 0;
            while done < *len {
                let n = STEP.min(len - done);
                // To the right from the end on, so that nothing is overwritten that is still to
                // move.
                let at = if to > from { len - done - n } else { done };
                let part = &mut buf[..n as usize];
                read_all(&*file.reader, from + at, part)?;
                put_all(writer, to + at, part)?;
                done += n;
            }
            Ok(())
        }
    }
}

/// Writes the records of a redo.
struct RedoWriter<'a> {
    file: &'a ScratchFile,
    at: u64,
    fingerprint: u64,
    bytes: Vec<u8>,
}

impl RedoWriter<'_> {
    fn add(&mut self, piece: &MergePiece) -> Result<()> {
        match piece {
            MergePiece::New { to, bytes } => {
                let mut at = *to;
                for part in bytes.chunks(RECORD_MOST) {
                    self.record(at, part)?;
                    at += part.len() as u64;
                }
            }
            MergePiece::Moved { from, to, len } => {
                let mut done = 0;
                while done < *len {
                    let n = STEP.min(len - done);
                    let mut part = fallible::zeros(n, "cannot move chunks")?;
                    read_all(&*self.file.reader, from + done, &mut part)?;
                    self.record(to + done, &part)?;
                    done += n;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let record = TailRecord {
            kind: RecordKind::Redo,
            at,
            len: bytes.len() as u64,
            bytes,
        };
        record.write(self.fingerprint, &mut self.bytes);
        if self.bytes.len() as u64 >= STEP {
            self.write_out()?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<()> {
        put_all(self.file.writer()?, self.at, &self.bytes)?;
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
