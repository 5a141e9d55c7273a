//! One file of a container as it is told from its start to its end, if there is anything to tell.
//!
//! As long as the bytes are those that are stored at the same place nothing is told. With the first
//! that are not, what comes before is told as a copy; a file that turns out to be as it was stays
//! as it is. Small parts are put together, so that a thousand of them do not make a thousand
//! writes. Used by `stream`, `plain_file` and `end_max`.

use std::ops::Range;
use std::sync::Arc;

use crate::container::bpcells::fields::Number;
use crate::container::bpcells::header;
use crate::container::writable::{MemberNumber, Recipe};
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::source::Source;

/// Bytes that are put together.
pub(super) const BUFFER: usize = 64 << 10;

/// Stored bytes that are read at once, for the parts that follow as well: short parts that stay lie
/// close together.
pub(super) const WINDOW: usize = 128 << 10;

/// What is smaller is read rather than copied, which takes the system longer.
const SMALL: u64 = BUFFER as u64;

/// What stays where it is, and is smaller, is read rather than copied: two files may share the
/// rest.
const SMALL_IN_PLACE: u64 = 16 << 10;

/// Stored bytes that are compared at once.
const STEP: usize = 16 << 10;

const DOING: &str = "cannot write a container";

pub(super) struct MemberWriter {
    file: MemberNumber,
    /// The file as it is, if there is one.
    old: Option<Arc<dyn Source>>,
    /// Bytes before those that are pending.
    done: u64,
    /// Whether they were told; otherwise they are as they are stored.
    is_told: bool,
    pending: Vec<u8>,
    /// Bytes of the old file, and where they begin.
    window: Vec<u8>,
    window_at: u64,
}

impl MemberWriter {
    pub(super) fn new(file: MemberNumber, old: Option<Arc<dyn Source>>) -> Result<MemberWriter> {
        Ok(MemberWriter {
            file,
            old,
            done: 0,
            is_told: false,
            pending: fallible::room_for(BUFFER, DOING)?,
            window: Vec::new(),
            window_at: 0,
        })
    }

    /// What a numeric file begins with.
    pub(super) fn header(&mut self, number: Number, write: &mut dyn Recipe) -> Result<()> {
        self.put(header::magic(number), write)
    }

    /// The next bytes.
    pub(super) fn put(&mut self, bytes: &[u8], write: &mut dyn Recipe) -> Result<()> {
        if self.pending.len() + bytes.len() > BUFFER {
            self.flush(write)?;
        }
        if bytes.len() > BUFFER {
            return self.pass_on(bytes, write);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// The next bytes are these of the file as it is.
    pub(super) fn copy(&mut self, from: Range<u64>, write: &mut dyn Recipe) -> Result<()> {
        let len = from.end.saturating_sub(from.start);
        let at = self.done + self.pending.len() as u64;
        if len == 0 {
            return Ok(());
        }
        let small = match from.start == at {
            true => SMALL_IN_PLACE,
            false => SMALL,
        };
        if len <= small && (self.is_told || from.start != at) {
            return self.read_small(from.start, len as usize, write);
        }
        self.flush(write)?;
        if self.is_told || from.start != self.done {
            self.begin(write)?;
            write.copy(self.file, from, self.done)?;
        }
        self.done += len;
        Ok(())
    }

    fn read_small(&mut self, from: u64, len: usize, write: &mut dyn Recipe) -> Result<()> {
        if self.pending.len() + len > BUFFER {
            self.flush(write)?;
        }
        self.see(from, len)?;
        let start = (from - self.window_at) as usize;
        let bytes = self.window.get(start..start + len);
        self.pending
            .extend_from_slice(bytes.ok_or_else(nothing_stored)?);
        Ok(())
    }

    /// Has bytes of the old file in the window.
    fn see(&mut self, from: u64, len: usize) -> Result<()> {
        let end = self.window_at + self.window.len() as u64;
        if from >= self.window_at && from + len as u64 <= end {
            return Ok(());
        }
        let old = self.old.as_ref().ok_or_else(nothing_stored)?;
        let left = old.len().saturating_sub(from).min(WINDOW as u64);
        self.window.clear();
        fallible::lengthen(&mut self.window, len.max(left as usize), DOING)?;
        self.window_at = from;
        let mut read = old.fetch_one(from, &mut self.window);
        if read.is_err() && self.window.len() > len {
            // What follows may be bad, and not stay.
            self.window.truncate(len);
            read = old.fetch_one(from, &mut self.window);
        }
        if read.is_err() {
            self.window.clear();
        }
        read
    }

    fn flush(&mut self, write: &mut dyn Recipe) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let passed = match pending.is_empty() {
            true => Ok(()),
            false => self.pass_on(&pending, write),
        };
        pending.clear();
        self.pending = pending;
        passed
    }

    fn pass_on(&mut self, bytes: &[u8], write: &mut dyn Recipe) -> Result<()> {
        if self.is_told || !self.is_stored(bytes)? {
            self.begin(write)?;
            write.put(self.file, self.done, bytes)?;
        }
        self.done += bytes.len() as u64;
        Ok(())
    }

    /// Whether these are the bytes that the file has here.
    fn is_stored(&self, bytes: &[u8]) -> Result<bool> {
        let Some(old) = &self.old else {
            return Ok(false);
        };
        let end = self.done.saturating_add(bytes.len() as u64);
        if end > old.len() {
            return Ok(false);
        }
        let mut stored = [0; STEP];
        let mut at = self.done;
        for bytes in bytes.chunks(STEP) {
            let stored = &mut stored[..bytes.len()];
            old.fetch_one(at, stored)?;
            if stored != bytes {
                return Ok(false);
            }
            at += bytes.len() as u64;
        }
        Ok(true)
    }

    /// From now on everything is told.
    fn begin(&mut self, write: &mut dyn Recipe) -> Result<()> {
        if !self.is_told && self.done > 0 {
            write.copy(self.file, 0..self.done, 0)?;
        }
        self.is_told = true;
        Ok(())
    }

    /// The file ends here.
    pub(super) fn end(mut self, write: &mut dyn Recipe) -> Result<()> {
        self.flush(write)?;
        let old = self.old.as_ref().map(|old| old.len());
        if self.is_told || old != Some(self.done) {
            self.begin(write)?;
            write.set_len(self.file, self.done)?;
        }
        Ok(())
    }
}

fn nothing_stored() -> Error {
    Error::Bug("there is no file to copy from".into())
}
