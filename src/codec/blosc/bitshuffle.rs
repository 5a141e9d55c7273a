//! Undoes bit shuffle: bit planes back to elements.
//!
//! Row `8 * j + k` holds bit `k` of byte `j` of every element, eight elements to a byte. The eight
//! rows of one `j` are given together and are as long as one byte plane: they are first turned into
//! that plane, a tile of elements at a time, and the tile's planes then interleaved as after byte
//! shuffle. A tile is small, so its planes stay in the first-level cache.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::shuffle::{Planes, unshuffle};

/// Elements per tile, a multiple of the 256 that AVX2 takes at once.
pub(super) const TILE: usize = 256;

/// Bytes of scratch that elements of up to 255 bytes need at most.
pub(crate) const TILE_MOST: usize = 255 * TILE;

/// Bytes of scratch that [`unbitshuffle`] needs for these rows.
pub(crate) fn scratch_len(rows: Planes) -> usize {
    rows.width() * rows.count().min(TILE)
}

/// Bytes of scratch that elements of `width` bytes need, of which there are `len` bytes.
pub(crate) fn most_scratch(width: usize, len: usize) -> usize {
    width * (len / width).min(TILE)
}

/// Turns groups of eight rows into `elements`, which they must fill exactly.
///
/// The number of elements must be a multiple of 8.
pub(crate) fn unbitshuffle(rows: Planes, elements: &mut [u8], scratch: &mut [u8]) {
    let (width, count) = (rows.width(), rows.count());
    assert!(count.is_multiple_of(8) && elements.len() == width * count);
    let mut first = 0;
    while first < count {
        let tile = TILE.min(count - first);
        let scratch = &mut scratch[..width * tile];
        for (j, plane) in scratch.chunks_exact_mut(tile).enumerate() {
            transpose(rows.plane(j), first / 8, plane);
        }
        let elements = &mut elements[first * width..(first + tile) * width];
        unshuffle(
            Planes::Joined {
                bytes: scratch,
                width,
            },
            elements,
        );
        first += tile;
    }
}

/// Turns the bytes from `start` on of eight `rows` into `plane`, eight of its bytes for each.
fn transpose(rows: &[u8], start: usize, plane: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    let done = avx2::unbitshuffle(rows, start, plane);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    transpose_from(done / 8, rows, start, plane);
}

/// Turns the bytes of eight `rows` into `plane` from row byte `start + first` on, 8 x 8 bits at a
/// time.
fn transpose_from(first: usize, rows: &[u8], start: usize, plane: &mut [u8]) {
    let stride = rows.len() / 8;
    for (m, eight) in plane.chunks_exact_mut(8).enumerate().skip(first) {
        let square = std::array::from_fn(|k| rows[k * stride + start + m]);
        eight.copy_from_slice(&transpose_square(u64::from_le_bytes(square)).to_le_bytes());
    }
}

/// Transposes 8 x 8 bits: byte `r`, bit `c` goes to byte `c`, bit `r`.
pub(super) fn transpose_square(mut square: u64) -> u64 {
    for (shift, mask) in [
        (7, 0x00aa_00aa_00aa_00aa),
        (14, 0xcccc_0000_cccc),
        (28, 0xf0f0_f0f0),
    ] {
        let differing = (square ^ (square >> shift)) & mask;
        square ^= differing ^ (differing << shift);
    }
    square
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::encoder::{bitshuffle, noise, typesizes};
    use proptest::prelude::*;

    fn check(width: usize, count: usize) {
        let plain = noise(width * count);
        let stored = bitshuffle(&plain, width);
        let rows = Planes::Joined {
            bytes: &stored,
            width,
        };
        let mut out = vec![0xaa; plain.len()];
        unbitshuffle(rows, &mut out, &mut vec![0; scratch_len(rows)]);
        assert!(out == plain, "typesize {width}, {count} elements");
    }

    #[test]
    fn every_typesize() {
        for width in typesizes() {
            for count in [8, 264] {
                check(width, count);
            }
        }
    }

    #[test]
    fn scalar_and_vector_agree() {
        let rows = noise(8 * 137);
        for (start, len) in [(0, 137), (3, 64), (5, 132), (106, 31), (136, 1)] {
            let mut vector = vec![0; 8 * len];
            let mut scalar = vec![1; 8 * len];
            transpose(&rows, start, &mut vector);
            transpose_from(0, &rows, start, &mut scalar);
            assert_eq!(vector, scalar);
        }
    }

    proptest! {
        #[test]
        fn any_count(width in 1usize..=20, eighths in 0usize..80) {
            check(width, 8 * eighths);
        }
    }
}
