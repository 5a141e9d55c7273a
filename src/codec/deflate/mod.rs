//! Deflate streams of bytes that a shuffle has separated, at the fastest level.
//!
//! Behind a shuffle lie planes, each of a kind of its own: one value all over, noise, or values of
//! which nothing but their frequency can be made use of. A general encoder looks for repetitions in
//! all of them, which takes nearly all of its time. Here a sample of each stretch of a plane says
//! whether they are worth looking for. Streams are such that any decoder reads. Pure, but for the
//! tables. Used by `filters`.

mod bits;
mod block;
mod codes;
mod matches;
#[cfg(test)]
mod tests;

use std::ops::Range;

use bits::BitWriter;
use matches::{LiteralsAndMatch, Matcher};

/// Shorter planes are no stretches of their own.
pub(in crate::codec) const PLANE_LEAST: usize = 4 << 10;

/// What is kept from one stream to the next: 400 KiB at most.
pub(in crate::codec) struct PlaneDeflater {
    matcher: Matcher,
    sequences: Vec<LiteralsAndMatch>,
}

impl PlaneDeflater {
    /// None: there is no memory.
    pub(in crate::codec) fn new() -> Option<PlaneDeflater> {
        let mut sequences = Vec::new();
        // A stretch of one value has fewer.
        sequences.try_reserve_exact(block::MOST / 4 + 2).ok()?;
        Some(PlaneDeflater {
            matcher: Matcher::new()?,
            sequences,
        })
    }

    /// Encodes planes of so many bytes, at least [`PLANE_LEAST`], and what lies behind the last;
    /// says how many bytes that takes. None if they do not fit.
    pub(in crate::codec) fn encode(
        &mut self,
        plain: &[u8],
        plane: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        // Places in longer ones could not be noted; HDF5 has no longer chunks.
        if plain.is_empty() || u32::try_from(plain.len()).is_err() {
            return None;
        }
        self.matcher.clear();
        let mut write = BitWriter::new(out);
        for plane in cut(0..plain.len(), plane) {
            if is_run(&plain[plane.clone()]) && plane.len() / matches::LONGEST < block::MOST / 4 {
                let is_last = plane.end == plain.len();
                self.sequences.clear();
                block::put_run(plain, plane, is_last, (&mut self.sequences, &mut write))?;
                continue;
            }
            let each = plane.len().div_ceil(plane.len().div_ceil(block::MOST));
            for stretch in cut(plane, each) {
                let is_last = stretch.end == plain.len();
                self.sequences.clear();
                let own = (&mut self.matcher, &mut self.sequences);
                block::put_stretch(plain, stretch, is_last, own, &mut write)?;
            }
        }
        Some(write.finish())
    }
}

fn cut(range: Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = range.clone().step_by(each);
    starts.map(move |start| start..range.end.min(start + each))
}

/// Whether all bytes are the same.
fn is_run(bytes: &[u8]) -> bool {
    bytes.len() > 1 && bytes[1..] == bytes[..bytes.len() - 1]
}
