//! Which chunks have changed, and what they are made of now.
//!
//! Used by [`super`] and the formats.

use std::ops::Range;

use crate::array::Array;
use crate::array::chunking::Chunking;
use crate::array::uncached::{DecodeMemory, gather};
use crate::error::Result;
use crate::memory::Arena;
use crate::range_set::RangeSet;

/// Reads what some chunks hold, one behind the other.
pub(crate) fn read_chunks(
    array: &dyn Array,
    chunking: &impl Chunking,
    chunks: &[Range<u64>],
    plain: &mut [u8],
    scratch: Arena<'_>,
) -> Result<()> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    for run in chunks {
        chunking.ranges(run.clone(), at, &mut ranges);
        at += chunking.bytes(run.clone()) as usize;
    }
    gather(array, &ranges, plain, DecodeMemory::Lent(scratch))
}

/// The chunks that do not stay as they are stored. `before`: those that are stored, if any stay;
/// `changed`: bytes of the array that are not, or not known to be, as they are stored.
pub(crate) fn dirty_chunks<G: Chunking>(
    chunking: &G,
    before: Option<&G>,
    changed: impl Iterator<Item = Range<u64>>,
) -> RangeSet {
    let Some(before) = before else {
        let all = 0..chunking.chunks();
        return RangeSet::from(all);
    };
    let (mut dirty, mut moved) = (RangeSet::default(), Vec::new());
    changed.for_each(|range| chunking.touched(&range, &mut |chunks, _| dirty.insert(chunks)));
    chunking.reshaped(before, &mut moved);
    dirty.extend(moved);
    dirty
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::array::chunking::EvenChunks;

    proptest! {
        #[test]
        fn a_chunk_that_holds_other_bytes_is_dirty(size in 1u64..9, before in 0u64..60, after in 0u64..60) {
            let (old, new) = (EvenChunks::new(size, before), EvenChunks::new(size, after));
            let dirty = dirty_chunks(&new, Some(&old), std::iter::empty());
            let differs = |chunk: &u64| old.range(*chunk..chunk + 1) != new.range(*chunk..chunk + 1);
            for chunk in (0..new.chunks()).filter(differs) {
                prop_assert!(dirty.iter().flatten().any(|dirty| dirty == chunk), "{chunk}");
            }
            prop_assert!(before != after || dirty.is_empty());
        }
    }
}
