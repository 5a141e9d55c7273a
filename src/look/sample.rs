//! Which elements of a slice make a picture: all of them, or every n-th, so that neither their
//! number nor what is decoded for them grows with the array.
//!
//! Used by the command `show`.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::element::ElementType;
use super::layout::{AT_ONCE, ElementLayout};
use super::physical::PhysicalScale;
use super::slice::AxisSlice;
use super::value::{ElementNumber, complex, number};
use crate::array::Info;
use crate::array::read::CachedArray;
use crate::error::Result;
use crate::processors::processors;
use crate::sync::Mutex;

/// Decoded bytes that a picture takes, at most, about.
const DECODED_MOST: u64 = 4 << 30;

/// Fewer elements than this are no picture.
const SAMPLES_LEAST: u64 = 1024;

/// What is read at once of an array that is not compressed.
const PAGE: u64 = 4 << 10;

/// Elements that a thread reads at a time.
const BATCH: usize = AT_ONCE / 16;

/// A value of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampledValue {
    /// May be infinite.
    Number(f64),
    NotANumber,
    /// It stands for none.
    Fill,
}

/// What it takes to read elements of an array.
#[derive(Debug, Clone)]
pub struct DecodeCost {
    /// Decoded bytes of a block.
    block: u64,
    blocks: u64,
    /// Its indices along each axis, if blocks are parts of a grid.
    chunks: Vec<u64>,
}

impl DecodeCost {
    /// `chunks`: as the container tells them; may be shorter than the shape, or empty.
    pub fn of(info: &Info, chunks: &[u64]) -> DecodeCost {
        let is_plain = info.codec == "none" && chunks.is_empty();
        let blocks = if is_plain {
            info.bytes / PAGE
        } else {
            info.blocks
        };
        let blocks = blocks.max(1);
        DecodeCost {
            block: (info.bytes / blocks).max(1),
            blocks,
            chunks: chunks.iter().map(|chunk| (*chunk).max(1)).collect(),
        }
    }

    /// About how many bytes are decoded for every n-th element of each axis.
    fn of_sample(&self, slices: &[AxisSlice], steps: &[u64]) -> u64 {
        let mut touched = 1u64;
        for (axis, (slice, step)) in slices.iter().zip(steps).enumerate() {
            let picked = slice.count.div_ceil((*step).max(1));
            let along = match self.chunks.get(axis) {
                Some(chunk) => {
                    let span = slice.count.saturating_mul(slice.step.unsigned_abs());
                    picked.min(span / chunk + 1)
                }
                None if self.chunks.is_empty() => picked,
                None => 1,
            };
            touched = touched.saturating_mul(along);
        }
        touched.min(self.blocks).saturating_mul(self.block)
    }
}

/// Every how many-th index of each axis is taken for at most so many (`targets`) of each.
pub fn thinned(slices: &[AxisSlice], targets: &[u64], cost: &DecodeCost) -> Vec<u64> {
    let counts = slices.iter().zip(targets);
    let mut steps: Vec<u64> = counts
        .map(|(slice, target)| slice.count.div_ceil((*target).max(1)).max(1))
        .collect();
    let picked = |steps: &[u64], axis: usize| match (slices.get(axis), steps.get(axis)) {
        (Some(slice), Some(step)) => slice.count.div_ceil(*step),
        _ => 0,
    };
    let all = |steps: &[u64]| {
        let axes = 0..slices.len();
        axes.fold(1u64, |all, axis| all.saturating_mul(picked(steps, axis)))
    };
    while cost.of_sample(slices, &steps) > DECODED_MOST && all(&steps) > SAMPLES_LEAST {
        let longest = (0..slices.len()).max_by_key(|axis| picked(&steps, *axis));
        match longest.and_then(|axis| steps.get_mut(axis)) {
            Some(step) => *step = step.saturating_mul(2),
            None => break,
        }
    }
    steps
}

/// Every how many-th index of each axis is taken for at most `most` elements: for counts, to which
/// all axes are the same.
pub fn scattered(slices: &[AxisSlice], most: u64, cost: &DecodeCost) -> Vec<u64> {
    let mut targets: Vec<u64> = slices.iter().map(|slice| slice.count.max(1)).collect();
    let all = |targets: &[u64]| targets.iter().fold(1u64, |n, t| n.saturating_mul(*t));
    while all(&targets) > most {
        let longest = (0..targets.len()).max_by_key(|axis| targets.get(*axis).copied());
        match longest.and_then(|axis| targets.get_mut(axis)) {
            Some(target) => *target = target.div_ceil(2),
            None => break,
        }
    }
    thinned(slices, &targets, cost)
}

/// The indices in the array of every n-th of each axis.
pub fn indices(slices: &[AxisSlice], steps: &[u64]) -> Vec<Vec<u64>> {
    let each = slices.iter().zip(steps).map(|(slice, step)| {
        let numbers =
            (0..slice.count).step_by(usize::try_from((*step).max(1)).unwrap_or(usize::MAX));
        numbers.map(|n| slice.index(n)).collect()
    });
    each.collect()
}

/// What makes values of the elements of an array.
pub struct SampleReader<'a> {
    pub array: &'a CachedArray,
    pub layout: &'a ElementLayout,
    pub element: &'a ElementType,
    pub scale: &'a PhysicalScale,
    /// The scale is applied, not only what it says of missing values.
    pub is_physical: bool,
}

impl SampleReader<'_> {
    /// The values at all combinations of indices, read by several threads.
    pub fn read(&self, indices: &[Vec<u64>]) -> Result<Vec<SampledValue>> {
        let parts = batches(indices);
        let (next, threads) = (AtomicUsize::new(0), processors());
        let done: Mutex<Vec<Option<Result<Vec<SampledValue>>>>> =
            Mutex::new(parts.iter().map(|_| None).collect());
        let work = || {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let read = self.read_part(&part.1);
                let failed = read.is_err();
                let mut done = done.lock();
                if let Some(place) = done.get_mut(part.0) {
                    *place = Some(read);
                }
                if failed {
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(parts.len()) {
                // Where there is no thread to be had, this one does it all.
                let builder = std::thread::Builder::new();
                let _ = builder.spawn_scoped(scope, work);
            }
            work();
        });
        let done = done.into_inner();
        let mut values = Vec::new();
        // Only parts behind a fault were left out.
        for part in done.into_iter().flatten() {
            values.extend(part?);
        }
        Ok(values)
    }

    fn read_part(&self, indices: &[Vec<u64>]) -> Result<Vec<SampledValue>> {
        let picked = self.layout.read(self.array, indices)?;
        let count = picked.bytes.len() / picked.size.max(1);
        Ok((0..count).map(|n| self.value(picked.get(n))).collect())
    }

    fn value(&self, bytes: &[u8]) -> SampledValue {
        let magnitude =
            || complex(self.element, bytes).map(|(a, b)| ElementNumber::Float(a.hypot(b)));
        let Some(value) = number(self.element, bytes).or_else(magnitude) else {
            return SampledValue::NotANumber;
        };
        if self.scale.is_missing(value) {
            return SampledValue::Fill;
        }
        let float = match self.is_physical {
            true => self.scale.apply(value),
            false => value.as_f64(),
        };
        match float.is_nan() {
            true => SampledValue::NotANumber,
            false => SampledValue::Number(float),
        }
    }
}

/// Parts of the combinations, in their order, small enough to be read at once.
fn batches(indices: &[Vec<u64>]) -> Vec<(usize, Vec<Vec<u64>>)> {
    let mut parts = vec![indices.to_vec()];
    for axis in 0..indices.len() {
        let size = |part: &[Vec<u64>]| part.iter().fold(1usize, |n, l| n.saturating_mul(l.len()));
        if parts.first().is_none_or(|part| size(part) <= BATCH) {
            break;
        }
        let divided = parts.into_iter().flat_map(|part| {
            let own = part.get(axis).map_or(1, Vec::len).max(1);
            let each = (size(&part) / own).max(1);
            let step = (BATCH / each).clamp(1, own);
            let list = part.get(axis).cloned().unwrap_or_default();
            let divided = list.chunks(step).map(|some| {
                let mut one = part.clone();
                if let Some(place) = one.get_mut(axis) {
                    *place = some.to_vec();
                }
                one
            });
            divided.collect::<Vec<_>>()
        });
        parts = divided.collect();
    }
    parts.into_iter().enumerate().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn combinations(indices: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        for list in indices {
            let longer = all.iter().flat_map(|before: &Vec<u64>| {
                list.iter().map(|index| [&before[..], &[*index]].concat())
            });
            all = longer.collect();
        }
        all
    }

    #[test]
    fn the_largest_array_is_thinned_to_what_can_be_decoded() {
        let slices = [AxisSlice::whole(1 << 30), AxisSlice::whole(1 << 30)];
        let cost = DecodeCost {
            block: 64 << 20,
            blocks: 1 << 40,
            chunks: vec![4096, 4096],
        };
        let steps = thinned(&slices, &[600, 800], &cost);
        assert!(cost.of_sample(&slices, &steps) <= DECODED_MOST || steps[0] >= 1 << 24);
        // One that is small is read whole.
        let slices = [AxisSlice::whole(10), AxisSlice::whole(20)];
        assert_eq!(thinned(&slices, &[600, 800], &cost), [1, 1]);
        assert_eq!(thinned(&[], &[], &cost), [0u64; 0]);
    }

    #[test]
    fn counts_take_at_most_so_many() {
        let slices = [AxisSlice::whole(1 << 20), AxisSlice::whole(1 << 20)];
        let cost = DecodeCost {
            block: 1,
            blocks: 1 << 40,
            chunks: vec![],
        };
        let steps = scattered(&slices, 1 << 20, &cost);
        let picked: Vec<usize> = indices(&slices, &steps).iter().map(Vec::len).collect();
        assert!(picked[0] * picked[1] <= 1 << 20, "{picked:?}");
    }

    proptest! {
        #[test]
        fn batches_are_all_combinations_in_their_order(
            lens in proptest::collection::vec(0usize..60, 0..4),
        ) {
            let lists: Vec<Vec<u64>> = lens.iter().map(|len| (0..*len as u64).collect()).collect();
            let parts = batches(&lists);
            let found: Vec<Vec<u64>> = parts.iter().flat_map(|(_, part)| combinations(part)).collect();
            prop_assert!(parts.iter().all(|(_, part)| combinations(part).len() <= BATCH));
            prop_assert_eq!(found, combinations(&lists));
        }
    }
}
