//! Entries counted by bands of places, and the bands joined to parts of bounded size.
//!
//! Entries that are more than there is memory for are sorted part by part: they are counted by
//! bands in one pass, then the bands are joined to parts, each of which is gathered and sorted by
//! itself. What a place is, how parts are gathered and how long they are kept is up to the two
//! sorts: [`super::by_place`] sorts one block, whose parts it keeps for the tiles that follow,
//! [`super::sorted`] several blocks, whose parts it visits once and cuts further where one band is
//! too much. What is read of a CSRMatrix begins with bands of rows that are remembered.

use std::ops::Range;

use super::index_cache::ChargedList;

/// How many entries lie in bands of the same width.
pub(crate) struct Bands<'a> {
    /// What was cut into bands.
    side: Range<u64>,
    /// Places of a band; the last may have fewer.
    step: u64,
    /// Entries up to the end of each band.
    ends: &'a [u64],
}

/// Bands that are remembered.
pub(crate) struct CountedBands {
    pub(crate) side: Range<u64>,
    pub(crate) step: u64,
    /// Entries up to the end of each band.
    pub(crate) ends: ChargedList<u64>,
}

impl CountedBands {
    pub(crate) fn bands(&self) -> Bands<'_> {
        Bands::new(self.side.clone(), self.step, &self.ends.list)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ends.bytes()
    }
}

/// Places of a band, if there are to be at most so many bands.
pub(crate) fn step(side: &Range<u64>, bands: u64) -> u64 {
    (side.end - side.start).div_ceil(bands).max(1)
}

/// Makes of the entries of each band those up to its end.
pub(crate) fn sum_up(counts: &mut [u64]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

impl Bands<'_> {
    /// `ends`: what [`sum_up`] has left.
    pub(crate) fn new(side: Range<u64>, step: u64, ends: &[u64]) -> Bands<'_> {
        Bands { side, step, ends }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Entries before a band.
    pub(crate) fn before(&self, band: usize) -> u64 {
        band.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    pub(crate) fn entries(&self, bands: &Range<usize>) -> u64 {
        self.before(bands.end) - self.before(bands.start)
    }

    /// The places of these bands.
    pub(crate) fn places(&self, bands: &Range<usize>) -> Range<u64> {
        let start = |band: usize| {
            let behind = (band as u64).saturating_mul(self.step);
            behind.saturating_add(self.side.start).min(self.side.end)
        };
        start(bands.start)..start(bands.end)
    }

    /// The band of an entry.
    pub(crate) fn by_entry(&self, entry: u64) -> usize {
        self.ends.partition_point(|&end| end <= entry)
    }

    /// The bands from `first` on that have at most `most` entries together; one that has more is
    /// a part by itself.
    pub(crate) fn joined(&self, first: usize, most: u64) -> Range<usize> {
        let most = self.before(first).saturating_add(most);
        let fit = self.ends[first..].partition_point(|&end| end <= most);
        first..first + fit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_joined_as_long_as_they_fit() {
        let side = 100..145;
        let step = step(&side, 6);
        let mut counts = [3, 0, 4, 9, 0, 2];
        sum_up(&mut counts);
        let bands = Bands::new(side, step, &counts);
        let (mut at, mut parts) = (0, Vec::new());
        while at < bands.len() {
            let part = bands.joined(at, 7);
            at = part.end;
            parts.push((
                bands.places(&part),
                bands.before(part.start),
                bands.entries(&part),
            ));
        }
        let expected = [(100..124, 0, 7), (124..132, 7, 9), (132..145, 16, 2)];
        assert_eq!(parts, expected);
        let far = Bands::new(u64::MAX - 5..u64::MAX, 4, &[1, 1]);
        assert_eq!(far.places(&(0..2)), u64::MAX - 5..u64::MAX);
        assert_eq!(far.joined(0, u64::MAX), 0..2);
    }
}
