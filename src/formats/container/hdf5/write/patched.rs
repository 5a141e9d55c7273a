//! A file as it would be with what libhdf5 has written over it, for a look at it before anything is
//! written.
//!
//! What is put elsewhere is raw data, which that look does not read. Where it may lie over
//! something else there is nothing: a look that needs it fails. Used by [`super::edit_recipe`].

use std::ops::Range;

use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::{Source, SourcePatches};

pub(super) struct WrittenPieces {
    /// In order, where each lies; they do not overlap.
    pub(super) pieces: Vec<(u64, Vec<u8>)>,
    /// Shown as zeros.
    pub(super) blank: RangeSet,
}

impl WrittenPieces {
    pub(super) fn places(&self) -> impl Iterator<Item = Range<u64>> {
        self.pieces.iter().map(WrittenPieces::place)
    }
}

impl SourcePatches for WrittenPieces {
    type Piece = (u64, Vec<u8>);

    fn pieces(&self) -> &[Self::Piece] {
        &self.pieces
    }

    fn place((at, bytes): &Self::Piece) -> Range<u64> {
        *at..at.saturating_add(bytes.len() as u64)
    }

    fn read(
        &self,
        (_, bytes): &Self::Piece,
        _: &dyn Source,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        out.copy_from_slice(&bytes[from as usize..][..out.len()]);
        Ok(out.len())
    }

    /// Behind the end of the file are zeros.
    fn between(&self, below: &dyn Source, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(out.len() as u64);
        let there = below.len().clamp(at, end) - at;
        let (stored, behind) = out.split_at_mut(there as usize);
        behind.fill(0);
        below.fetch_one(at, stored)?;
        for blank in self.blank.within(at..end) {
            out[(blank.start - at) as usize..(blank.end - at) as usize].fill(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::source::{BytesSource, PatchedSource};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn patches_lie_over_what_is_below(
            below in 0usize..40, len in 0u64..60, gaps in proptest::collection::vec((0u64..9, 1usize..9), 0..6),
            at in 0u64..60, n in 0usize..30,
        ) {
            let stored: Vec<u8> = (1..=below as u8).collect();
            let mut expected = stored.clone();
            expected.resize(200, 0);
            let (mut patches, mut next) = (Vec::new(), 0);
            for (gap, size) in gaps {
                let start = next + gap;
                patches.push((start, vec![0xee; size]));
                expected[start as usize..start as usize + size].fill(0xee);
                next = start + size as u64;
            }
            let below: Arc<dyn Source> = Arc::new(BytesSource::new(stored));
            let mut blank = RangeSet::default();
            blank.insert(30..33);
            for place in 30..33u64 {
                let mut patched = patches.iter().map(|(at, bytes): &(u64, Vec<u8>)| *at..at + bytes.len() as u64);
                if !patched.any(|patch| patch.contains(&place)) {
                    expected[place as usize] = 0;
                }
            }
            let pieces = WrittenPieces { pieces: patches, blank };
            let patched = PatchedSource::new(below, pieces, len);
            let mut out = vec![0; n];
            let fits = at + n as u64 <= len;
            prop_assert_eq!(patched.fetch_one(at, &mut out).is_ok(), fits);
            if fits {
                prop_assert_eq!(&out[..], &expected[at as usize..at as usize + n]);
            }
        }
    }
}
