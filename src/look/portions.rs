//! An array cut into portions that are read one by one, so that every block is decoded about once:
//! parts of the grid of its chunks, or else ranges of its elements.
//!
//! There may be very many portions: none is made before it is asked for. Used by `info --stats`.

use super::layout::AT_ONCE;
use crate::array::{Info, Order};

/// Decoded bytes of a portion, about.
const BYTES: u64 = 4 << 20;

/// The portions of an array: parts of boxes, which are chunks or several of them.
#[derive(Debug, Clone)]
pub struct ArrayPortions {
    shape: Vec<u64>,
    /// Indices of a box along each axis.
    boxes: Vec<u64>,
    /// Indices of a portion of it.
    sides: Vec<u64>,
}

impl ArrayPortions {
    /// `chunks`: as the container tells them; may be shorter than the shape, or empty.
    pub fn of(info: &Info, chunks: &[u64]) -> ArrayPortions {
        let size = info.dtype.itemsize().unwrap_or(1).max(1);
        let most = (BYTES / size).clamp(1, AT_ONCE as u64);
        ArrayPortions::with(info, chunks, most)
    }

    /// With at most so many elements in each.
    fn with(info: &Info, chunks: &[u64], most: u64) -> ArrayPortions {
        let axes = info.shape.iter().enumerate();
        let boxes = axes.map(|(axis, len)| match chunks.get(axis) {
            Some(chunk) => (*chunk).clamp(1, (*len).max(1)),
            // Dimensions within an element, or an array without a grid.
            None if !chunks.is_empty() => (*len).max(1),
            None => 1,
        });
        let mut boxes: Vec<u64> = boxes.collect();
        grow(&mut boxes, &info.shape, most, info.order);
        let mut sides = boxes.clone();
        shrink(&mut sides, most);
        ArrayPortions {
            shape: info.shape.clone(),
            boxes,
            sides,
        }
    }

    /// Boxes along an axis, and portions of each.
    fn along(&self, axis: usize) -> (u64, u64) {
        let at = |list: &[u64]| list.get(axis).copied().unwrap_or(1);
        let boxes = at(&self.shape).div_ceil(at(&self.boxes).max(1));
        (boxes, at(&self.boxes).div_ceil(at(&self.sides).max(1)))
    }

    /// How many there are. Of boxes that stick out of the array some are empty.
    pub fn count(&self) -> u64 {
        let axes = 0..self.shape.len();
        axes.fold(1, |all, axis| {
            let (boxes, portions) = self.along(axis);
            all.saturating_mul(boxes).saturating_mul(portions)
        })
    }

    /// The indices of the n-th of them along each axis. The portions of a box follow each other.
    pub fn get(&self, mut n: u64) -> Vec<Vec<u64>> {
        let axes = self.shape.len();
        let mut within = vec![0; axes];
        for (axis, within) in within.iter_mut().enumerate().rev() {
            let (_, portions) = self.along(axis);
            let side = self.sides.get(axis).copied().unwrap_or(1);
            *within = (n % portions.max(1)).saturating_mul(side);
            n /= portions.max(1);
        }
        let mut lists = vec![Vec::new(); axes];
        for (axis, list) in lists.iter_mut().enumerate().rev() {
            let (boxes, _) = self.along(axis);
            let at = |list: &[u64]| list.get(axis).copied().unwrap_or(0);
            let begin = (n % boxes.max(1)).saturating_mul(at(&self.boxes));
            let end = begin.saturating_add(at(&self.boxes)).min(at(&self.shape));
            let from = begin.saturating_add(at(&within));
            *list = (from..from.saturating_add(at(&self.sides)).min(end)).collect();
            n /= boxes.max(1);
        }
        lists
    }
}

fn elements(sides: &[u64]) -> u64 {
    sides.iter().fold(1, |all, side| all.saturating_mul(*side))
}

/// Divides what is too large along its first axes.
fn shrink(sides: &mut [u64], most: u64) {
    for axis in 0..sides.len() {
        let all = elements(sides);
        let Some(side) = sides.get_mut(axis).filter(|_| all > most) else {
            return;
        };
        let each = (all / *side).max(1);
        *side = (most / each).clamp(1, *side);
    }
}

/// Has several small boxes be one: those that follow each other.
fn grow(sides: &mut [u64], shape: &[u64], most: u64, order: Order) {
    let axes: Vec<usize> = match order {
        Order::C => (0..sides.len()).rev().collect(),
        Order::Fortran => (0..sides.len()).collect(),
    };
    for axis in axes {
        let room = most / elements(sides).max(1);
        let len = shape.get(axis).copied().unwrap_or(1).max(1);
        let Some(side) = sides.get_mut(axis) else {
            return;
        };
        *side = side.saturating_mul(room.max(1)).min(len);
        if *side < len {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::dtype::Dtype;
    use proptest::prelude::*;

    fn info(shape: Vec<u64>, order: Order) -> Info {
        Info {
            dtype: Dtype::F64,
            bytes: 8 * shape.iter().product::<u64>(),
            shape,
            order,
            stored_bytes: 0,
            blocks: 1,
            codec: "zlib".into(),
        }
    }

    #[test]
    fn portions_keep_to_the_grid_of_chunks() {
        let array = info(vec![100_000, 5_000], Order::C);
        let told = |chunks: &[u64]| {
            let portions = ArrayPortions::of(&array, chunks);
            (portions.boxes, portions.sides)
        };
        let same = |sides: [u64; 2]| (sides.to_vec(), sides.to_vec());
        assert_eq!(told(&[1000, 500]), same([1000, 500]));
        assert_eq!(told(&[100, 500]), same([100, 5000]));
        assert_eq!(told(&[]), same([104, 5000]));
        assert_eq!(
            told(&[100_000, 5_000]),
            (vec![100_000, 5_000], vec![104, 5_000])
        );
    }

    #[test]
    fn portions_of_a_large_chunk_follow_each_other() {
        let portions = ArrayPortions::with(&info(vec![4, 4], Order::C), &[4, 2], 4);
        let first: Vec<_> = (0..4).map(|n| portions.get(n)).collect();
        let list = |rows: [u64; 2], columns: [u64; 2]| vec![rows.to_vec(), columns.to_vec()];
        let expected = [
            list([0, 1], [0, 1]),
            list([2, 3], [0, 1]),
            list([0, 1], [2, 3]),
            list([2, 3], [2, 3]),
        ];
        assert_eq!(first, expected);
    }

    proptest! {
        #[test]
        fn every_element_is_in_one_portion(
            shape in proptest::collection::vec(0u64..9, 0..4),
            chunks in proptest::collection::vec(1u64..5, 0..4),
            fortran in any::<bool>(),
            most in 1u64..40,
        ) {
            let order = if fortran { Order::Fortran } else { Order::C };
            let portions = ArrayPortions::with(&info(shape.clone(), order), &chunks, most);
            let mut elements = 0;
            let mut corners = std::collections::BTreeSet::new();
            for n in 0..portions.count() {
                let lists = portions.get(n);
                let count = lists.iter().map(|list| list.len() as u64).product::<u64>();
                prop_assert!(count <= most);
                elements += count;
                if count > 0 {
                    let corner = lists.iter().map(|list| list[0]).collect::<Vec<_>>();
                    prop_assert!(corners.insert(corner));
                }
            }
            prop_assert_eq!(elements, shape.iter().product::<u64>());
        }
    }
}
