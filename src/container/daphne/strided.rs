//! Equal pieces at equal distances, packed: the columns of a dense block or of a program-written frame.
//!
//! Close pieces are read together with what lies between them, distant ones each by itself, many ranges
//! at a time. Pure but for the source; memory is bounded.

use crate::error::Result;
use crate::source::{Fetch, Source};

/// Read at once where pieces lie close together.
const TOGETHER: u64 = 256 << 10;
/// A distance at which reading what lies between costs more than another range.
const FAR: u64 = 4 << 10;
/// Ranges of one fetch.
const RANGES: usize = 128;

/// `len` bytes at `first`, `first + stride` and so on, until `out` is full. `len` is at most `stride`.
pub(super) fn gather(
    source: &dyn Source,
    first: u64,
    stride: u64,
    len: usize,
    out: &mut [u8],
) -> Result<()> {
    if len == 0 || out.is_empty() {
        return Ok(());
    }
    if len as u64 == stride {
        return source.fetch_one(first, out);
    }
    if stride - len as u64 > FAR {
        return apart(source, first, stride, len, out);
    }
    let stride = stride as usize;
    let rows = (TOGETHER as usize / stride).max(1);
    let mut buf = Vec::new();
    for (number, out) in out.chunks_mut(rows * len).enumerate() {
        let count = out.len() / len;
        buf.resize((count.max(1) - 1) * stride + len, 0);
        source.fetch_one(first + (number * rows * stride) as u64, &mut buf)?;
        match len {
            1 => pack::<1>(&buf, stride, out),
            2 => pack::<2>(&buf, stride, out),
            4 => pack::<4>(&buf, stride, out),
            8 => pack::<8>(&buf, stride, out),
            _ => {
                for (from, to) in buf.chunks(stride).zip(out.chunks_exact_mut(len)) {
                    to.copy_from_slice(&from[..len]);
                }
            }
        }
    }
    Ok(())
}

/// The length is known here, so that each piece is one move.
fn pack<const LEN: usize>(buf: &[u8], stride: usize, out: &mut [u8]) {
    for (from, to) in buf.chunks(stride).zip(out.chunks_exact_mut(LEN)) {
        to.copy_from_slice(&from[..LEN]);
    }
}

fn apart(source: &dyn Source, first: u64, stride: u64, len: usize, out: &mut [u8]) -> Result<()> {
    let mut at = first;
    for out in out.chunks_mut(len * RANGES) {
        let mut ranges = Vec::with_capacity(RANGES);
        for buf in out.chunks_mut(len) {
            ranges.push(Fetch { offset: at, buf });
            at += stride;
        }
        source.fetch(&mut ranges)?;
    }
    Ok(())
}
