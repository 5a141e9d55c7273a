//! A few bytes that say whether a file is the one that a commit began to change in place.
//!
//! Size and time of such a file were never recorded. The bytes that a commit leaves alone stay as
//! they were: so samples of them are taken before it begins, and compared after a crash. Samples
//! that are spread over a file miss the few bytes that say what all others are, if another program
//! has changed those: an HDF5 file begins behind a block of any power of two, and says there how
//! long it is. So the places where a file may begin ([`beginnings`]) are looked at as well. Used by
//! [`super::sealed`] and [`super::grown`], and of new files by [`super::new_files`] and
//! [`super::recovery_state`].

use std::ops::Range;

use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::Source;

/// Samples, spread evenly, and bytes of each.
const SAMPLES: u64 = 16;
const SAMPLE: u64 = 4 << 10;

/// Bytes that a disk writes as a whole, and in which a file says what it is.
pub(super) const SECTOR: u64 = 512;

/// The places among the first `len` bytes of a file where it may begin.
pub(super) fn beginnings(len: u64) -> impl Iterator<Item = Range<u64>> {
    let next = |at: &u64| Some(at.checked_mul(2)?.max(SECTOR));
    let places = std::iter::successors(Some(0), next);
    let places = places.take_while(move |at| *at < len);
    places.map(move |at| at..len.min(at + SECTOR))
}

/// Of the first `len` bytes of a file, but for those in `changed`.
pub(super) fn fingerprint(source: &dyn Source, changed: &RangeSet, len: u64) -> Result<u32> {
    fingerprint_of(source, changed, 0..len)
}

/// Of the first `len` bytes of a file that all stay, and of the places where it may begin.
pub(super) fn fingerprint_of_all(source: &dyn Source, len: u64) -> Result<u32> {
    let samples = spread(0..len).chain(beginnings(len));
    hash(source, &RangeSet::default(), samples)
}

/// The [`fingerprint`] of a range of the file.
pub(super) fn fingerprint_of(
    source: &dyn Source,
    changed: &RangeSet,
    range: Range<u64>,
) -> Result<u32> {
    hash(source, changed, spread(range))
}

/// Parts of a range, each as far from the next.
fn spread(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let len = range.end.saturating_sub(range.start);
    (0..SAMPLES).map(move |sample| {
        let part = (u128::from(len) * u128::from(sample) / u128::from(SAMPLES)) as u64;
        let at = range.start + part;
        at..range.end.min(at + SAMPLE).max(at)
    })
}

fn hash(
    source: &dyn Source,
    changed: &RangeSet,
    samples: impl Iterator<Item = Range<u64>>,
) -> Result<u32> {
    let mut hash = crc32fast::Hasher::new();
    let mut buf = [0; SAMPLE as usize];
    for sample in samples {
        let bytes = &mut buf[..(sample.end - sample.start) as usize];
        read_filled(source, sample.start, bytes)?;
        for part in changed.within(sample.clone()) {
            let part = part.start - sample.start..part.end - sample.start;
            bytes[part.start as usize..part.end as usize].fill(0);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::BytesSource;

    #[test]
    fn a_file_may_begin_at_any_power_of_two_sectors() {
        let places: Vec<_> = beginnings(2100).collect();
        assert_eq!(places, [0..512, 512..1024, 1024..1536, 2048..2100]);
        assert_eq!(beginnings(0).count(), 0);
        assert_eq!(beginnings(u64::MAX).last(), Some(1 << 63..(1 << 63) + 512));
    }

    #[test]
    fn a_byte_where_a_file_may_begin_makes_another_fingerprint() {
        let len = 3 << 20;
        let with = |at: usize| {
            let mut bytes = vec![0; len];
            bytes[at] = 1;
            fingerprint_of_all(&BytesSource::new(bytes), len as u64).unwrap()
        };
        let none = fingerprint_of_all(&BytesSource::new(vec![0; len]), len as u64).unwrap();
        for place in beginnings(len as u64) {
            assert_ne!(with(place.start as usize + 100), none, "{place:?}");
        }
    }
}
