//! How numbers are distributed, counted in one pass without knowing their range.
//!
//! Bins are as wide as a power of two, and begin at its multiples; when a number lies too far
//! outside, every two of them become one. So the counts are exact, and what comes out depends
//! neither on the order of the numbers nor on how they were divided among threads. Pure. Used by
//! [`super::figures`] and the pictures.

use std::ops::Range;

/// Most bins that are counted.
const FINE_MOST: i64 = 4096;

/// Bins that are narrower than 2^-this have no factor that is a float.
const TINY: i32 = 1000;

/// Bits of a float behind the first.
const MANTISSA: i32 = 52;

/// Counts of numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Bins are 2^this wide.
    exponent: i32,
    /// What makes the number of a bin of a number.
    scale: f64,
    /// Number of the first bin.
    first: i64,
    counts: Vec<u64>,
}

/// Numbers from `from` on and below `to`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct HistogramBin {
    pub from: f64,
    pub to: f64,
    pub count: u64,
}

impl Histogram {
    /// Finite numbers count.
    pub fn add(&mut self, value: f64) {
        self.add_many(value, 1);
    }

    /// Counts one number so many times.
    pub fn add_many(&mut self, value: f64, times: u64) {
        if !value.is_finite() || times == 0 {
            return;
        }
        let finest = finest(value);
        if self.counts.is_empty() {
            (self.exponent, self.scale) = (finest, scale(finest));
            self.first = self.place(value);
            self.counts.push(times);
            return;
        }
        if finest > self.exponent {
            self.coarsen(finest);
        }
        loop {
            let place = self.place(value);
            if self.make_room(place..place + 1) {
                let at = (place - self.first) as usize;
                if let Some(count) = self.counts.get_mut(at) {
                    *count = count.saturating_add(times);
                }
                return;
            }
            self.coarsen(self.exponent + 1);
        }
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.counts.is_empty() {
            return;
        }
        if self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        let mut other = other.clone();
        loop {
            let exponent = self.exponent.max(other.exponent);
            self.coarsen(exponent);
            other.coarsen(exponent);
            if self.make_room(other.first..other.end()) {
                break;
            }
            self.coarsen(exponent + 1);
        }
        let offset = (other.first - self.first) as usize;
        let own = self.counts.iter_mut().skip(offset);
        for (own, count) in own.zip(other.counts) {
            *own = own.saturating_add(count);
        }
    }

    /// As if everything had been added so many times.
    pub fn repeat(&mut self, times: u64) {
        for count in &mut self.counts {
            *count = count.saturating_mul(times);
        }
    }

    fn place(&self, value: f64) -> i64 {
        let scaled = value * self.scale;
        let rest = -self.exponent - TINY;
        let scaled = if rest > 0 {
            scaled * 2f64.powi(rest)
        } else {
            scaled
        };
        match scaled == 0.0 && value < 0.0 {
            // Too small a part of a bin for a float.
            true => -1,
            false => scaled.floor() as i64,
        }
    }

    fn end(&self) -> i64 {
        self.first + self.counts.len() as i64
    }

    /// False: there would be too many.
    fn make_room(&mut self, bins: Range<i64>) -> bool {
        let (first, end) = (self.first.min(bins.start), self.end().max(bins.end));
        if end - first > FINE_MOST {
            return false;
        }
        let before = (self.first - first) as usize;
        if before > 0 {
            self.counts.splice(0..0, std::iter::repeat_n(0, before));
        }
        self.counts.resize((end - first) as usize, 0);
        self.first = first;
        true
    }

    /// Makes bins so wide that are narrower.
    fn coarsen(&mut self, exponent: i32) {
        while self.exponent < exponent {
            let first = self.first.div_euclid(2);
            let mut counts = vec![0u64; self.counts.len() / 2 + 1];
            for (n, count) in self.counts.iter().enumerate() {
                let place = (self.first + n as i64).div_euclid(2) - first;
                if let Some(sum) = counts.get_mut(place as usize) {
                    *sum = sum.saturating_add(*count);
                }
            }
            if counts.last() == Some(&0) {
                counts.pop();
            }
            (self.counts, self.first) = (counts, first);
            self.exponent += 1;
        }
        self.scale = scale(self.exponent);
    }

    /// At most so many bins, of the same width each; `are_whole`: that of a whole number at least.
    pub fn bins(&self, most: usize, are_whole: bool) -> Vec<HistogramBin> {
        let mut coarse = self.clone();
        if are_whole && !coarse.counts.is_empty() {
            coarse.coarsen(0);
        }
        let most = most.max(2);
        // Groups of as many bins as are needed, that begin at multiples of the group.
        let mut group = 1i64;
        let groups = |group: i64| {
            let last = (coarse.end() - 1).div_euclid(group);
            last - coarse.first.div_euclid(group) + 1
        };
        while !coarse.counts.is_empty() && groups(group) > most as i64 {
            group = match leading(group) {
                1 => group * 2,
                2 => group / 2 * 5,
                _ => group * 2,
            };
        }
        let width = power(coarse.exponent) * group as f64;
        let begin = coarse.first.div_euclid(group);
        let mut bins: Vec<HistogramBin> = Vec::new();
        for (n, count) in std::mem::take(&mut coarse.counts).into_iter().enumerate() {
            let place = (coarse.first + n as i64).div_euclid(group);
            let at = (place - begin) as usize;
            while bins.len() <= at {
                let from = (begin + bins.len() as i64) as f64 * width;
                bins.push(HistogramBin {
                    from,
                    to: from + width,
                    count: 0,
                });
            }
            if let Some(bin) = bins.get_mut(at) {
                bin.count = bin.count.saturating_add(count);
            }
        }
        bins
    }

    /// The number below which a part (0 to 1) of all lies; how far it may be from that is the width
    /// of a bin.
    pub fn quantile(&self, part: f64) -> Option<(f64, f64)> {
        let all: u64 = self.counts.iter().sum();
        let rank = ((all.checked_sub(1)? as f64) * part).floor() as u64;
        let mut below = 0u64;
        for (n, count) in self.counts.iter().enumerate() {
            below = below.saturating_add(*count);
            if below > rank {
                let width = power(self.exponent);
                return Some(((self.first + n as i64) as f64 * width, width));
            }
        }
        None
    }
}

/// The first digit of what is 1, 2, 5, 10, 20 ...
fn leading(mut number: i64) -> i64 {
    while number >= 10 {
        number /= 10;
    }
    number
}

fn power(exponent: i32) -> f64 {
    // Below the least normal number `powi` goes by way of infinity.
    match exponent < -TINY {
        true => 2f64.powi(-TINY) * 2f64.powi(exponent + TINY),
        false => 2f64.powi(exponent),
    }
}

/// The narrowest bins in which a number has a number that fits.
fn finest(value: f64) -> i32 {
    let bits = value.to_bits() >> MANTISSA & 0x7ff;
    (bits as i32).max(1) - 1023 - MANTISSA
}

/// For numbers that are tiny all of them, in steps: the factor itself would be infinite.
fn scale(exponent: i32) -> f64 {
    2f64.powi((-exponent).min(TINY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.add(*value));
        histogram
    }

    #[test]
    fn small_integers_have_bins_of_their_own() {
        let histogram = of(&[3.0, 3.0, 5.0, 0.0, 1000.0]);
        let bins = histogram.bins(5000, true);
        let full: Vec<_> = bins.iter().filter(|bin| bin.count > 0).collect();
        assert_eq!(full.len(), 4);
        assert!(bins.iter().all(|bin| bin.to - bin.from == 1.0));
        assert!(
            full.iter()
                .any(|bin| bin.from <= 3.0 && bin.to <= 4.0 && bin.count == 2)
        );
    }

    #[test]
    fn extremes_do_no_harm() {
        let values = [
            f64::MAX,
            f64::MIN,
            5e-324,
            0.0,
            -0.0,
            1.0,
            f64::NAN,
            f64::INFINITY,
        ];
        let histogram = of(&values);
        let count: u64 = histogram.bins(16, false).iter().map(|bin| bin.count).sum();
        assert_eq!(count, 6);
        assert!(of(&[]).bins(8, true).is_empty());
        assert_eq!(of(&[]).quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn order_and_division_do_not_matter(
            mut values in proptest::collection::vec(prop_oneof![
                -1e3..1e3f64, any::<f64>(), (-50i32..50).prop_map(f64::from), 250.0..310.0f64
            ], 0..200),
            split in 0usize..200,
        ) {
            values.retain(|value| value.is_finite());
            let whole = of(&values);
            let (one, other) = values.split_at(split.min(values.len()));
            let mut merged = of(other);
            merged.merge(&of(one));
            prop_assert_eq!(&merged, &whole);
            values.reverse();
            prop_assert_eq!(&of(&values), &whole);
        }

        #[test]
        fn bins_are_exact(
            values in proptest::collection::vec(prop_oneof![-1e6..1e6f64, 270.0..280.0f64], 1..300),
            most in 2usize..40,
        ) {
            let bins = of(&values).bins(most, false);
            prop_assert!(bins.len() <= most);
            for bin in &bins {
                let within = values.iter().filter(|v| (bin.from..bin.to).contains(*v)).count();
                prop_assert_eq!(bin.count, within as u64);
            }
            prop_assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), values.len() as u64);
        }

        #[test]
        fn the_middle_of_integers_is_exact(values in proptest::collection::vec(0u32..4000, 1..99)) {
            let mut histogram = Histogram::default();
            // A bin of 1 whatever the numbers are: 0 and 4095 are there, too.
            let mut sorted = values.clone();
            sorted.extend([0, 4095]);
            sorted.iter().for_each(|v| histogram.add(f64::from(*v)));
            sorted.sort_unstable();
            let (found, width) = histogram.quantile(0.5).unwrap();
            prop_assert_eq!(width, 1.0);
            prop_assert_eq!(found, f64::from(sorted[(sorted.len() - 1) / 2]));
        }
    }
}
