//! An array that is open for writing.
//!
//! A handle has one: bytes written through it go to the stage of its container, and its first close
//! after that commits; of an array by which entries are named, every close. Used by
//! [`super::arrays`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::LayeredContainer;
use crate::container::inside::ArrayAddress;
use crate::container::writable::{Change, WritableContainer};
use crate::error::Result;
use crate::live::shown::entry_table::ArrayNumber;
use crate::live::version::ContainerVersion;
use crate::stage::{Stage, WrittenArray};
use crate::sync::Mutex;

/// An array that is written through a handle.
pub(crate) struct ArrayWriter {
    pub(crate) version: Arc<ContainerVersion>,
    pub(crate) container: Arc<LayeredContainer>,
    pub(crate) number: ArrayNumber,
    pub(crate) array: WrittenArray,
    /// Something was written that this handle has not seen committed.
    wrote: AtomicBool,
    /// It was emptied when it was opened, which is committed with the bytes written then, or in the
    /// end: shells close a descriptor, too, before the program writes to its copy.
    emptied: AtomicBool,
    /// It has been closed once: perhaps by a child of the process that opened it.
    closed: AtomicBool,
    /// Bytes written since it was last ordered that they be logged.
    unordered: AtomicU64,
    /// What was written last in one sequence.
    sequence: Mutex<Range<u64>>,
}

impl ArrayWriter {
    pub(crate) fn new(
        version: &Arc<ContainerVersion>,
        container: Arc<LayeredContainer>,
        (number, array): (ArrayNumber, WrittenArray),
    ) -> ArrayWriter {
        ArrayWriter {
            version: Arc::clone(version),
            container,
            number,
            array,
            wrote: AtomicBool::new(false),
            emptied: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            unordered: AtomicU64::new(0),
            sequence: Mutex::new(0..0),
        }
    }

    /// A range is about to be written: how long the sequence was that it goes on with, and is.
    pub(crate) fn sequence(&self, range: &Range<u64>) -> (u64, u64) {
        let mut sequence = self.sequence.lock();
        if sequence.end != range.start {
            *sequence = range.start..range.start;
        }
        let before = sequence.end - sequence.start;
        sequence.end = range.end;
        (before, range.end - sequence.start)
    }

    /// Counts what was written, and begins anew where that has become so much; says whether.
    pub(crate) fn counts_to(&self, most: u64, written: u64) -> bool {
        let before = self.unordered.fetch_add(written, Ordering::Relaxed);
        let is_much = before.saturating_add(written) >= most;
        if is_much {
            self.unordered.store(0, Ordering::Relaxed);
        }
        is_much
    }

    /// Whether something may be done to it.
    pub(crate) fn permits(&self, change: Change) -> Result<()> {
        let permits = |writable: &dyn WritableContainer, address: ArrayAddress<'_>| {
            writable.permits(address, change)
        };
        self.container.ask(self.number, permits)?
    }

    pub(crate) fn stage(&self) -> &Stage {
        &self.container.stage
    }

    pub(crate) fn note_write(&self) {
        self.wrote.store(true, Ordering::Release);
    }

    pub(crate) fn note_emptied(&self) {
        self.emptied.store(true, Ordering::Release);
    }

    /// Whether it was emptied, which nothing has committed since.
    pub(crate) fn was_emptied(&self) -> bool {
        self.emptied.load(Ordering::Acquire)
    }

    /// Whether a close commits: the first one after something was written.
    pub(crate) fn commits_at_close(&self) -> bool {
        self.wrote.load(Ordering::Acquire)
            && !self.closed.swap(true, Ordering::AcqRel)
            && self.takes_what_was_written()
    }

    /// Whether its end commits: something was written since.
    pub(crate) fn commits_at_end(&self) -> bool {
        let emptied = self.emptied.swap(false, Ordering::AcqRel);
        self.takes_what_was_written() || emptied
    }

    fn takes_what_was_written(&self) -> bool {
        let wrote = self.wrote.swap(false, Ordering::AcqRel);
        // A commit takes both.
        if wrote {
            self.emptied.store(false, Ordering::Release);
        }
        wrote
    }
}
