//! Bytes of a log that belong into a file of the container, and where in that file.
//!
//! A commit may log a range twice (a header again, once the rest is written); it is put into the
//! file once, as logged last ([`last_said`]). So at every moment each range of the file is the old
//! one or the new one, whichever of them have reached the disk, and putting them again gives the
//! same file. Used by `commit`.

use std::ops::Range;

use crate::stage::extents::{ExtentPlace, Extents};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the file.
    pub at: u64,
    /// Where in the log the bytes are.
    pub logged: Range<u64>,
}

impl Patch {
    /// Where in the file they go.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + (self.logged.end - self.logged.start)
    }
}

/// Patches in order of the file, none of which overlap: of bytes that were said more than once,
/// those said last.
pub fn last_said(said: Vec<Patch>) -> Vec<Patch> {
    if said.is_sorted_by(|one, next| one.range().end <= next.at) {
        return said;
    }
    let mut last = Extents::new(0);
    for patch in &said {
        last.put(
            patch.range(),
            ExtentPlace::in_log(patch.logged.start),
            &mut |_, _| {},
        );
    }
    let patch = |(range, place): (Range<u64>, ExtentPlace)| {
        let start = place.log()?;
        Some(Patch {
            at: range.start,
            logged: start..start + (range.end - range.start),
        })
    };
    last.iter().filter_map(patch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(at: u64, logged: Range<u64>) -> Patch {
        Patch { at, logged }
    }

    #[test]
    fn what_is_said_last_counts() {
        let said = vec![
            patch(40, 100..110),
            patch(0, 200..220),
            patch(10, 300..305),
            patch(50, 400..404),
            patch(52, 500..501),
        ];
        let last = vec![
            patch(0, 200..210),
            patch(10, 300..305),
            patch(15, 215..220),
            patch(40, 100..110),
            patch(50, 400..402),
            patch(52, 500..501),
            patch(53, 403..404),
        ];
        assert_eq!(last_said(said), last);
        assert_eq!(last_said(last.clone()), last);
        assert!(last_said(Vec::new()).is_empty());
    }
}
