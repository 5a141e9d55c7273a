//! Undoes byte shuffle: byte planes back to elements.
//!
//! Plane `j` holds byte `j` of every element. The planes are given one by one, because those of a
//! split block need not lie side by side: raw ones are read from the stored bytes where they are.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

#[cfg(target_arch = "x86_64")]
use super::avx2;

/// Equally long byte planes, where they lie.
#[derive(Clone, Copy)]
pub(crate) enum Planes<'a> {
    /// Up to 16 planes, all of one length.
    Apart(&'a [&'a [u8]]),
    /// `width` planes one after another; `width` divides the length.
    Joined { bytes: &'a [u8], width: usize },
}

impl<'a> Planes<'a> {
    /// Number of planes: bytes per element.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Apart(planes) => planes.len(),
            Self::Joined { width, .. } => width,
        }
    }

    /// Length of each plane: number of elements.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Apart(planes) => planes.first().map_or(0, |plane| plane.len()),
            Self::Joined { bytes, width } => bytes.len() / width,
        }
    }

    pub(super) fn plane(self, j: usize) -> &'a [u8] {
        match self {
            Self::Apart(planes) => planes[j],
            Self::Joined { bytes, width } => {
                let count = bytes.len() / width;
                &bytes[j * count..(j + 1) * count]
            }
        }
    }

    fn check(self) {
        match self {
            Self::Apart(planes) => assert!(planes.iter().all(|plane| plane.len() == self.count())),
            Self::Joined { bytes, width } => assert!(bytes.len().is_multiple_of(width)),
        }
    }
}

/// Interleaves `planes` into `elements`, which they must fill exactly.
pub(crate) fn unshuffle(planes: Planes, elements: &mut [u8]) {
    planes.check();
    assert_eq!(elements.len(), planes.width() * planes.count());
    #[cfg(target_arch = "x86_64")]
    let done = avx2::unshuffle(planes, elements);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    interleave_from(done, planes, elements);
}

/// Interleaves the elements from number `first` on, byte by byte.
fn interleave_from(first: usize, planes: Planes, elements: &mut [u8]) {
    let width = planes.width();
    if width == 1 {
        return elements[first..].copy_from_slice(&planes.plane(0)[first..]);
    }
    for j in 0..width {
        let targets = elements[first * width..].iter_mut().skip(j).step_by(width);
        for (target, byte) in targets.zip(&planes.plane(j)[first..]) {
            *target = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::encoder::{noise, shuffle, typesizes};
    use proptest::prelude::*;

    fn check(width: usize, count: usize) {
        let plain = noise(width * count);
        let stored = shuffle(&plain, width);
        let joined = Planes::Joined {
            bytes: &stored,
            width,
        };
        let mut fenced = vec![0xaa; plain.len() + 64];
        unshuffle(joined, &mut fenced[32..32 + plain.len()]);
        let (before, rest) = fenced.split_at(32);
        let (out, after) = rest.split_at(plain.len());
        assert!(out == plain, "typesize {width}, {count} elements");
        assert!(before.iter().chain(after).all(|byte| *byte == 0xaa));
        let mut out = vec![0xaa; plain.len()];
        interleave_from(0, joined, &mut out);
        assert!(out == plain, "scalar, typesize {width}, {count} elements");
        let apart: Vec<&[u8]> = (0..width).map(|j| joined.plane(j)).collect();
        out.fill(0xaa);
        unshuffle(Planes::Apart(&apart), &mut out);
        assert!(out == plain, "apart, typesize {width}, {count} elements");
    }

    #[test]
    fn every_typesize() {
        for width in typesizes() {
            for count in [0, 1, 31, 33, 70] {
                check(width, count);
            }
        }
    }

    #[test]
    fn no_planes() {
        unshuffle(Planes::Apart(&[]), &mut []);
    }

    proptest! {
        #[test]
        fn any_count(width in 1usize..=40, count in 0usize..700) {
            check(width, count);
        }
    }
}
