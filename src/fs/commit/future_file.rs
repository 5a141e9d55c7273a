//! A file of a container as a commit will have made it.
//!
//! In place it is read through the log that holds its redo records; a new file is there already,
//! under its hidden name. Used by [`super::recovery`] where nothing may be written, and the file
//! itself may be changed in part; and by `live` when it publishes a commit, to open the container
//! before it becomes visible.

use std::ffi::OsString;
use std::sync::Arc;

use super::fingerprint::read_filled;
use crate::error::{Fault, Result};
use crate::source::{BytesSource, Fetch, Source, SourceIdentity, Stat, Timestamp};
use crate::stage::log::{LogBytes, Patch};

/// One file as a commit will have made it.
#[derive(Clone)]
pub struct FutureFile {
    /// Beside the container's others.
    pub name: OsString,
    pub len: u64,
    /// The time of modification that it gets, if that is known.
    pub mtime: Option<Timestamp>,
    pub(super) content: FutureContent,
}

#[derive(Clone)]
pub(super) enum FutureContent {
    /// Changed where it lies.
    Redo(Redo),
    /// Another file gets its name.
    New(Arc<dyn Source>),
}

/// What becomes of a file in place.
#[derive(Clone)]
pub(super) struct Redo {
    /// There is none of this name yet.
    pub(super) is_made: bool,
    /// The patches that are put into it: in order, none of which overlap.
    pub(super) patches: Arc<[Patch]>,
    /// The bytes behind its end, if it has got some that it is not shown with.
    pub(super) grown: Option<Arc<dyn Source>>,
    pub(super) log: LogBytes,
}

impl FutureFile {
    /// Whether a file is what this was going to be, as far as its identity says.
    pub fn is(&self, identity: &SourceIdentity) -> bool {
        let Some(file) = identity.file() else {
            return false;
        };
        let is_file = match &self.content {
            FutureContent::Redo(_) => true,
            FutureContent::New(new) => new.id() == file.id,
        };
        let mtime = self.mtime.is_none_or(|mtime| mtime == file.mtime);
        is_file && file.size == self.len && mtime
    }

    /// The file as it is going to be. `stored`: the result of opening it as it is.
    pub fn over(&self, stored: Result<Arc<dyn Source>>) -> Result<Arc<dyn Source>> {
        let redo = match &self.content {
            FutureContent::New(new) => return Ok(Arc::clone(new)),
            FutureContent::Redo(redo) => redo.clone(),
        };
        let stored = match stored {
            Err(e) if redo.is_made && e.is_not_found() => Arc::new(BytesSource::new(Vec::new())),
            stored => stored?,
        };
        let len = self.len;
        Ok(Arc::new(Patched { stored, len, redo }))
    }
}

struct Patched {
    stored: Arc<dyn Source>,
    len: u64,
    redo: Redo,
}

impl Patched {
    fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(buf.len() as u64);
        if end > self.len {
            let fault = Fault::new("a range beyond the end of the file").bytes(at..end);
            return Err(fault.expected(self.len).into());
        }
        let there = self.stored.len().clamp(at, end) - at;
        self.stored.fetch_one(at, &mut buf[..there as usize])?;
        match &self.redo.grown {
            Some(grown) => read_filled(&**grown, at + there, &mut buf[there as usize..])?,
            None => buf[there as usize..].fill(0),
        }
        let patches = &self.redo.patches;
        let first = patches.partition_point(|patch| patch.range().end <= at);
        for patch in &patches[first..] {
            let range = patch.range();
            let (from, to) = (range.start.max(at), range.end.min(end));
            if from >= to {
                break;
            }
            let out = &mut buf[(from - at) as usize..(to - at) as usize];
            let logged = patch.logged.start + (from - range.start);
            self.redo.log.read(logged, out)?;
        }
        Ok(())
    }
}

impl Source for Patched {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> SourceIdentity {
        self.stored.identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.stored.stat()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let mut ranges = ranges.iter_mut();
        ranges.try_for_each(|fetch| self.fill(fetch.offset, fetch.buf))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fill(offset, &mut buf[..n]).map(|()| n)
    }
}
