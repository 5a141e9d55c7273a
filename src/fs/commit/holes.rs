//! Where a file has holes: ranges that read as zeros and take no room on the disk.
//!
//! A copy keeps them, however long they are; and what is put into one needs room that the file does
//! not have. Where nothing is known of holes there are none. Used by [`super::new_files`] and
//! [`super::changed_file`].

use std::ops::Range;

use crate::error::Error;
use crate::source::Source;

/// What a file says of its holes.
#[derive(Default)]
pub(super) struct Holes {
    /// The answer of before: many questions are about one range without a hole.
    data: Range<u64>,
}

impl Holes {
    /// The first bytes within a range that are in no hole; none if all of it is one.
    pub(super) fn data(&mut self, source: &dyn Source, range: Range<u64>) -> Range<u64> {
        if !self.data.contains(&range.start) {
            let start = match source
                .posix()
                .and_then(|file| file.seek(range.start, false))
            {
                Ok(start) => start.max(range.start),
                Err(Error::BeyondTheEnd) => return range.end..range.end,
                Err(_) => range.start,
            };
            let end = match start < range.end {
                true => source.posix().and_then(|file| file.seek(start, true)).ok(),
                false => Some(start),
            };
            // A hole at the same place would be the work of somebody else, at this very moment.
            let end = end.filter(|end| *end > start || start >= range.end);
            let end = end.unwrap_or(u64::MAX);
            self.data = start..end;
        }
        let start = self.data.start.clamp(range.start, range.end);
        start..self.data.end.clamp(start, range.end)
    }

    /// The parts of a range that lie in holes.
    pub(super) fn within(&mut self, source: &dyn Source, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut holes, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let data = self.data(source, at..range.end);
            holes.extend(Some(at..data.start).filter(|hole| !hole.is_empty()));
            at = data.end.max(data.start);
        }
        holes
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;
    use crate::source::local::LocalStore;
    use crate::source::{BytesSource, Store};

    const BLOCK: u64 = 64 << 10;

    #[test]
    fn holes_are_found_where_nothing_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join("file")).unwrap();
        file.set_len(10 * BLOCK).unwrap();
        for block in [0, 1, 4] {
            file.write_all_at(&[1; BLOCK as usize], block * BLOCK)
                .unwrap();
        }
        file.sync_all().unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let source = &*store.open(Path::new("file")).unwrap();
        let mut holes = Holes::default();
        let mut in_blocks = |range: Range<u64>| -> Vec<Range<u64>> {
            let found = holes.within(source, range.start * BLOCK..range.end * BLOCK);
            found
                .iter()
                .map(|hole| hole.start / BLOCK..hole.end / BLOCK)
                .collect()
        };
        assert_eq!(in_blocks(0..10), [2..4, 5..10]);
        assert_eq!(in_blocks(0..2), []);
        assert_eq!(in_blocks(3..5), vec![3..4; 1]);
        assert_eq!(in_blocks(6..9), vec![6..9; 1]);
        assert_eq!(holes.data(source, 100..BLOCK), 100..BLOCK);
        assert!(holes.data(source, 7 * BLOCK..8 * BLOCK).is_empty());
    }

    #[test]
    fn what_says_nothing_of_holes_has_none() {
        let source = BytesSource::new(vec![0; 1000]);
        assert_eq!(Holes::default().data(&source, 10..900), 10..900);
        assert!(Holes::default().within(&source, 0..1000).is_empty());
    }
}
