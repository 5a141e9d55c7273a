//! Which bytes of an array lie in which chunks: what is stored as one, or encoded as one.
//!
//! Where chunks are stretches of the array it is a division ([`EvenChunks`]); in more dimensions a
//! chunk is many ranges, and a range touches many chunks. Arithmetic alone. Used by `container`, to
//! write chunks, and by `stage`, to know which are complete.

use std::ops::Range;

use super::uncached::PlacedRange;

/// A chunk: its number, and of which chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkId {
    /// [`Chunking::shape`].
    pub shape: u64,
    pub number: u64,
}

/// The chunks of an array of one length.
pub trait Chunking: Send + Sync {
    fn chunks(&self) -> u64;

    /// Tells chunkings apart: it is one number for arrays of two lengths whose chunks are alike, as
    /// far as both have them.
    fn shape(&self) -> u64;

    /// Bytes of the array that some chunks hold: so many have to be staged for them to be complete.
    fn bytes(&self, chunks: Range<u64>) -> u64;

    /// Tells the chunks that a range of the array touches, in runs, and how many bytes of each of
    /// them.
    fn touched(&self, range: &Range<u64>, tell: &mut dyn FnMut(Range<u64>, u64));

    /// Appends the ranges of the array that some chunks hold, from `to` on one chunk behind the
    /// other.
    fn ranges(&self, chunks: Range<u64>, to: usize, out: &mut Vec<PlacedRange>);

    /// Appends the chunks that hold other bytes than the chunks of the same numbers in another
    /// grid, touched or not.
    fn reshaped(&self, before: &Self, out: &mut Vec<Range<u64>>)
    where
        Self: Sized;
}

/// Chunks of one size, each a stretch of the array; the last one may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvenChunks {
    size: u64,
    len: u64,
    chunks: u64,
}

impl EvenChunks {
    pub fn new(size: u64, len: u64) -> EvenChunks {
        let chunks = len.div_ceil(size.max(1));
        EvenChunks { size, len, chunks }
    }

    /// Those that are whole: nothing that is appended becomes a part of them.
    pub fn whole(size: u64, len: u64) -> EvenChunks {
        EvenChunks::new(size, len - len.checked_rem(size).unwrap_or(len))
    }

    /// All of them, where there may be chunks of nothing behind the others.
    pub fn counted(size: u64, len: u64, chunks: u64) -> EvenChunks {
        EvenChunks { size, len, chunks }
    }

    /// The bytes of the array in some chunks.
    pub fn range(&self, chunks: Range<u64>) -> Range<u64> {
        let at = |chunk: u64| chunk.saturating_mul(self.size).min(self.len);
        at(chunks.start)..at(chunks.end)
    }

    /// The chunks that hold any of these bytes.
    pub fn of(&self, bytes: &Range<u64>) -> Range<u64> {
        if bytes.is_empty() || self.size == 0 {
            return 0..0;
        }
        let end = bytes.end.div_ceil(self.size).min(self.chunks);
        (bytes.start / self.size).min(end)..end
    }
}

impl Chunking for EvenChunks {
    fn chunks(&self) -> u64 {
        self.chunks
    }

    fn shape(&self) -> u64 {
        self.size
    }

    fn bytes(&self, chunks: Range<u64>) -> u64 {
        let range = self.range(chunks);
        range.end - range.start
    }

    fn touched(&self, range: &Range<u64>, tell: &mut dyn FnMut(Range<u64>, u64)) {
        let range = range.start..range.end.min(self.len);
        let mut next = self.of(&range);
        while !next.is_empty() {
            let first = self.range(next.start..next.start + 1);
            let is_whole = range.start <= first.start && first.end <= range.end;
            // All but the last one are as large as the first.
            let run = match is_whole && first.end - first.start == self.size {
                true => next.start..(range.end / self.size).max(next.start + 1).min(next.end),
                false => next.start..next.start + 1,
            };
            let of_each = first.end.min(range.end) - first.start.max(range.start);
            next.start = run.end;
            tell(run, of_each);
        }
    }

    fn ranges(&self, chunks: Range<u64>, to: usize, out: &mut Vec<PlacedRange>) {
        let from = self.range(chunks);
        out.push(PlacedRange { from, to });
    }

    fn reshaped(&self, before: &Self, out: &mut Vec<Range<u64>>) {
        if before.size != self.size {
            out.push(0..self.chunks);
        } else if before.len != self.len {
            // The last one is longer or shorter now, or others follow it.
            let last = before.chunks.min(self.chunks).saturating_sub(1);
            out.push(last..self.chunks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_is_in_the_chunk_that_it_touches(
            size in 0u64..20, len in 0u64..100, start in 0u64..110, n in 0u64..110,
        ) {
            let len = if size == 0 { 0 } else { len };
            let grid = EvenChunks::new(size, len);
            let range = start..start + n;
            let mut counts = std::collections::BTreeMap::new();
            grid.touched(&range, &mut |chunks, bytes| {
                for chunk in chunks {
                    assert_eq!(counts.insert(chunk, bytes), None, "told once");
                }
            });
            let mut expected = std::collections::BTreeMap::new();
            for at in range.start..range.end.min(len) {
                *expected.entry(at / size).or_insert(0) += 1;
            }
            prop_assert_eq!(&counts, &expected);
            for chunk in 0..grid.chunks() {
                let held = grid.bytes(chunk..chunk + 1);
                let bytes = (0..len).filter(|at| at / size == chunk).count() as u64;
                prop_assert_eq!(held, bytes);
                let mut ranges = Vec::new();
                grid.ranges(chunk..chunk + 1, 7, &mut ranges);
                let from = chunk * size..chunk * size + held;
                prop_assert_eq!(ranges, [PlacedRange { from, to: 7 }]);
            }
            prop_assert_eq!(grid.bytes(0..grid.chunks()), len);
        }
    }
}
