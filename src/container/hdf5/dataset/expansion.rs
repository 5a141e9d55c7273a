//! How far a filter can expand what it stores: a chunk that claims more is refused before any memory is
//! taken for it.
//!
//! Bounds of the encodings, rounded up; a filter that is not here, or that stores constant chunks in a few
//! bytes, has none. Used by [`super::chunked`].

use crate::container::hdf5::index::Filter;

/// Chunks up to this size are always believed.
const HARMLESS: u64 = 1 << 20;

/// Decoded bytes that one stored byte can become.
fn most(filter: u32) -> u64 {
    match filter {
        // Deflate: 258 bytes in 2 bits.
        1 => 1032,
        // Shuffle and Fletcher32 expand nothing.
        2 | 3 => 1,
        // LZF: 264 bytes in 3.
        32000 => 88,
        // LZ4 and Bitshuffle with LZ4: 255 bytes in one.
        32004 => 256,
        // Zstandard: blocks of 128 KiB in 4 bytes.
        32015 => 1 << 16,
        _ => u64::MAX,
    }
}

/// Whether a chunk of `stored` bytes can decode to `decoded`, skipping the filters in `mask`.
pub(super) fn is_plausible(filters: &[Filter], mask: u32, stored: u64, decoded: u64) -> bool {
    let applied = filters.iter().enumerate();
    // The frames around the streams may be left out of the account: they expand nothing.
    let applied = applied.filter(|&(at, _)| at >= 32 || mask & (1 << at) == 0);
    let ratio = applied.fold(1u64, |all, (_, filter)| all.saturating_mul(most(filter.id)));
    decoded <= HARMLESS || stored.saturating_mul(ratio) >= decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_size_bounds_the_chunk() {
        let filter = |id| Filter { id, values: vec![] };
        let (shuffle, gzip, other) = (filter(2), filter(1), filter(32026));
        let gib = 1 << 30;
        assert!(is_plausible(&[shuffle.clone(), gzip.clone()], 0, gib / 1032 + 1, gib));
        assert!(!is_plausible(&[shuffle.clone(), gzip.clone()], 0, gib / 1032 - 1, gib));
        // Deflate was skipped.
        assert!(!is_plausible(&[shuffle, gzip], 2, gib / 2, gib));
        assert!(is_plausible(&[other], 0, 10, gib));
        assert!(is_plausible(&[], 0, 1, HARMLESS));
    }
}
