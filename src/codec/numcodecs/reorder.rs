//! Dimensions put back into their order, and numbers into little-endian.

/// A chunk whose dimensions are stored in another order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reorder {
    /// As shown: elements along each dimension, and bytes from one to the next where they are
    /// stored.
    dims: Vec<(usize, usize)>,
    size: usize,
}

impl Reorder {
    /// `shape`: of the shown chunk; `order`: which of its dimensions each stored one is; `size`:
    /// bytes of an element. None if `order` is no order of them, or nothing is reordered.
    pub fn new(shape: &[usize], order: &[usize], size: usize) -> Option<Reorder> {
        let mut dims: Vec<(usize, usize)> = shape.iter().map(|&len| (len, 0)).collect();
        let mut step = size;
        for &dim in order.iter().rev() {
            let (len, place) = dims.get_mut(dim)?;
            if *place != 0 {
                return None;
            }
            *place = step.max(1);
            step = step.checked_mul((*len).max(1))?;
        }
        let is_order = order.len() == shape.len() && dims.iter().all(|(_, step)| *step > 0);
        let is_same = order.iter().enumerate().all(|(at, dim)| at == *dim);
        (is_order && !is_same).then_some(Reorder { dims, size })
    }

    /// From the stored order to the shown one; both have the bytes of the chunk.
    pub(super) fn undo(&self, stored: &[u8], out: &mut [u8]) {
        let Some((&(row, step), outer)) = self.dims.split_last() else {
            return out.copy_from_slice(stored);
        };
        let mut at = vec![0; outer.len()];
        let size = self.size.max(1);
        for out in out.chunks_exact_mut((row * size).max(1)) {
            let places = at.iter().zip(outer);
            let start: usize = places.map(|(at, (_, step))| at * step).sum();
            let from = stored.get(start..).unwrap_or_default();
            copy_apart(from, step, size, out);
            for (at, (len, _)) in at.iter_mut().zip(outer).rev() {
                *at += 1;
                if *at < *len {
                    break;
                }
                *at = 0;
            }
        }
    }
}

/// Elements that lie `step` bytes apart, behind each other.
fn copy_apart(from: &[u8], step: usize, size: usize, out: &mut [u8]) {
    macro_rules! each {
        ($size:literal) => {
            for (out, from) in out
                .as_chunks_mut::<$size>()
                .0
                .iter_mut()
                .zip(from.chunks(step))
            {
                if let Some(element) = from.first_chunk() {
                    *out = *element;
                }
            }
        };
    }
    match size {
        1 => each!(1),
        2 => each!(2),
        4 => each!(4),
        8 => each!(8),
        _ => {
            for (out, from) in out.chunks_exact_mut(size).zip(from.chunks(step)) {
                if let Some(element) = from.get(..size) {
                    out.copy_from_slice(element);
                }
            }
        }
    }
}

/// Elements of which numbers are stored big-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteTurn {
    /// Bytes of each part of an element, and whether they are turned around.
    parts: Vec<(usize, bool)>,
    size: usize,
}

impl ByteTurn {
    /// `parts`: the numbers that an element is made of, one behind the other. None if none of them
    /// is turned around.
    pub fn new(parts: impl IntoIterator<Item = (usize, bool)>) -> Option<ByteTurn> {
        let mut joined: Vec<(usize, bool)> = Vec::new();
        for (len, is_big) in parts {
            match joined.last_mut() {
                Some((last, false)) if !is_big || len <= 1 => *last += len,
                _ => joined.push((len, is_big && len > 1)),
            }
        }
        let size = joined.iter().map(|(len, _)| len).sum();
        joined
            .iter()
            .any(|(_, is_big)| *is_big)
            .then_some(ByteTurn {
                parts: joined,
                size,
            })
    }

    /// Turns whole elements around.
    pub fn apply(&self, bytes: &mut [u8]) {
        let first = self.parts.first().copied().unwrap_or_default();
        if self.parts.iter().all(|part| *part == first) {
            return turn_all(bytes, first.0);
        }
        for element in bytes.chunks_exact_mut(self.size.max(1)) {
            let mut rest = element;
            for (len, is_big) in &self.parts {
                let (part, others) = rest.split_at_mut((*len).min(rest.len()));
                if *is_big {
                    part.reverse();
                }
                rest = others;
            }
        }
    }
}

/// In a form of which the compiler makes vector code.
fn turn_all(bytes: &mut [u8], size: usize) {
    macro_rules! each {
        ($size:literal) => {
            bytes
                .as_chunks_mut::<$size>()
                .0
                .iter_mut()
                .for_each(|number| number.reverse())
        };
    }
    match size {
        2 => each!(2),
        4 => each!(4),
        8 => each!(8),
        size => bytes
            .chunks_exact_mut(size.max(1))
            .for_each(<[u8]>::reverse),
    }
}
