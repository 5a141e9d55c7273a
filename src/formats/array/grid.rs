//! Where the bytes of an n-dimensional array lie in its chunks: arithmetic alone.
//!
//! Everything is counted in bytes: the element is the innermost part of the last dimension, and
//! dimensions that chunks span entirely are joined with the one before, so that runs are as long as
//! they can be. Chunks are numbered in C order; chunks at the edges are as large as the others.
//! Knows no format: of HDF5, dimensions and chunks are those of its datasets. Used by formats that
//! store chunks of several dimensions.

use std::ops::Range;

/// Largest chunk: more is no use to anybody, and HDF5's limit before 2.0.
pub const CHUNK_MOST: u64 = u32::MAX as u64;

/// Where the elements of an array lie in chunks.
#[derive(Debug, Clone)]
pub struct ChunkGrid {
    /// The outermost first; at least one, `last` the innermost.
    axes: Vec<GridAxis>,
    last: GridAxis,
    bytes: u64,
    chunks: u64,
    chunk_bytes: u64,
}

/// A dimension. The innermost is counted in bytes.
#[derive(Debug, Clone, Copy)]
struct GridAxis {
    len: u64,
    /// Length of a chunk.
    chunk: u64,
    /// Chunks along it.
    count: u64,
    /// From one chunk to the next along this dimension: the difference of their numbers.
    stride: u64,
    /// From one place to the next within a chunk, in bytes.
    step: u64,
}

/// Bytes of the array that lie behind each other in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRun {
    /// First byte in the array.
    pub at: u64,
    /// Number of the chunk.
    pub chunk: u64,
    /// First byte in the chunk.
    pub skip: u64,
    /// Bytes.
    pub take: u64,
}

/// Where a row of the array lies along an outer dimension.
#[derive(Debug, Clone, Copy, Default)]
struct Coordinate {
    at: u64,
    chunk: u64,
    within: u64,
}

impl ChunkGrid {
    /// `dims` and `chunk`: elements along each dimension, `element`: bytes. Refuses what does not
    /// fit together or cannot be counted, with a reason.
    pub fn new(dims: &[u64], chunk: &[u64], element: u64) -> Result<ChunkGrid, String> {
        let fits = dims.len() == chunk.len() && !chunk.contains(&0) && element > 0;
        let bytes = product(dims, element).filter(|n| *n <= i64::MAX as u64);
        let chunk_bytes = product(chunk, element).filter(|n| *n <= CHUNK_MOST);
        let (true, Some(bytes), Some(chunk_bytes)) = (fits, bytes, chunk_bytes) else {
            return Err(format!("chunks of {chunk:?} in an array of {dims:?}"));
        };
        let mut axes = axes(dims, chunk, element);
        let chunks = number(&mut axes).filter(|_| bytes > 0).unwrap_or(0);
        let last = axes.pop().unwrap_or(GridAxis::new(0, 1));
        Ok(ChunkGrid {
            axes,
            last,
            bytes,
            chunks,
            chunk_bytes,
        })
    }

    /// Chunks, stored or not.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Bytes of a chunk, those outside of the array included.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Bytes of the longest run.
    pub fn longest_run(&self) -> u64 {
        self.last.chunk.min(self.last.len)
    }

    /// Visits the runs that make up a range of the array, in order; stops at the first error.
    pub fn runs<E>(
        &self,
        range: Range<u64>,
        visit: &mut impl FnMut(ChunkRun) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = range.end.min(self.bytes);
        if range.start >= end {
            return Ok(());
        }
        let mut at = range.start;
        let (mut row, mut x) = (at / self.last.len, at % self.last.len);
        let mut places = self.places(row);
        loop {
            let row_end = (at - x + self.last.len).min(end);
            self.row_runs(&places, x, at..row_end, visit)?;
            if row_end >= end {
                return Ok(());
            }
            (at, x, row) = (row_end, 0, row + 1);
            self.next_row(&mut places);
        }
    }

    /// The runs of one row, from its byte `x` on, which is byte `range.start` of the array.
    fn row_runs<E>(
        &self,
        places: &[Coordinate],
        mut x: u64,
        range: Range<u64>,
        visit: &mut impl FnMut(ChunkRun) -> Result<(), E>,
    ) -> Result<(), E> {
        let (first, before) = self.row_base(places);
        let mut at = range.start;
        while at < range.end {
            let column = x / self.last.chunk;
            let within = x - column * self.last.chunk;
            let take = (self.last.chunk - within).min(range.end - at);
            visit(ChunkRun {
                at,
                chunk: first + column,
                skip: before + within,
                take,
            })?;
            (at, x) = (at + take, x + take);
        }
        Ok(())
    }

    /// Number of the first chunk that a row touches, and where the row begins in each of its
    /// chunks.
    fn row_base(&self, places: &[Coordinate]) -> (u64, u64) {
        let pairs = self.axes.iter().zip(places);
        pairs.fold((0, 0), |(number, skip), (axis, place)| {
            (
                number + place.chunk * axis.stride,
                skip + place.within * axis.step,
            )
        })
    }

    fn places(&self, mut row: u64) -> Vec<Coordinate> {
        let mut places = vec![Coordinate::default(); self.axes.len()];
        for (place, axis) in places.iter_mut().zip(&self.axes).rev() {
            let at = row % axis.len;
            row /= axis.len;
            *place = Coordinate {
                at,
                chunk: at / axis.chunk,
                within: at % axis.chunk,
            };
        }
        places
    }

    fn next_row(&self, places: &mut [Coordinate]) {
        for (place, axis) in places.iter_mut().zip(&self.axes).rev() {
            place.at += 1;
            place.within += 1;
            if place.within == axis.chunk {
                (place.chunk, place.within) = (place.chunk + 1, 0);
            }
            if place.at < axis.len {
                return;
            }
            *place = Coordinate::default();
        }
    }

    /// Places of a chunk along a dimension, as far as they are in the array.
    fn span(&self, axis: &GridAxis, number: u64) -> Range<u64> {
        let start = (number / axis.stride) % axis.count * axis.chunk;
        start..start.saturating_add(axis.chunk).min(axis.len)
    }

    /// The chunks that hold some bytes of a range of the array, as runs, in any order.
    pub fn touched(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let range = range.start..range.end.min(self.bytes);
        let mut touched: Vec<Range<u64>> = Vec::new();
        if range.is_empty() {
            return touched;
        }
        let mut visit = |run: ChunkRun| {
            match touched.last_mut() {
                Some(last) if last.contains(&run.chunk) => {}
                Some(last) if last.end == run.chunk => last.end += 1,
                _ => touched.push(run.chunk..run.chunk + 1),
            }
            Ok::<(), std::convert::Infallible>(())
        };
        // Where all chunks at some places of the first dimension are touched, no row is looked at.
        let slab = self.slab_bytes();
        let whole = range.start.div_ceil(slab)..range.end / slab;
        if whole.is_empty() {
            let Ok(()) = self.runs(range, &mut visit);
            return touched;
        }
        let Ok(()) = self.runs(range.start..whole.start * slab, &mut visit);
        let Ok(()) = self.runs(whole.end * slab..range.end, &mut visit);
        let first = self.axes.first().unwrap_or(&self.last);
        touched.push(whole.start * first.stride..whole.end * first.stride);
        touched
    }

    /// The chunks that hold some bytes of a range of the array, with how many bytes of each of
    /// them, perhaps in several parts.
    pub fn touched_bytes(&self, range: Range<u64>, tell: &mut dyn FnMut(Range<u64>, u64)) {
        let range = range.start..range.end.min(self.bytes);
        if range.is_empty() {
            return;
        }
        let row = self.row_bytes();
        let whole = range.start.div_ceil(row)..range.end / row;
        let mut visit = |run: ChunkRun| {
            tell(run.chunk..run.chunk + 1, run.take);
            Ok::<(), std::convert::Infallible>(())
        };
        if whole.is_empty() {
            let Ok(()) = self.runs(range, &mut visit);
            return;
        }
        let Ok(()) = self.runs(range.start..whole.start * row, &mut visit);
        let Ok(()) = self.runs(whole.end * row..range.end, &mut visit);
        let first = whole.start * self.chunks_of_row();
        let last = (whole.end * self.chunks_of_row()).min(self.chunks);
        let mut next = first;
        while next < last {
            let held = self.held(next);
            let run = (next..last).take_while(|&chunk| self.held(chunk) == held);
            let end = next + run.count() as u64;
            tell(next..end, held);
            next = end;
        }
    }

    /// Chunks at one place of the first dimension.
    pub fn chunks_of_row(&self) -> u64 {
        self.axes.first().unwrap_or(&self.last).stride
    }

    /// Bytes of the array that they hold, but for those at its end.
    pub fn row_bytes(&self) -> u64 {
        self.slab_bytes()
    }

    /// Bytes of the array that a chunk holds.
    pub fn held(&self, number: u64) -> u64 {
        let len = |axis: &GridAxis| {
            let span = self.span(axis, number);
            span.end - span.start
        };
        match number < self.chunks {
            true => self.axes.iter().map(len).product::<u64>() * len(&self.last),
            false => 0,
        }
    }

    /// Bytes of the array that the chunks at one place of the first dimension hold.
    fn slab_bytes(&self) -> u64 {
        let inner = self.axes.iter().skip(1).map(|axis| axis.len);
        match self.axes.first() {
            Some(first) => inner.fold(first.chunk.saturating_mul(self.last.len), |bytes, len| {
                bytes.saturating_mul(len)
            }),
            None => self.last.chunk,
        }
    }

    /// Whether a chunk sticks out of the array.
    pub fn is_partial(&self, number: u64) -> bool {
        let sticks_out = |axis: &GridAxis| {
            let span = self.span(axis, number);
            span.end - span.start < axis.chunk
        };
        number < self.chunks && (self.axes.iter().any(sticks_out) || sticks_out(&self.last))
    }

    /// How far the array reaches into a chunk: where its last byte in there ends, counted from the
    /// chunk's first byte.
    pub fn reach(&self, number: u64) -> u64 {
        if number >= self.chunks {
            return 0;
        }
        let len = |axis: &GridAxis| {
            let span = self.span(axis, number);
            span.end - span.start
        };
        let last_row = |axis: &GridAxis| (len(axis) - 1) * axis.step;
        self.axes.iter().map(last_row).sum::<u64>() + len(&self.last)
    }

    /// The first byte of the array that lies in a chunk.
    pub fn first_byte(&self, number: u64) -> u64 {
        if number >= self.chunks {
            return 0;
        }
        let first_of = |axis: &GridAxis| self.span(axis, number).start;
        let outer = self
            .axes
            .iter()
            .fold(0, |row, axis| row * axis.len + first_of(axis));
        outer * self.last.len + first_of(&self.last)
    }

    /// Visits the ranges of the array that lie in one chunk, in order.
    pub fn rows(&self, number: u64, visit: &mut dyn FnMut(Range<u64>)) {
        self.chunk_runs(number, &mut |run| visit(run.at..run.at + run.take));
    }

    /// Visits the ranges of the array that lie in one chunk, in order, with where each lies in the
    /// chunk.
    pub fn chunk_runs(&self, number: u64, visit: &mut dyn FnMut(ChunkRun)) {
        if number >= self.chunks {
            return;
        }
        let columns = self.span(&self.last, number);
        let spans: Vec<_> = self
            .axes
            .iter()
            .map(|axis| self.span(axis, number))
            .collect();
        let mut at: Vec<u64> = spans.iter().map(|span| span.start).collect();
        loop {
            let row = self
                .axes
                .iter()
                .zip(&at)
                .fold(0, |row, (axis, at)| row * axis.len + at);
            let start = row * self.last.len;
            let outer = self.axes.iter().zip(at.iter().zip(&spans));
            visit(ChunkRun {
                at: start + columns.start,
                chunk: number,
                skip: outer.fold(0, |skip, (axis, (at, span))| {
                    skip + (at - span.start) * axis.step
                }),
                take: columns.end - columns.start,
            });
            let moved = at.iter_mut().zip(&spans).rev().any(|(at, span)| {
                *at += 1;
                let stays = *at < span.end;
                if !stays {
                    *at = span.start;
                }
                stays
            });
            if !moved {
                return;
            }
        }
    }
}

/// Product of `dims` and `element`; 0 if any of them is, however large the others are.
pub fn product(dims: &[u64], element: u64) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(element, |n, &dim| n.checked_mul(dim))
}

impl GridAxis {
    fn new(len: u64, chunk: u64) -> GridAxis {
        GridAxis {
            len,
            chunk,
            count: len.div_ceil(chunk),
            stride: 1,
            step: 1,
        }
    }
}

/// Dimensions with the element as a part of the last, joined where chunks span them. No product of
/// an array with elements overflows: its bytes have been counted.
fn axes(dims: &[u64], chunk: &[u64], element: u64) -> Vec<GridAxis> {
    let mut axes: Vec<GridAxis> = Vec::with_capacity(dims.len() + 1);
    let elements = [(&element, &element)];
    for (&len, &chunk) in dims.iter().zip(chunk).chain(elements) {
        match axes.last_mut() {
            // The bytes of elements are always joined: no chunk cuts through an element.
            Some(last) if chunk == len => {
                let joined = (
                    last.len.saturating_mul(len),
                    last.chunk.saturating_mul(chunk),
                );
                *last = GridAxis::new(joined.0, joined.1);
            }
            _ => axes.push(GridAxis::new(len, chunk)),
        }
    }
    axes
}

/// Sets strides and steps; gives the number of chunks.
fn number(axes: &mut [GridAxis]) -> Option<u64> {
    let (mut chunks, mut bytes) = (1u64, 1u64);
    for axis in axes.iter_mut().rev() {
        (axis.stride, axis.step) = (chunks, bytes);
        chunks = chunks.checked_mul(axis.count)?;
        bytes = bytes.checked_mul(axis.chunk)?;
    }
    Some(chunks)
}

#[cfg(test)]
mod tests;
