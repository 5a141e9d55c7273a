//! Where the elements of a slice lie in an array's bytes, and how they are read.
//!
//! Elements are picked by a list of indices for each axis, and read in C order of these lists,
//! whatever the order of the array. Only the blocks that have some of them are decoded. Used by the
//! command `show`, and by `info --stats`.

use crate::array::read::CachedArray;
use crate::array::uncached::PlacedRange;
use crate::array::{Info, Order};
use crate::error::{Error, Fault, Result};
use crate::memory::no_memory;

/// Elements that are read at once, at most.
pub const AT_ONCE: usize = 1 << 20;

/// Bytes that are read at once, at most.
const BYTES_AT_ONCE: usize = 32 << 20;

/// How the elements of an array follow each other.
#[derive(Debug, Clone)]
pub struct ElementLayout {
    /// Elements from one index of an axis to the next.
    strides: Vec<u64>,
    shape: Vec<u64>,
    /// Bytes of an element.
    size: u64,
    /// Of the array.
    bytes: u64,
}

/// The bytes of elements that were picked, each of `size` bytes: those that it begins with, if its
/// elements are long.
#[derive(Debug)]
pub struct PickedElements {
    /// One after another.
    pub bytes: Vec<u8>,
    /// Of each.
    pub size: usize,
}

impl PickedElements {
    /// The n-th of them.
    pub fn get(&self, n: usize) -> &[u8] {
        let start = n.saturating_mul(self.size);
        let end = start.saturating_add(self.size);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// What can hand out ranges of an array's bytes.
pub trait RangeSource {
    /// Copies ranges to their places in `out`.
    fn read_ranges(&self, ranges: &[PlacedRange], out: &mut [u8]) -> Result<()>;
}

impl RangeSource for CachedArray {
    fn read_ranges(&self, ranges: &[PlacedRange], out: &mut [u8]) -> Result<()> {
        CachedArray::read_ranges(self, ranges, out)
    }
}

impl ElementLayout {
    /// None for text, whose elements have no fixed size.
    pub fn of(info: &Info) -> Option<ElementLayout> {
        let size = info.dtype.itemsize().filter(|size| *size > 0)?;
        let mut strides = vec![0u64; info.shape.len()];
        let mut stride = 1u64;
        let mut add = |axis: usize| {
            if let (Some(place), Some(&len)) = (strides.get_mut(axis), info.shape.get(axis)) {
                *place = stride;
                // Where it does not fit there are no elements: an array is no longer than 2^64.
                stride = stride.saturating_mul(len);
            }
        };
        match info.order {
            Order::C => (0..info.shape.len()).rev().for_each(&mut add),
            Order::Fortran => (0..info.shape.len()).for_each(&mut add),
        }
        Some(ElementLayout {
            strides,
            shape: info.shape.clone(),
            size,
            bytes: info.bytes,
        })
    }

    /// How many elements are read whole at once: of more, only the first bytes are.
    pub fn most_whole(&self) -> u64 {
        (BYTES_AT_ONCE as u64 / self.size.max(1)).clamp(1, AT_ONCE as u64)
    }

    /// The elements at all combinations of indices, of which there are at most [`AT_ONCE`].
    pub fn read(&self, source: &dyn RangeSource, indices: &[Vec<u64>]) -> Result<PickedElements> {
        let count = indices
            .iter()
            .try_fold(1usize, |count, list| count.checked_mul(list.len()))
            .filter(|count| *count <= AT_ONCE)
            .ok_or_else(|| Error::Bug("more elements are picked than are read at once".into()))?;
        let most = (BYTES_AT_ONCE / count.max(1)).max(1) as u64;
        let size = self.size.min(most) as usize;
        let mut ranges = Vec::new();
        if count > 0 {
            self.add_ranges(indices, 0, 0, size, &mut ranges)?;
        }
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(count * size);
        reserved.map_err(|_| no_memory("cannot hold the elements that are shown"))?;
        bytes.resize(count * size, 0);
        source.read_ranges(&ranges, &mut bytes)?;
        Ok(PickedElements { bytes, size })
    }

    /// The elements at all combinations of indices in the order in which the array has them, which
    /// takes fewer ranges where that is not C order.
    pub fn read_as_stored(
        &self,
        source: &dyn RangeSource,
        indices: &[Vec<u64>],
    ) -> Result<PickedElements> {
        if self.strides.first() >= self.strides.last() {
            return self.read(source, indices);
        }
        let turned = ElementLayout {
            strides: self.strides.iter().rev().copied().collect(),
            shape: self.shape.iter().rev().copied().collect(),
            ..*self
        };
        let indices: Vec<Vec<u64>> = indices.iter().rev().cloned().collect();
        turned.read(source, &indices)
    }

    /// Ranges of those whose first indices have led to element `at`.
    fn add_ranges(
        &self,
        indices: &[Vec<u64>],
        axis: usize,
        at: u64,
        size: usize,
        to: &mut Vec<PlacedRange>,
    ) -> Result<()> {
        let Some(list) = indices.get(axis) else {
            return self.add_element(at, size as u64, to);
        };
        let stride = self.strides.get(axis).copied().unwrap_or(0);
        let len = self.shape.get(axis).copied().unwrap_or(0);
        for &index in list.iter() {
            let moved = index.checked_mul(stride).and_then(|n| at.checked_add(n));
            let at = moved.filter(|_| index < len).ok_or_else(outside)?;
            self.add_ranges(indices, axis + 1, at, size, to)?;
        }
        Ok(())
    }

    fn add_element(&self, at: u64, size: u64, to: &mut Vec<PlacedRange>) -> Result<()> {
        let start = at.checked_mul(self.size).ok_or_else(outside)?;
        let end = start.checked_add(size).ok_or_else(outside)?;
        if end > self.bytes {
            return Err(outside());
        }
        if let Some(last) = to.last_mut() {
            if last.from.end == start {
                last.from.end = end;
                return Ok(());
            }
            let placed = last.to + (last.from.end - last.from.start) as usize;
            to.push(PlacedRange {
                from: start..end,
                to: placed,
            });
            return Ok(());
        }
        to.push(PlacedRange {
            from: start..end,
            to: 0,
        });
        Ok(())
    }
}

fn outside() -> Error {
    Fault::new("an element lies outside of the array").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::dtype::Dtype;
    use proptest::prelude::*;

    /// An array whose bytes are known.
    struct Plain(Vec<u8>);

    impl RangeSource for Plain {
        fn read_ranges(&self, ranges: &[PlacedRange], out: &mut [u8]) -> Result<()> {
            for PlacedRange { from, to } in ranges {
                let bytes = &self.0[from.start as usize..from.end as usize];
                out[*to..*to + bytes.len()].copy_from_slice(bytes);
            }
            Ok(())
        }
    }

    fn layout(shape: Vec<u64>, order: Order) -> ElementLayout {
        ElementLayout::of(&Info {
            dtype: Dtype::U32,
            bytes: 4 * shape.iter().product::<u64>(),
            shape,
            order,
            stored_bytes: 0,
            blocks: 0,
            codec: "none".into(),
        })
        .unwrap()
    }

    #[test]
    fn indices_beyond_the_array_are_faults() {
        let source = Plain(vec![0; 24]);
        let read = |indices: &[Vec<u64>]| layout(vec![2, 3], Order::C).read(&source, indices);
        assert!(read(&[vec![1], vec![2]]).is_ok());
        assert!(read(&[vec![1], vec![3]]).is_err());
        assert!(read(&[vec![u64::MAX], vec![0]]).is_err());
    }

    proptest! {
        #[test]
        fn elements_are_read_in_the_order_of_the_lists(
            shape in proptest::collection::vec(1u64..5, 0..4),
            seeds in proptest::collection::vec(proptest::collection::vec(any::<u64>(), 0..4), 4),
            fortran in any::<bool>(),
        ) {
            let count: u64 = shape.iter().product();
            let order = if fortran { Order::Fortran } else { Order::C };
            let source = Plain((0..count as u32).flat_map(u32::to_le_bytes).collect());
            let indices: Vec<Vec<u64>> = shape
                .iter()
                .zip(&seeds)
                .map(|(len, seeds)| seeds.iter().map(|seed| seed % len).collect())
                .collect();
            let mut expected: Vec<u32> = vec![0];
            let mut stride_c = count;
            let mut stride_f = 1;
            for (len, list) in shape.iter().zip(&indices) {
                stride_c /= len;
                let stride = if fortran { stride_f } else { stride_c };
                let next = |at: &u32| list.iter().map(|i| at + (i * stride) as u32).collect::<Vec<_>>();
                expected = expected.iter().flat_map(next).collect();
                stride_f *= len;
            }
            let elements = layout(shape, order);
            let picked = elements.read(&source, &indices).unwrap();
            let found: Vec<u32> = picked.bytes.chunks(4)
                .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            prop_assert_eq!(&found, &expected);
            let mut stored = elements.read_as_stored(&source, &indices).unwrap().bytes;
            let mut all = picked.bytes;
            let sort = |bytes: &mut Vec<u8>| {
                let mut each: Vec<[u8; 4]> =
                    bytes.chunks(4).map(|e| [e[0], e[1], e[2], e[3]]).collect();
                each.sort_unstable();
                *bytes = each.concat();
            };
            sort(&mut stored);
            sort(&mut all);
            prop_assert_eq!(stored, all);
        }
    }
}
