//! Equal pieces at equal distances, packed: the columns of a dense block or of a program-written
//! frame.
//!
//! Close pieces are read together with what lies between them, distant ones each by itself, many
//! ranges at a time. Pure but for the source; memory is bounded.

use crate::error::Result;
use crate::memory::{Arena, room};
use crate::source::{Fetch, Source};

/// Read at once where pieces lie close together.
const TOGETHER: u64 = 256 << 10;
/// A distance at which reading what lies between costs more than another range.
const FAR: u64 = 4 << 10;
/// Ranges of one fetch.
const RANGES: usize = 128;

/// Scratch memory of [`gather`].
pub(super) const MEMORY: u64 = room(TOGETHER);

/// `len` bytes at `first`, then every `stride` bytes, until `out` is full. `len` is at most
/// `stride`.
pub(super) fn gather(
    source: &dyn Source,
    (first, stride): (u64, u64),
    len: usize,
    out: &mut [u8],
    mut scratch: Arena<'_>,
) -> Result<()> {
    if len == 0 || out.is_empty() {
        return Ok(());
    }
    if len as u64 == stride {
        return source.fetch_one(first, out);
    }
    if stride - len as u64 > FAR || stride > TOGETHER {
        return apart(source, first, stride, len, out);
    }
    let stride = stride as usize;
    let rows = TOGETHER as usize / stride;
    let buf = scratch.take(TOGETHER)?;
    for (number, out) in out.chunks_mut(rows * len).enumerate() {
        let count = out.len() / len;
        let buf = &mut buf[..(count.max(1) - 1) * stride + len];
        source.fetch_one(first + (number * rows * stride) as u64, buf)?;
        pack(buf, stride, len, out);
    }
    Ok(())
}

/// Puts the first `len` of every `stride` bytes one after another.
pub(super) fn pack(buf: &[u8], stride: usize, len: usize, out: &mut [u8]) {
    match len {
        1 => pack_sized::<1>(buf, stride, out),
        2 => pack_sized::<2>(buf, stride, out),
        4 => pack_sized::<4>(buf, stride, out),
        8 => pack_sized::<8>(buf, stride, out),
        _ => {
            for (from, to) in buf.chunks(stride).zip(out.chunks_exact_mut(len)) {
                to.copy_from_slice(&from[..len]);
            }
        }
    }
}

/// The length is known here, so that each piece is one move.
fn pack_sized<const LEN: usize>(buf: &[u8], stride: usize, out: &mut [u8]) {
    for (from, to) in buf.chunks(stride).zip(out.chunks_exact_mut(LEN)) {
        to.copy_from_slice(&from[..LEN]);
    }
}

fn apart(source: &dyn Source, first: u64, stride: u64, len: usize, out: &mut [u8]) -> Result<()> {
    let mut fetches = Fetches::new(source);
    for (number, buf) in (0..).zip(out.chunks_mut(len)) {
        fetches.push(first + number * stride, buf)?;
    }
    fetches.finish()
}

/// Ranges that are fetched many at a time.
pub(super) struct Fetches<'s, 'b> {
    source: &'s dyn Source,
    ranges: Vec<Fetch<'b>>,
}

impl<'s, 'b> Fetches<'s, 'b> {
    pub(super) fn new(source: &'s dyn Source) -> Self {
        let ranges = Vec::with_capacity(RANGES);
        Fetches { source, ranges }
    }

    pub(super) fn push(&mut self, offset: u64, buf: &'b mut [u8]) -> Result<()> {
        self.ranges.push(Fetch { offset, buf });
        match self.ranges.len() < RANGES {
            true => Ok(()),
            false => self.fetch(),
        }
    }

    /// Fetches what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        self.fetch()
    }

    fn fetch(&mut self) -> Result<()> {
        let fetched = self.source.fetch(&mut self.ranges);
        self.ranges.clear();
        fetched
    }
}
