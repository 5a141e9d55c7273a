//! A file as it would be with patches over it, for a look at it before anything is written.
//!
//! What is put elsewhere is raw data, which that look does not read. Where it may lie over
//! something else there is nothing: a look that needs it fails. Used by [`super::unchanged`].

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::range_set::RangeSet;
use crate::source::{Fetch, Source, SourceIdentity};

pub(super) struct PatchedSource {
    below: Arc<dyn Source>,
    /// In order, where each lies; they do not overlap.
    patches: Vec<(u64, Vec<u8>)>,
    /// Shown as zeros.
    blank: RangeSet,
    len: u64,
}

impl PatchedSource {
    pub(super) fn new(
        below: &Arc<dyn Source>,
        (patches, blank): (Vec<(u64, Vec<u8>)>, RangeSet),
        len: u64,
    ) -> PatchedSource {
        PatchedSource {
            below: Arc::clone(below),
            patches,
            blank,
            len,
        }
    }

    /// Where the patches lie.
    pub(super) fn patches(&self) -> impl Iterator<Item = Range<u64>> {
        let patches = self.patches.iter();
        patches.map(|(at, bytes)| *at..at.saturating_add(bytes.len() as u64))
    }

    pub(super) fn each(&self) -> &[(u64, Vec<u8>)] {
        &self.patches
    }

    pub(super) fn into_patches(self) -> Vec<(u64, Vec<u8>)> {
        self.patches
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(out.len() as u64);
        if end > self.len {
            let cause = std::io::ErrorKind::UnexpectedEof;
            return Err(Error::io("read behind the end of a file", cause));
        }
        let there = self.below.len().clamp(at, end) - at;
        let (stored, behind) = out.split_at_mut(there as usize);
        behind.fill(0);
        if !stored.is_empty() {
            self.below.fetch_one(at, stored)?;
        }
        for blank in self.blank.within(at..end) {
            out[(blank.start - at) as usize..(blank.end - at) as usize].fill(0);
        }
        let first = self
            .patches
            .partition_point(|(start, bytes)| start + bytes.len() as u64 <= at);
        for (start, bytes) in self.patches[first..]
            .iter()
            .take_while(|(start, _)| *start < end)
        {
            let from = at.max(*start);
            let to = end.min(start + bytes.len() as u64);
            let part = &bytes[(from - start) as usize..(to - start) as usize];
            out[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
        }
        Ok(())
    }
}

impl Source for PatchedSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> SourceIdentity {
        self.below.identity().resized(self.len)
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let mut ranges = ranges.iter_mut();
        ranges.try_for_each(|range| self.fill(range.offset, range.buf))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fill(offset, &mut buf[..n])?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::BytesSource;
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
            let patched = PatchedSource::new(&below, (patches, blank), len);
            let mut out = vec![0; n];
            let fits = at + n as u64 <= len;
            prop_assert_eq!(patched.fetch_one(at, &mut out).is_ok(), fits);
            if fits {
                prop_assert_eq!(&out[..], &expected[at as usize..at as usize + n]);
            }
        }
    }
}
