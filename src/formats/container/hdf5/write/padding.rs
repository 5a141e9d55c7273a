//! Which filters let zeros follow what they have made: a chunk need not leave its place then when
//! it gets shorter. Pure. Used by [`super::chunks`].

use crate::container::hdf5::index::FilterEntry;

/// The bit of the last filter, if its readers pass over zeros behind its data: gzip, scale-offset,
/// bzip2, lz4, bitshuffle.
pub(super) fn padding(filters: &[FilterEntry]) -> Option<u32> {
    let last = filters.last()?;
    let bit = u32::try_from(filters.len() - 1).ok()?;
    let mask = 1u32.checked_shl(bit)?;
    let passes = match last.id {
        1 | 6 | 307 | 32004 => true,
        // With LZ4; without a compressor the length counts.
        32008 => last.values.get(4) == Some(&2),
        _ => false,
    };
    passes.then_some(mask)
}
