//! Looking for chunks where none is expected.
//!
//! Behind a damaged header only the offsets table leads on. A table that leaves out a chunk there looks as
//! right as a true one, but between the two there is one header too many. Finding it takes a look at
//! each byte of the gap, which happens at damage alone and is bounded by [`Budget`].
//! Used by [`super::steps`].

use std::ops::Range;

use super::layout::CHUNK_HEADER;
use super::segment::RawHeader;
use crate::error::Result;
use crate::source::Source;

/// Stored bytes read at once.
const PIECE: u64 = 1 << 20;

/// Stored bytes that may still be looked through, of one file: about a second of work.
pub(super) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Budget(1 << 29)
    }
}

/// Whether at most `most` headers begin and end in a part of the file. Without budget to find out the answer is
/// no.
pub(super) fn holds_at_most(
    source: &dyn Source,
    budget: &mut Budget,
    gap: Range<u64>,
    most: u64,
    is_header: &dyn Fn(&RawHeader) -> bool,
) -> Result<bool> {
    let cost = gap.end.saturating_sub(gap.start);
    match budget.0.checked_sub(cost) {
        Some(left) => budget.0 = left,
        None => return Ok(false),
    }
    let (mut at, mut found) = (gap.start, 0);
    let mut buf = Vec::new();
    while at.saturating_add(CHUNK_HEADER) <= gap.end {
        buf.resize((gap.end - at).min(PIECE) as usize, 0);
        source.fetch_one(at, &mut buf)?;
        let headers = buf.windows(CHUNK_HEADER as usize);
        let headers = headers.filter_map(|raw| raw.first_chunk());
        found += headers.filter(|raw| is_header(raw)).count() as u64;
        if found > most {
            return Ok(false);
        }
        // A header may lie across two pieces.
        at += buf.len() as u64 - (CHUNK_HEADER - 1);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::bloscpack::sample::{self, Stored};

    #[test]
    fn headers_are_counted_across_pieces() {
        let mut bytes = vec![2; (1 << 20) - 7];
        for plain in [&[7; 300], &[8; 300], &[2; 300]] {
            bytes.extend_from_slice(&sample::chunk(plain, 16));
            bytes.extend_from_slice(b"sum4");
        }
        let stored = Stored::new(&bytes);
        let is_header = |raw: &RawHeader| raw[..8] == [2, 1, 0x33, 4, 44, 1, 0, 0];
        let count = |gap, most| {
            let mut budget = Budget::default();
            holds_at_most(&*stored.source(), &mut budget, gap, most, &is_header).unwrap()
        };
        let end = bytes.len() as u64;
        assert!(!count(0..end, 2) && count(0..end, 3));
        assert!(!count(0..end - 320, 1) && count(0..end - 320, 2));
        assert!(count(end - 319..end, 0) && !count(end - 320..end, 0));
        assert!(count(end - 320..end - 305, 0), "a part of a header");
        assert!(count(5..5, 0) && count(0..2, 0));
        let mut little = Budget(1000);
        assert!(!holds_at_most(&*stored.source(), &mut little, 0..end, 9, &is_header).unwrap());
    }
}
