//! Which bytes of a file a recipe has told: every one, or the recipe is wrong.
//!
//! A byte that the recipe leaves out of a new file would be a hole, and of a file changed in place
//! whatever was there. Neither means anything: so a commit with such a recipe fails before any
//! reader sees the file. Used by [`super::new_files`] and [`super::in_place`].

use std::ops::Range;

use crate::container::writable::MemberNumber;
use crate::error::{Error, Result};
use crate::range_set::RangeSet;

#[derive(Debug, Default)]
pub(super) struct CoveredBytes {
    ranges: RangeSet,
    len: Option<u64>,
}

impl CoveredBytes {
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.ranges.insert(range);
    }

    /// Whether nothing has been told of a range.
    pub(super) fn has_none(&self, range: &Range<u64>) -> bool {
        self.ranges.overlapping(range).is_none()
    }

    /// All bytes of a file of this length stay, and so does the length, unless something else is
    /// told.
    pub(super) fn keep(&mut self, len: u64) {
        self.add(0..len);
        self.len.get_or_insert(len);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.len = Some(len);
    }

    /// The length of the file, all of whose bytes have been told.
    pub(super) fn check(&self, file: MemberNumber) -> Result<u64> {
        let wrong = |what: String| Error::Bug(format!("of file {} {what} is told", file.0));
        let len = self.len.ok_or_else(|| wrong("no length".into()))?;
        match self.ranges.gaps(&(0..len)).next() {
            None => Ok(len),
            Some(gap) => {
                let first = gap.start;
                Err(wrong(format!("nothing at {first}, of {len} bytes,")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: MemberNumber = MemberNumber::ONLY;

    #[test]
    fn every_byte_is_told_in_any_order() {
        let mut covered = CoveredBytes::default();
        for range in [40..60, 0..10, 60..64, 9..20, 30..40, 5..6, 7..7] {
            covered.add(range);
        }
        assert!(covered.check(FILE).is_err(), "no length");
        covered.set_len(64);
        assert!(covered.check(FILE).is_err(), "20..30");
        let free = |range| covered.has_none(&range);
        assert!(free(20..30) && free(22..23) && free(64..70));
        assert!(!free(19..21) && !free(29..31) && !free(0..64) && !free(63..70));
        covered.add(12..31);
        assert_eq!(covered.check(FILE).unwrap(), 64);
        covered.set_len(65);
        assert!(covered.check(FILE).is_err(), "64..65");
        covered.set_len(0);
        assert_eq!(covered.check(FILE).unwrap(), 0);
    }

    #[test]
    fn what_is_kept_need_not_be_told() {
        let mut covered = CoveredBytes::default();
        covered.keep(100);
        covered.add(20..30);
        assert_eq!(covered.check(FILE).unwrap(), 100);
        covered.add(100..120);
        covered.set_len(120);
        assert_eq!(covered.check(FILE).unwrap(), 120);
        covered.set_len(130);
        assert!(covered.check(FILE).is_err());
    }
}
