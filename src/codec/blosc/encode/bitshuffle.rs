//! Bit shuffle: elements to bit planes, the way back of [`super::super::bitshuffle`].
//!
//! A tile of elements is separated into byte planes, small enough for the first-level cache, and
//! each piece of a plane into its eight rows of bits. The eight rows of a byte lie one behind the
//! other, `stride` bytes before those of the next.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::shuffle::{self, shuffle};
use crate::blosc::bitshuffle::{TILE, transpose_square};

/// Writes bit `k` of byte `j` of every element into row `k` of those that begin at `j * stride`.
///
/// `elements` are as many whole elements of `width` bytes as a multiple of 8; `tile` is scratch of
/// the size that the decoder takes.
pub(crate) fn bitshuffle(
    elements: &[u8],
    width: usize,
    rows: &mut [u8],
    stride: usize,
    tile: &mut [u8],
) {
    shuffle::check(elements, width, rows, stride);
    let count = elements.len() / width;
    assert!(count.is_multiple_of(8));
    for first in (0..count).step_by(TILE) {
        let len = TILE.min(count - first);
        let planes = &mut tile[..width * len];
        shuffle(
            &elements[first * width..(first + len) * width],
            width,
            planes,
            len,
        );
        for (j, plane) in planes.chunks_exact(len).enumerate() {
            transpose(plane, &mut rows[j * stride..j * stride + count], first / 8);
        }
    }
}

/// Turns a piece of a plane into bytes of its eight `rows`, from `start` on, one for eight.
fn transpose(plane: &[u8], rows: &mut [u8], start: usize) {
    #[cfg(target_arch = "x86_64")]
    let done = avx2::bitshuffle(plane, rows, start);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    transpose_from(done / 8, plane, rows, start);
}

/// Turns a piece of a plane into bytes of its eight `rows` from row byte `start + first` on, 8 x 8
/// bits at a time.
fn transpose_from(first: usize, plane: &[u8], rows: &mut [u8], start: usize) {
    let stride = rows.len() / 8;
    for (m, square) in plane.as_chunks::<8>().0.iter().enumerate().skip(first) {
        let turned = transpose_square(u64::from_le_bytes(*square)).to_le_bytes();
        for (k, byte) in turned.into_iter().enumerate() {
            rows[k * stride + start + m] = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::encoder::{self, noise, typesizes};
    use proptest::prelude::*;

    fn check(width: usize, count: usize, gap: usize) {
        let plain = noise(width * count);
        let expected = encoder::bitshuffle(&plain, width);
        let stride = count + gap;
        let mut rows = vec![0xaa; width * stride];
        let mut tile = vec![0x55; width * count.min(TILE)];
        bitshuffle(&plain, width, &mut rows, stride, &mut tile);
        for j in 0..width {
            let found = &rows[j * stride..][..count];
            assert!(found == &expected[j * count..][..count], "{width}, {count}");
        }
    }

    #[test]
    fn every_typesize() {
        for width in typesizes() {
            for count in [8, 264] {
                check(width, count, 0);
            }
        }
    }

    #[test]
    fn scalar_and_vector_agree() {
        let plane = noise(8 * 137);
        for (start, len) in [(0, 137), (3, 64), (5, 132), (106, 31), (136, 1)] {
            let (mut vector, mut scalar) = (vec![0; 8 * 137], vec![0; 8 * 137]);
            transpose(&plane[..8 * len], &mut vector, start);
            transpose_from(0, &plane[..8 * len], &mut scalar, start);
            assert_eq!(vector, scalar);
        }
    }

    proptest! {
        #[test]
        fn any_count(width in 1usize..=20, eighths in 0usize..80, gap in 0usize..70) {
            check(width, 8 * eighths, gap);
        }
    }
}
