//! One pass over the arrays of a sparse level: bounds, order and triangle of its entries.
//!
//! Index tuples are below the extents, and within a slice strictly increasing, compared
//! lexicographically (specification, section 3.5.2.3). A run of entries that is increasing needs
//! only its ends compared with the bounds; only a run that breaks a rule is looked at entry by
//! entry. Once the pointers are broken, slices are guesses: order and triangle are no longer
//! judged, bounds still are. Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::few::Few;
use super::slices::Slices;
use crate::array::sequential::{Sequential, SequentialReaders};
use crate::container::TellFault;
use crate::container::binsparse::lengths::{IntegerArray, SparseLevel};
use crate::container::binsparse::triangle::Triangle;
use crate::error::{Fault, Result};
use crate::memory::budget::Budget;
use crate::memory::fallible;

/// Indices read at a time, over all dimensions, and least of one. Tests have slices that go on from
/// one reading to the next.
const STEP: usize = if cfg!(test) { 4 } else { 64 << 10 };
const LEAST: usize = if cfg!(test) { 2 } else { 1 << 10 };

/// The triangle of a matrix that its entries must lie in, and where their outer index is from.
pub(crate) struct TriangleRule {
    pub(crate) triangle: Triangle,
    pub(crate) outer: OuterIndex,
}

/// The outer index of an entry of a matrix; the inner one is always this level's last.
pub(crate) enum OuterIndex {
    /// The level's own first dimension.
    Within,
    /// The number of the slice.
    Position,
    /// The element of this array at the number of the slice.
    Array(IntegerArray),
}

/// The indices of one dimension.
struct DimensionIndices<'a> {
    name: &'a str,
    reader: Sequential,
    signed: bool,
    extent: u64,
    /// Indices from this on are too large, or negative.
    bound: u64,
    buffer: Vec<u64>,
    /// The last one of the buffer before.
    before: u64,
    outside: Few,
}

pub(super) struct Pass<'a> {
    level: &'a SparseLevel,
    dimensions: Vec<DimensionIndices<'a>>,
    pointers: Option<Slices>,
    /// OuterIndex indices, if they are in an array.
    outers: Option<Sequential>,
    length: u64,
    slice: Slice,
    unsorted: Few,
    repeated: Few,
    misplaced: Few,
}

/// The slice that entries are in.
#[derive(Default)]
struct Slice {
    /// Number of the slice, and its outer index where one is known.
    number: u64,
    outer: u64,
    end: u64,
    /// No entry of it was seen yet.
    fresh: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        level: &'a SparseLevel,
        budget: &Arc<Budget>,
        report: TellFault<'_>,
    ) -> Result<Self> {
        let length = level.indices.first().map_or(0, |first| first.len);
        let readers = SequentialReaders::new(budget);
        let dimension = |(stored, &extent): (&'a IntegerArray, &u64)| {
            DimensionIndices::new(stored, extent, &readers)
        };
        let pairs = level.indices.iter().zip(&level.extents);
        let pointers = level.pointers.as_ref();
        let outers = match &level.side {
            Some(TriangleRule {
                outer: OuterIndex::Array(stored),
                ..
            }) => Some(Sequential::new(stored.array.clone(), &readers)?),
            _ => None,
        };
        let mut pass = Pass {
            level,
            dimensions: pairs.map(dimension).collect::<Result<_>>()?,
            pointers: pointers
                .map(|stored| Slices::new(stored, level.no_empty_slices, length, &readers, report))
                .transpose()?,
            outers,
            length,
            slice: Slice::default(),
            unsorted: Few::default(),
            repeated: Few::default(),
            misplaced: Few::default(),
        };
        // What lies before the first pointer is no slice; the root is one.
        let end = pass.pointers.as_ref().map_or(length, Slices::at);
        pass.slice = Slice {
            end,
            fresh: true,
            ..Slice::default()
        };
        Ok(pass)
    }

    pub(super) fn run(mut self, report: TellFault<'_>) -> Result<()> {
        let step = (STEP / self.dimensions.len().max(1)).max(LEAST);
        let mut start = 0;
        let mut next_slice = 0;
        while start < self.length {
            let n = self.read(step)?;
            if n == 0 {
                break;
            }
            let mut at = 0;
            while at < n {
                let left = usize::try_from(self.slice.end - start).unwrap_or(usize::MAX);
                let stop = left.min(n);
                if at < stop {
                    self.entries(start, at..stop, report);
                    at = stop;
                } else {
                    self.advance(&mut next_slice, report)?;
                }
            }
            for dimension in &mut self.dimensions {
                dimension.before = dimension.buffer[n - 1];
            }
            start += n as u64;
        }
        if let Some(pointers) = &mut self.pointers {
            while pointers.advance(report)?.is_some() {}
        }
        self.finish(report);
        Ok(())
    }

    /// Reads the next entries of every dimension; their number.
    fn read(&mut self, step: usize) -> Result<usize> {
        let mut n = step;
        for dimension in &mut self.dimensions {
            fallible::lengthen(&mut dimension.buffer, step, "cannot check indices")?;
            n = n.min(dimension.reader.read(&mut dimension.buffer)?);
        }
        Ok(n)
    }

    /// Goes to the next slice; behind the last one lies what belongs to none.
    fn advance(&mut self, next: &mut u64, report: TellFault<'_>) -> Result<()> {
        let end = match &mut self.pointers {
            Some(pointers) => pointers.advance(report)?,
            None => None,
        };
        let mut outer = [*next];
        if let Some(outers) = &mut self.outers {
            outers.read(&mut outer)?;
        }
        self.slice = Slice {
            number: *next,
            outer: outer[0],
            end: end.unwrap_or(self.length),
            fresh: true,
        };
        *next += 1;
        Ok(())
    }

    /// Checks entries of one slice: `range` of the buffers, which begin at entry `start`.
    fn entries(&mut self, start: u64, range: Range<usize>, report: TellFault<'_>) {
        let broken = self.pointers.as_ref().is_some_and(Slices::broken);
        let judged = self.level.in_order && !broken;
        let sound = match &self.dimensions[..] {
            [only] => self.is_sound(only, &range),
            [outer, inner] => self.pairs_are_sound(outer, inner, &range),
            _ => false,
        };
        if !sound {
            self.bounds(start, range.clone(), report);
            if judged {
                self.order(start, range.clone(), report);
                self.side(start, range, report);
            }
        }
        self.slice.fresh = false;
    }

    /// The quick way, for entries of one dimension.
    fn is_sound(&self, only: &DimensionIndices<'_>, range: &Range<usize>) -> bool {
        let run = &only.buffer[range.clone()];
        let ([first, ..], [.., last]) = (run, run) else {
            return true;
        };
        let follows = self.slice.fresh || only.previous(range.start) < *first;
        let inside = *last < only.bound;
        let side = self.level.side.as_ref().is_none_or(|side| {
            let outermost = side.triangle.outermost(*first, *last);
            side.triangle.holds(self.slice.outer, outermost)
        });
        follows && inside && side && run.is_sorted_by(|a, b| a < b)
    }

    /// The quick way for two dimensions, without a branch for each entry.
    fn pairs_are_sound(
        &self,
        outer: &DimensionIndices<'_>,
        inner: &DimensionIndices<'_>,
        range: &Range<usize>,
    ) -> bool {
        let (i, j) = (&outer.buffer[range.clone()], &inner.buffer[range.clone()]);
        let ([first, ..], [.., last], Some(start)) = (i, i, j.first()) else {
            return true;
        };
        let before = (outer.previous(range.start), inner.previous(range.start));
        let follows = self.slice.fresh || before < (*first, *start);
        let steps = i.windows(2).zip(j.windows(2));
        let ordered = steps.fold(true, |ordered, (i, j)| {
            ordered & ((i[0] < i[1]) | ((i[0] == i[1]) & (j[0] < j[1])))
        });
        let largest = j.iter().fold(0, |largest: u64, &index| largest.max(index));
        let inside = *last < outer.bound && largest < inner.bound;
        let side = self.level.side.as_ref().is_none_or(|side| {
            let pairs = i.iter().zip(j);
            pairs.fold(true, |holds, (&i, &j)| holds & side.triangle.holds(i, j))
        });
        follows && ordered && inside && side
    }

    fn bounds(&mut self, start: u64, range: Range<usize>, report: TellFault<'_>) {
        for dimension in &mut self.dimensions {
            let run = &dimension.buffer[range.clone()];
            let largest = run
                .iter()
                .fold(0, |largest: u64, &index| largest.max(index));
            if largest < dimension.bound {
                continue;
            }
            for (i, &index) in run.iter().enumerate() {
                let entry = start + (range.start + i) as u64;
                if index >= dimension.bound {
                    let (name, extent) = (dimension.name, dimension.extent);
                    let found = shown(index, dimension.signed);
                    dimension.outside.tell(report, || {
                        let fault = Fault::new(format!("element {entry} is outside the shape"));
                        let expected = format!("0 or more, less than {extent}");
                        fault.array(name).expected(expected).found(found)
                    });
                }
            }
        }
    }

    fn order(&mut self, start: u64, range: Range<usize>, report: TellFault<'_>) {
        let first = range.start + usize::from(self.slice.fresh);
        for at in first..range.end {
            let order = self
                .dimensions
                .iter()
                .map(|d| d.previous(at).cmp(&d.buffer[at]));
            let order = order.fold(std::cmp::Ordering::Equal, |order, next| order.then(next));
            let (kind, what) = match order {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Greater => (&mut self.unsorted, "is out of order"),
                std::cmp::Ordering::Equal => (&mut self.repeated, "repeats the one before"),
            };
            let (slice, dimensions) = (&self.slice, &self.dimensions);
            kind.tell(report, || {
                let within = match &self.pointers {
                    Some(_) => format!(" in slice {}", slice.number),
                    None => String::new(),
                };
                let entry = start + at as u64;
                let fault = Fault::new(format!("element {entry} {what}{within}"));
                let before = dimensions.iter().map(|d| shown(d.previous(at), d.signed));
                let found = dimensions.iter().map(|d| shown(d.buffer[at], d.signed));
                let fault = fault.array(dimensions[0].name).found(tuple(found));
                fault.expected(format!("more than {}", tuple(before)))
            });
        }
    }

    fn side(&mut self, start: u64, range: Range<usize>, report: TellFault<'_>) {
        let (Some(side), Some(inner)) = (&self.level.side, self.dimensions.last()) else {
            return;
        };
        for at in range {
            let outer = match side.outer {
                OuterIndex::Within => self.dimensions[0].buffer[at],
                _ => self.slice.outer,
            };
            let index = inner.buffer[at];
            if !side.triangle.holds(outer, index) {
                self.misplaced.tell(report, || {
                    let entry = start + at as u64;
                    let what = format!("element {entry} lies outside the stored triangle");
                    let fault = Fault::new(what).array(inner.name);
                    let expected = format!("the {} triangle", side.triangle.name);
                    fault.expected(expected).found(format!(
                        "{} beside {}",
                        shown(index, inner.signed),
                        shown(outer, inner.signed)
                    ))
                });
            }
        }
    }

    fn finish(&self, report: TellFault<'_>) {
        for dimension in &self.dimensions {
            dimension
                .outside
                .finish(report, dimension.name, "are outside the shape");
        }
        let name = self.dimensions.first().map_or("", |first| first.name);
        self.unsorted.finish(report, name, "are out of order");
        self.repeated.finish(report, name, "repeat the one before");
        let name = self.dimensions.last().map_or("", |last| last.name);
        let misplaced = "lie outside the stored triangle";
        self.misplaced.finish(report, name, misplaced);
        if let Some(pointers) = &self.pointers {
            pointers.finish(report);
        }
    }
}

impl<'a> DimensionIndices<'a> {
    fn new(stored: &'a IntegerArray, extent: u64, readers: &SequentialReaders) -> Result<Self> {
        let reader = Sequential::new(stored.array.clone(), readers)?;
        let signed = reader.number().signed;
        Ok(DimensionIndices {
            name: &stored.name,
            reader,
            signed,
            extent,
            // Negative numbers read as 2^63 or more.
            bound: if signed { extent.min(1 << 63) } else { extent },
            buffer: Vec::new(),
            before: 0,
            outside: Few::default(),
        })
    }

    /// The entry before that at `at` of the buffer.
    fn previous(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            Some(before) => self.buffer[before],
            None => self.before,
        }
    }
}

fn shown(index: u64, signed: bool) -> String {
    match signed {
        true => (index as i64).to_string(),
        false => index.to_string(),
    }
}

/// `5` or `(3, 5)`.
fn tuple(numbers: impl Iterator<Item = String>) -> String {
    let numbers: Vec<String> = numbers.collect();
    match &numbers[..] {
        [only] => only.clone(),
        _ => format!("({})", numbers.join(", ")),
    }
}
