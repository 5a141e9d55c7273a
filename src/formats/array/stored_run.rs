//! Where an array lies in a file whose bytes are those that are shown.
//!
//! Pure. Told by formats of arrays that can be written to their place before a commit; a log keeps
//! it. Used by `container::writable` and `stage`.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Where all bytes of an array lie in the only file of a container: one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRun {
    pub begin: u64,
    /// In bytes. The file is at least so long.
    pub len: u64,
    /// Bytes of an element, if those are stored the other way around than they are shown; 1 else.
    pub turned: u8,
}

impl StoredRun {
    /// The elements of which a range has bytes.
    pub fn elements(&self, range: &Range<u64>) -> Range<u64> {
        let size = u64::from(self.turned.max(1));
        range.start - range.start % size..range.end.next_multiple_of(size).min(self.len)
    }

    /// The elements of which a range has all bytes.
    pub fn elements_within(&self, range: &Range<u64>) -> Range<u64> {
        let size = u64::from(self.turned.max(1));
        range.start.next_multiple_of(size)..range.end - range.end % size
    }

    /// Where a range of the array lies, of whole elements.
    pub fn place(&self, range: &Range<u64>) -> Range<u64> {
        self.begin.saturating_add(range.start)..self.begin.saturating_add(range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_taken_for_whole_elements() {
        let run = StoredRun {
            begin: 100,
            len: 40,
            turned: 8,
        };
        assert_eq!(run.elements(&(9..25)), 8..32);
        assert_eq!(run.elements(&(33..40)), 32..40);
        assert_eq!(run.elements_within(&(9..25)), 16..24);
        assert!(run.elements_within(&(9..15)).is_empty());
        assert_eq!(run.place(&(8..32)), 108..132);
        let plain = StoredRun { turned: 1, ..run };
        assert_eq!(plain.elements(&(9..25)), 9..25);
        assert_eq!(plain.elements_within(&(9..25)), 9..25);
    }
}
