//! What libhdf5 reads while it does one thing, as ranges of the file. Bounded. Pure. Used by
//! [`super::driver`].

use std::collections::BTreeMap;

/// More are not told.
const MOST: usize = 1 << 18;

#[derive(Debug, Default)]
pub(super) struct NotedReads {
    /// Lengths by addresses: nodes are read again and again.
    reads: BTreeMap<u64, u64>,
}

impl NotedReads {
    pub(super) fn add(&mut self, at: u64, len: u64) {
        if self.reads.len() <= MOST {
            let known = self.reads.entry(at).or_default();
            *known = len.max(*known);
        }
    }

    /// Address and length of each, in order; none if there are too many.
    pub(super) fn ranges(self) -> Vec<(u64, u64)> {
        match self.reads.len() <= MOST {
            true => self.reads.into_iter().collect(),
            false => Vec::new(),
        }
    }
}
