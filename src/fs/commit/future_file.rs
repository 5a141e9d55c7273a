//! A file of a container as a commit will have made it.
//!
//! In place it is read through the log that holds its redo records; a new file is there already,
//! under its hidden name. Used by [`super::recovery`] where nothing may be written, and the file
//! itself may be changed in part; and by `live` when it publishes a commit, to open the container
//! before it becomes visible.

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;

use super::fingerprint::read_filled;
use crate::error::Result;
use crate::source::{BytesSource, PatchedSource, Source, SourceIdentity, SourcePatches, Timestamp};
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
        Ok(Arc::new(PatchedSource::new(stored, redo, self.len)))
    }
}

impl SourcePatches for Redo {
    type Piece = Patch;

    fn pieces(&self) -> &[Patch] {
        &self.patches
    }

    fn place(patch: &Patch) -> Range<u64> {
        patch.range()
    }

    fn read(&self, patch: &Patch, _: &dyn Source, from: u64, out: &mut [u8]) -> Result<usize> {
        self.log.read(patch.logged.start + from, out)?;
        Ok(out.len())
    }

    fn between(&self, below: &dyn Source, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(out.len() as u64);
        let there = below.len().clamp(at, end) - at;
        let (stored, behind) = out.split_at_mut(there as usize);
        below.fetch_one(at, stored)?;
        match &self.grown {
            Some(grown) => read_filled(&**grown, at + there, behind),
            None => {
                behind.fill(0);
                Ok(())
            }
        }
    }
}
