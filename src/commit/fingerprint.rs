//! A few bytes that say whether a file is the one that a commit began to change in place.
//!
//! Size and time of such a file were never recorded. The bytes that a commit leaves alone stay as
//! they were: so samples of them are taken before it begins, and compared after a crash. Used by
//! [`super::sealed`], and of new files by [`super::new_files`] and [`super::recovery_state`].

use std::ops::Range;

use crate::error::Result;
use crate::source::Source;

/// Samples, spread evenly, and bytes of each.
const SAMPLES: u64 = 16;
const SAMPLE: u64 = 4 << 10;

/// Of the first `len` bytes of a file, but for those in `changed`.
pub(super) fn fingerprint(source: &dyn Source, changed: Vec<Range<u64>>, len: u64) -> Result<u32> {
    fingerprint_of(source, changed, 0..len)
}

/// The same of a range of it.
pub(super) fn fingerprint_of(
    source: &dyn Source,
    mut changed: Vec<Range<u64>>,
    range: Range<u64>,
) -> Result<u32> {
    let len = range.end.saturating_sub(range.start);
    changed.sort_unstable_by_key(|range| range.start);
    let mut hash = crc32fast::Hasher::new();
    let mut buf = [0; SAMPLE as usize];
    for sample in 0..SAMPLES {
        let part = (u128::from(len) * u128::from(sample) / u128::from(SAMPLES)) as u64;
        let at = range.start + part;
        let end = range.end.min(at + SAMPLE).max(at);
        let bytes = &mut buf[..(end - at) as usize];
        read_filled(source, at, bytes)?;
        leave_out(bytes, at, &changed);
        hash.update(bytes);
    }
    Ok(hash.finalize())
}

/// Behind the end are zeros.
pub(super) fn read_filled(source: &dyn Source, at: u64, bytes: &mut [u8]) -> Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        match source.read(at.saturating_add(read as u64), &mut bytes[read..])? {
            0 => break,
            n => read += n,
        }
    }
    bytes[read..].fill(0);
    Ok(())
}

/// Clears the bytes that are changed.
fn leave_out(bytes: &mut [u8], at: u64, changed: &[Range<u64>]) {
    let end = at + bytes.len() as u64;
    // They do not overlap.
    let first = changed.partition_point(|range| range.end <= at);
    let from = changed[first..].iter();
    for range in from.take_while(|range| range.start < end) {
        let (start, stop) = (range.start.max(at), range.end.min(end));
        if start < stop {
            bytes[(start - at) as usize..(stop - at) as usize].fill(0);
        }
    }
}
