//! A file of a container as a commit in place will have made it, read through the log that tells of
//! it.
//!
//! Used by [`super::recovery`] for who may not write: the file itself may be changed in part.

use std::path::PathBuf;
use std::sync::Arc;

use super::recovery::Leftover;
use crate::error::{Fault, Result};
use crate::source::passing::Passing;
use crate::source::{Fetch, FileIdentity, Source, Stat, Store};
use crate::stage::log::{Patch, SealedFile};

pub(super) struct Patched {
    stored: Arc<dyn Source>,
    left: Arc<Leftover>,
    /// What is put into the file.
    patches: Vec<Patch>,
    len: u64,
}

impl Patched {
    pub(super) fn new(
        stored: Arc<dyn Source>,
        left: Arc<Leftover>,
        sealed: &SealedFile,
    ) -> Patched {
        let patches = left.state().patches_of(sealed).to_vec();
        let len = left.state().file_length(sealed);
        Patched {
            stored,
            left,
            patches,
            len,
        }
    }

    fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(buf.len() as u64);
        if end > self.len {
            let fault = Fault::new("a range beyond the end of the file").bytes(at..end);
            return Err(fault.expected(self.len).into());
        }
        let there = self.stored.len().clamp(at, end) - at;
        self.stored.fetch_one(at, &mut buf[..there as usize])?;
        buf[there as usize..].fill(0);
        let first = self
            .patches
            .partition_point(|patch| patch.range().end <= at);
        for patch in &self.patches[first..] {
            let range = patch.range();
            let (from, to) = (range.start.max(at), range.end.min(end));
            if from >= to {
                break;
            }
            let out = &mut buf[(from - at) as usize..(to - at) as usize];
            let logged = patch.logged.start + (from - range.start);
            self.left.state().read_logged(logged, out)?;
        }
        Ok(())
    }
}

impl Source for Patched {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> FileIdentity {
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

/// A store in which the files of a container are read through its log: these, and what the log
/// calls them.
pub(super) fn through_log(
    store: &Arc<dyn Store>,
    left: &Arc<Leftover>,
    of: Vec<(PathBuf, &'static str)>,
) -> Arc<dyn Store> {
    let (left, below) = (Arc::clone(left), Arc::clone(store));
    Arc::new(Passing::new(store, move |path, source| {
        match of.iter().find(|(of, _)| of == path) {
            Some((_, name)) => left.source(&*below, (path, name), source),
            None => source,
        }
    }))
}
