//! Byte shuffle: elements to byte planes, the way back of [`super::super::shuffle`].
//!
//! The planes lie `stride` bytes apart, so that those of a split block need not compete for cache
//! lines.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

#[cfg(target_arch = "x86_64")]
use super::avx2;

/// Writes byte `j` of every element into plane `j`, which begins at `j * stride`.
///
/// `elements` are whole elements of `width` bytes, and the last plane ends within `planes`.
pub(crate) fn shuffle(elements: &[u8], width: usize, planes: &mut [u8], stride: usize) {
    check(elements, width, planes, stride);
    #[cfg(target_arch = "x86_64")]
    let done = avx2::shuffle(elements, width, planes, stride);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    separate_from(done, elements, width, planes, stride);
}

/// Panics unless the planes have place.
pub(super) fn check(elements: &[u8], width: usize, planes: &[u8], stride: usize) {
    assert!(width > 0 && elements.len().is_multiple_of(width));
    let count = elements.len() / width;
    assert!(count <= stride && (width - 1) * stride + count <= planes.len());
}

/// Separates the elements from number `first` on, byte by byte.
fn separate_from(first: usize, elements: &[u8], width: usize, planes: &mut [u8], stride: usize) {
    let count = elements.len() / width;
    for j in 0..width {
        let plane = &mut planes[j * stride + first..j * stride + count];
        let bytes = elements[first * width..].iter().skip(j).step_by(width);
        for (place, byte) in plane.iter_mut().zip(bytes) {
            *place = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::encoder::{self, noise, typesizes};
    use proptest::prelude::*;

    fn check_against_the_letter(width: usize, count: usize, gap: usize) {
        let plain = noise(width * count);
        let expected = encoder::shuffle(&plain, width);
        let stride = count + gap;
        let len = (width - 1) * stride + count;
        let (mut vector, mut scalar) = (vec![0xaa; len + 1], vec![0xaa; len + 1]);
        shuffle(&plain, width, &mut vector[..len], stride);
        separate_from(0, &plain, width, &mut scalar[..len], stride);
        assert!(vector == scalar, "typesize {width}, {count} elements");
        for j in 0..width {
            let plane = &vector[j * stride..][..count];
            assert!(plane == &expected[j * count..][..count], "{width}, {count}");
        }
    }

    #[test]
    fn every_typesize() {
        for width in typesizes() {
            for count in [0, 1, 31, 33, 70] {
                check_against_the_letter(width, count, 0);
            }
        }
    }

    proptest! {
        #[test]
        fn any_count(width in 1usize..=40, count in 0usize..700, gap in 0usize..70) {
            check_against_the_letter(width, count, gap);
        }
    }
}
