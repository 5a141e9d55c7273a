//! The index of a stream as it is stored, read in the order of its entries.
//!
//! Runs of chunks that stay follow each other closely where much has changed, so a window of
//! entries is read at once. Used by `field_writer`.

use crate::container::bpcells::packed::PackedStream;
use crate::error::Result;
use crate::memory::fallible;

/// Entries that are read at once.
const ENTRIES: u64 = 4 << 10;

pub(super) struct StoredIndex<'a> {
    pub(super) stream: &'a PackedStream,
    /// Number of the first entry of the window.
    first: u64,
    window: Vec<u32>,
}

impl<'a> StoredIndex<'a> {
    pub(super) fn new(stream: &'a PackedStream) -> Self {
        StoredIndex {
            stream,
            first: 0,
            window: Vec::new(),
        }
    }

    /// An entry as it is stored.
    pub(super) fn low(&mut self, entry: u64) -> Result<u32> {
        self.seen_from(entry).map(|seen| seen[0])
    }

    /// An entry as it is stored, and some of those behind it; at least one.
    pub(super) fn seen_from(&mut self, entry: u64) -> Result<&[u32]> {
        if self.seen(entry).is_some() {
            return Ok(&self.window[(entry - self.first) as usize..]);
        }
        let left = self.stream.entries().saturating_sub(entry);
        self.window.clear();
        let len = left.clamp(1, ENTRIES) as usize;
        fallible::lengthen(&mut self.window, len, "cannot write a container")?;
        self.first = entry;
        let mut read = self.stream.read_idx(entry, &mut self.window);
        if read.is_err() && len > 1 {
            // What follows may be bad, and not stay.
            self.window.truncate(1);
            read = self.stream.read_idx(entry, &mut self.window);
        }
        if read.is_err() {
            self.window.clear();
        }
        read.map(|()| &self.window[..])
    }

    /// The word that an entry stands for.
    pub(super) fn word(&mut self, entry: u64) -> Result<u64> {
        let low = self.low(entry)?;
        self.stream.word(entry, low)
    }

    /// The word that an entry stands for which may be far ahead of those that are read next.
    pub(super) fn word_alone(&mut self, entry: u64) -> Result<u64> {
        let low = match self.seen(entry) {
            Some(low) => low,
            None => {
                let mut low = [0];
                self.stream.read_idx(entry, &mut low)?;
                low[0]
            }
        };
        self.stream.word(entry, low)
    }

    fn seen(&self, entry: u64) -> Option<u32> {
        let at = usize::try_from(entry.checked_sub(self.first)?).ok()?;
        self.window.get(at).copied()
    }
}
