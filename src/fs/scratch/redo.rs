//! Changing what is stored of a file in place: behind its log, and certain before it begins.
//!
//! Assumes that the caller holds [`ScratchFile::io`]. Uses [`super::file`], the end of a file
//! ([`super::tail`], [`super::at_rest`]) and [`super::snapshot`]; used by [`super::flush`]. What a
//! crash leaves of it is [`super::recovery`]'s.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::base::{StoredChunks, read_all};
use super::file::{ScratchFile, StoredState};
use super::mark::{Epoch, PendingMerge, TailMark};
use super::merge::MergePlan;
use super::pieces::MergePiece;
use super::snapshot::FlushSnapshot;
use super::tail::{DAEMON, RECORD_MOST, RecordKind, TailRecord, put_all};
use crate::disk::{Allocation, DiskFile};
use crate::error::Result;
use crate::memory::fallible;

/// Bytes that move at once.
const STEP: u64 = 1 << 20;

impl ScratchFile {
    /// Changes what is stored of a file, so that whatever ends the daemon or the machine leaves the
    /// old or the new. One that was never synced is so first: what a crash left of it could not be
    /// told from damage.
    pub(super) fn redo(
        &self,
        io: &mut StoredState,
        snapshot: &FlushSnapshot,
        plan: MergePlan,
    ) -> Result<()> {
        let (before, end) = (io.len, plan.stored.end());
        let behind = before.max(end).next_multiple_of(8);
        io.rest = None;
        if !io.is_synced {
            self.sync_stored(true)?;
            io.is_synced = true;
        }
        self.prepare(before, behind, &plan)?;
        self.sync_stored(true)?;
        let mut content = self.change();
        // What follows must not be half done.
        io.is_broken = true;
        for piece in plan.pieces.iter().filter(|piece| piece.to() < before) {
            apply_until(self, piece, before)?;
        }
        if let Some(hole) = plan.hole {
            io.table_reserved = io.table_reserved.min(hole.start);
            clear(self.writer()?, hole)?;
        }
        self.sync_stored(true)?;
        self.cut(io, end)?;
        io.is_broken = false;
        self.publish(&mut content, snapshot, plan.stored);
        (io.len, io.log) = (end, None);
        io.is_on_disk = true;
        self.streams.store(false, Ordering::Relaxed);
        self.rest(io, &content.stored, Epoch::NONE)
    }

    /// Gives back what was reserved where a table has spare entries, and nothing lies.
    pub(super) fn give_back(&self, io: &mut StoredState, spare: Range<u64>) {
        io.table_reserved = io.table_reserved.min(spare.start);
        let punched = self.writer().and_then(|file| punch(file, &spare));
        if let Err(e) = punched {
            log::debug!("{}: {e}", self.path.display());
        }
    }

    /// Takes away a log when the chunks have all that programs see: they cut what it had.
    pub(super) fn drop_log(&self, io: &mut StoredState) -> Result<()> {
        let mut content = self.change();
        if content.differs() {
            return Ok(());
        }
        let end = content.stored.end();
        self.cut(io, end)?;
        (io.len, io.log) = (end, None);
        content.note_stored();
        content.least_len = content.len;
        self.rest(io, &content.stored, Epoch::NONE)
    }

    /// Writes what lies behind a file of `before` bytes, and at `behind` what makes the rest
    /// certain.
    fn prepare(&self, before: u64, behind: u64, plan: &MergePlan) -> Result<()> {
        let fingerprint = fingerprint_of_redo(&plan.stored);
        let mut redo = RedoWriter {
            file: self,
            at: behind,
            fingerprint,
            bytes: Vec::new(),
        };
        for piece in &plan.pieces {
            redo.add(piece, before)?;
        }
        let mark = TailMark::Redo(PendingMerge {
            start: behind,
            fingerprint,
            end: plan.stored.end(),
        });
        redo.bytes.extend_from_slice(&mark.bytes());
        redo.write_out()
    }
}

fn punch(file: &dyn DiskFile, range: &Range<u64>) -> Result<()> {
    let mode = Allocation::PUNCH_HOLE | Allocation::KEEP_SIZE;
    file.allocate(Allocation::of(mode, range), DAEMON)
}

/// Entries of a table say nothing from now on: they are a hole, where the file system can.
pub(super) fn clear(file: &dyn DiskFile, spare: Range<u64>) -> Result<()> {
    let Err(e) = punch(file, &spare) else {
        return Ok(());
    };
    log::debug!("{e}");
    let unknown = [0xff; 64 << 10];
    let mut at = spare.start;
    while at < spare.end {
        let n = (spare.end - at).min(unknown.len() as u64);
        put_all(file, at, &unknown[..n as usize])?;
        at += n;
    }
    Ok(())
}

/// Of the records of a redo: another than that of a log, which may begin at the same place.
pub(super) fn fingerprint_of_redo(stored: &StoredChunks) -> u64 {
    !stored.fingerprint()
}

/// Does what a piece says.
pub(super) fn apply(file: &ScratchFile, piece: &MergePiece) -> Result<()> {
    apply_until(file, piece, u64::MAX)
}

/// Does what a piece says, but puts no new bytes from `end` on: there they are already.
fn apply_until(file: &ScratchFile, piece: &MergePiece, end: u64) -> Result<()> {
    let writer = file.writer()?;
    match piece {
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
        _ => piece.parts(RECORD_MOST, |at, part| match at < end {
            true => put_all(writer, at, part),
            false => Ok(()),
        }),
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
    /// What of a piece does not lie behind the file goes into records, the rest to its place.
    fn add(&mut self, piece: &MergePiece, before: u64) -> Result<()> {
        let MergePiece::Moved { from, to, len } = piece else {
            return piece.parts(RECORD_MOST, |at, part| self.add_part(at, part, before));
        };
        let mut part = fallible::zeros(STEP.min(*len), "cannot move chunks")?;
        let mut done = 0;
        while done < *len {
            let n = STEP.min(len - done);
            let part = &mut part[..n as usize];
            read_all(&*self.file.reader, from + done, part)?;
            self.add_part(to + done, part, before)?;
            done += n;
        }
        Ok(())
    }

    fn add_part(&mut self, at: u64, part: &[u8], before: u64) -> Result<()> {
        let kind = match at < before {
            true => RecordKind::Redo,
            false => {
                put_all(self.file.writer()?, at, part)?;
                RecordKind::Behind
            }
        };
        let said = (at, part.len() as u64);
        TailRecord::write(kind, said, part, self.fingerprint, &mut self.bytes);
        match self.bytes.len() as u64 >= STEP {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    fn write_out(&mut self) -> Result<()> {
        put_all(self.file.writer()?, self.at, &self.bytes)?;
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
