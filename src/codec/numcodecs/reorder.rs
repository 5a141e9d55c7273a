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
    runs: Vec<NumberRun>,
    size: usize,
}

/// Numbers of an element that lie one behind the other, all of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberRun {
    /// Bytes of each.
    pub len: usize,
    pub is_big: bool,
    pub count: usize,
}

impl NumberRun {
    fn bytes(&self) -> usize {
        self.len.saturating_mul(self.count)
    }
}

impl ByteTurn {
    /// `runs`: the numbers of an element, one behind the other. None if none is turned around.
    pub fn new(runs: impl IntoIterator<Item = NumberRun>) -> Option<ByteTurn> {
        let mut joined: Vec<NumberRun> = Vec::new();
        for run in runs {
            let is_big = run.is_big && run.len > 1;
            match joined.last_mut() {
                Some(last) if !last.is_big && !is_big => {
                    last.len = last.len.saturating_add(run.bytes());
                }
                Some(last) if is_big && last.is_big && last.len == run.len => {
                    last.count = last.count.saturating_add(run.count);
                }
                _ if is_big => joined.push(run),
                _ => joined.push(NumberRun {
                    len: run.bytes(),
                    is_big,
                    count: 1,
                }),
            }
        }
        let size = joined.iter().map(NumberRun::bytes);
        let size = size.fold(0, usize::saturating_add);
        let any = joined.iter().any(|run| run.is_big);
        any.then_some(ByteTurn { runs: joined, size })
    }

    /// Turns whole elements around.
    pub fn apply(&self, bytes: &mut [u8]) {
        if let [run] = self.runs[..] {
            return turn_all(bytes, run.len);
        }
        for element in bytes.chunks_exact_mut(self.size.max(1)) {
            let mut rest = element;
            for run in &self.runs {
                let (part, others) = rest.split_at_mut(run.bytes().min(rest.len()));
                if run.is_big {
                    turn_all(part, run.len);
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
