//! Arrays that lie in one piece of their file, and are written in sequence: what comes of them goes
//! to the place that it is going to have, in the file that the next commit makes.
//!
//! Whether the container's file is going to be replaced is asked as if all of the array was to be
//! written, once a sequence has become long, and again each time it is twice as long. Nothing
//! depends on it: what does not go there is staged as everything else. Used by [`super::arrays`].

use std::ops::Range;
use std::sync::Arc;

use super::ArrayWriter;
use crate::array::stored_run::StoredRun;
use crate::container::inside::ArrayAddress;
use crate::container::writable::WritableContainer;
use crate::error::Result;
use crate::live::committing::Committer;

/// Bytes of a sequence that is long, and of an array for which it is worth while.
const LONG: u64 = if cfg!(test) { 8 } else { 256 << 10 };
const LARGE: u64 = if cfg!(test) { 8 } else { 1 << 20 };

/// Begins next files.
pub(crate) struct StoredRuns {
    pub(crate) committer: Arc<Committer>,
}

impl StoredRuns {
    /// A range of an array is about to be written.
    pub(crate) fn begin(&self, writer: &ArrayWriter, range: &Range<u64>) {
        let (before, now) = writer.sequence(range);
        let is_due = now >= LONG && (before < LONG || before.ilog2() != now.ilog2());
        if is_due
            && writer.stage().may_have_run(writer.array)
            && let Err(e) = self.try_to_begin(writer, range.end == now)
        {
            log::debug!("what is written in sequence is held in memory: {e}");
        }
    }

    /// `is_begun`: the sequence is that from the array's start on.
    fn try_to_begin(&self, writer: &ArrayWriter, is_begun: bool) -> Result<()> {
        let Some(run) = self.run(writer)?.filter(|run| run.len >= LARGE) else {
            return Ok(());
        };
        match writer.stage().has_next() || self.may_begin_next(writer, (run.len, is_begun))? {
            true => writer.stage().begin_run(writer.array, run),
            false => Ok(()),
        }
    }

    /// The more arrays go there, the fewer bytes are copied: so it is asked of the first alone.
    fn may_begin_next(&self, writer: &ArrayWriter, run: (u64, bool)) -> Result<bool> {
        let (version, container) = (&writer.version, &writer.container);
        self.committer.may_begin_next(version, container, run)
    }

    fn run(&self, writer: &ArrayWriter) -> Result<Option<StoredRun>> {
        let ask = |writable: &dyn WritableContainer, address: ArrayAddress<'_>| {
            writable.stored_run(address, &[])
        };
        writer.container.ask(writer.number, ask)?
    }
}
