//! The end of a stored file that has no log: its mark, and the times that it is left with.
//!
//! The mark says when programs changed the file last; the stored file's own time of change is then
//! that of the last call here, which sets the time of modification. So the two are stored with one
//! stamp, and where that took too long once more. Assumes that the caller holds
//! [`ScratchFile::io`]. Uses [`super::file`] and [`super::logging`]; used by [`super::flush`] and
//! its ways of writing.

use std::time::Instant;

use super::base::StoredChunks;
use super::file::{ScratchFile, StoredState};
use super::mark::{Epoch, MARK_LEN, RestMark, SeenChange, TailMark};
use super::tail::put_all;
use crate::disk::{NewAttributes, NewTime, Target};
use crate::error::Result;
use crate::source::Timestamp;

/// How often the times are stored, if the disk is slow.
const TRIES: usize = 3;

impl ScratchFile {
    /// What the end of chunks is to say that are put now.
    pub(super) fn rest_of(&self, stored: &StoredChunks, epoch: Epoch) -> Result<RestMark> {
        let seen = self.times().ctime.map(|(seen, _)| seen);
        let seen = match seen {
            Some(seen) => seen,
            None => self.reader.stat()?.ctime,
        };
        Ok(RestMark {
            epoch,
            fingerprint: stored.fingerprint(),
            changed: SeenChange::new(seen, Timestamp::tick()),
        })
    }

    /// Writes the mark behind these chunks, which are all that the stored file has.
    pub(super) fn rest(
        &self,
        io: &mut StoredState,
        stored: &StoredChunks,
        epoch: Epoch,
    ) -> Result<()> {
        let rest = self.rest_of(stored, epoch)?;
        self.put_rest(io, stored.end(), rest)
    }

    fn put_rest(&self, io: &mut StoredState, end: u64, rest: RestMark) -> Result<()> {
        put_all(self.writer()?, end, &TailMark::Rest(rest).bytes())?;
        self.note_rest(io, end, rest);
        Ok(())
    }

    /// The mark has been written.
    pub(super) fn note_rest(&self, io: &mut StoredState, end: u64, rest: RestMark) {
        io.len = end + MARK_LEN;
        io.rest = Some(rest);
        self.times().stored = Some(rest.changed);
    }

    /// Gives the stored file the times that programs see, and gives back what was reserved.
    pub(super) fn store_times(&self, io: &mut StoredState) -> Result<()> {
        if io.reserved > io.len && !self.read().differs() {
            self.cut(io, io.len)?;
        }
        let mut tries = 0;
        loop {
            self.store_ctime(io)?;
            let ctime = self.set_mtime(io)?;
            let said = self.times().stored;
            tries += 1;
            if tries == TRIES || said.is_none_or(|said| said.is_of(ctime)) {
                return Ok(());
            }
        }
    }

    /// Has the mark, or the log, say when the file was changed last.
    fn store_ctime(&self, io: &mut StoredState) -> Result<()> {
        let Some(seen) = self.times().ctime.map(|(seen, _)| seen) else {
            return Ok(());
        };
        let now = Timestamp::tick();
        if self.times().stored.is_some_and(|said| said.says(seen, now)) {
            return Ok(());
        }
        let changed = SeenChange::new(seen, now);
        match io.rest {
            Some(rest) => self.put_rest(io, io.len - MARK_LEN, RestMark { changed, ..rest }),
            None => self.log_change(io, changed),
        }
    }

    /// Sets the stored file's time of modification, and says its time of change.
    fn set_mtime(&self, io: &mut StoredState) -> Result<Timestamp> {
        let source = self.writer()?.source();
        let mtime = self.times().mtime;
        if let Some(mtime) = mtime {
            let to = NewAttributes {
                mtime: Some(NewTime::At(mtime)),
                ..NewAttributes::default()
            };
            self.shared
                .disk()?
                .set_attributes(Target::Open(source), &to)?;
        }
        let stat = self.reader.stat()?;
        io.left = Some(stat.mtime);
        let mut times = self.times();
        if let Some((seen, _)) = times.ctime {
            times.ctime = Some((seen, Some(stat.ctime)));
        }
        self.shared.note_stored(Instant::now());
        Ok(stat.ctime)
    }
}
