//! Byte and bit shuffle with AVX2, for whole groups of 32 elements or 32 bytes of a row.
//!
//! Used by [`super::shuffle`] and [`super::bitshuffle`], which finish what is left over and are all
//! there is on other machines. AVX2 is looked for at run time; without it nothing is done here.
//!
//! The decoder interleaves `K` registers by a perfect shuffle, log2 `K` times. One such shuffle
//! rotates the bits of a byte's number, of which a lane has 4 and the registers have log2 `K`; so
//! four more bring everything back, and four are the way from elements to planes, whatever `K` is.
//! Elements 0..16 go through the low lanes, 16..32 through the high ones. Widths between the powers
//! of two are spread to the next one first.

use std::arch::x86_64::*;

use super::shuffle;
use crate::blosc::avx2::{GROUP, LANE, load, rotate, transpose_bits};

/// Rounds from elements to planes: bits of a byte's number within its lane.
const ROUNDS: usize = 4;

/// Separates as many elements as come in whole groups, and says how many.
pub(super) fn shuffle(elements: &[u8], width: usize, planes: &mut [u8], stride: usize) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    shuffle::check(elements, width, planes, stride);
    // SAFETY: the processor has AVX2; the planes were checked to have place.
    unsafe {
        match width {
            0 | 1 => 0,
            2 => narrow::<2, true>(elements, width, planes, stride),
            3 => narrow::<4, false>(elements, width, planes, stride),
            4 => narrow::<4, true>(elements, width, planes, stride),
            5..=7 => narrow::<8, false>(elements, width, planes, stride),
            8 => narrow::<8, true>(elements, width, planes, stride),
            9..=15 => narrow::<16, false>(elements, width, planes, stride),
            16 => narrow::<16, true>(elements, width, planes, stride),
            _ => wide(elements, width, planes, stride),
        }
    }
}

/// Turns a plane into bytes of eight rows as far as whole groups go; says how many of its bytes are
/// done.
///
/// `rows` are eight equally long rows, one after another, written from their byte `start` on.
pub(super) fn bitshuffle(plane: &[u8], rows: &mut [u8], start: usize) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    assert!(start + plane.len() / 8 <= rows.len() / 8);
    // SAFETY: the processor has AVX2, and the rows reach as far as the plane does.
    unsafe { transpose_plane(plane, rows, start) }
}

/// Up to 16 bytes, spread to `K`; `EXACT` says that there is nothing to spread.
///
/// # Safety
/// `width` must be 2 to `K` and divide the length of `elements`; plane `j` has place at `j *
/// stride`.
#[target_feature(enable = "avx2")]
unsafe fn narrow<const K: usize, const EXACT: bool>(
    elements: &[u8],
    width: usize,
    planes: &mut [u8],
    stride: usize,
) -> usize {
    let count = elements.len() / width;
    let step = LANE / K * width;
    let spread = spread_mask(K, width);
    let mut i = 0;
    // Each load is a full lane; one to be spread takes in some of what follows.
    while i + GROUP <= count && i * width + (2 * K - 1) * step + LANE <= elements.len() {
        // SAFETY: i * width is within the elements.
        let source = unsafe { elements.as_ptr().add(i * width) };
        let mut group = [_mm256_setzero_si256(); K];
        for (r, register) in group.iter_mut().enumerate() {
            // SAFETY: the lanes end at or before the loop's bound on elements.len(), r < K.
            *register = unsafe { load_lanes(source.add(r * step), source.add((K + r) * step)) };
            if !EXACT {
                *register = _mm256_shuffle_epi8(*register, spread);
            }
        }
        let group = rotate(group, ROUNDS);
        for (j, register) in group.into_iter().enumerate().take(width) {
            // SAFETY: plane j has `count` bytes at j * stride, and i + 32 <= count.
            unsafe { store(planes.as_mut_ptr().add(j * stride + i), register) };
        }
        i += GROUP;
    }
    i
}

/// More than 16 bytes, taken 16 at a time; the last 16 may overlap others.
///
/// # Safety
/// `width` must be at least 16 and divide the length of `elements`; plane `j` has place at `j *
/// stride`.
#[target_feature(enable = "avx2")]
unsafe fn wide(elements: &[u8], width: usize, planes: &mut [u8], stride: usize) -> usize {
    let count = elements.len() / width;
    let mut i = 0;
    while i + GROUP <= count {
        for start in (0..width).step_by(LANE) {
            let start = start.min(width - LANE);
            let mut group = [_mm256_setzero_si256(); LANE];
            for (r, register) in group.iter_mut().enumerate() {
                let at = (i + r) * width + start;
                // SAFETY: elements i + r and i + r + 16 are below count, start + 16 <= width.
                *register = unsafe {
                    let source = elements.as_ptr().add(at);
                    load_lanes(source, source.add(LANE * width))
                };
            }
            for (j, register) in rotate(group, ROUNDS).into_iter().enumerate() {
                // SAFETY: start + j < width, and i + 32 <= count.
                unsafe { store(planes.as_mut_ptr().add((start + j) * stride + i), register) };
            }
        }
        i += GROUP;
    }
    i
}

/// Bit `k` of byte `8 * m + e` of the plane becomes bit `e` of byte `start + m` in row `k`.
///
/// # Safety
/// `start` plus an eighth of the plane's length must be at most an eighth of that of `rows`.
#[target_feature(enable = "avx2")]
unsafe fn transpose_plane(plane: &[u8], rows: &mut [u8], start: usize) -> usize {
    let stride = rows.len() / 8;
    let mut m = 0;
    while m + GROUP <= plane.len() / 8 {
        let mut group = [_mm256_setzero_si256(); 8];
        for (r, register) in group.iter_mut().enumerate() {
            let at = 8 * m + LANE * r;
            // SAFETY: the last lane ends at 8 * (m + 32) <= plane.len().
            *register = unsafe {
                let source = plane.as_ptr().add(at);
                load_lanes(source, source.add(8 * LANE))
            };
        }
        let group = transpose_bits(rotate(group, ROUNDS));
        for (k, register) in group.into_iter().enumerate() {
            // SAFETY: k < 8 and start + m + 32 <= stride.
            unsafe { store(rows.as_mut_ptr().add(k * stride + start + m), register) };
        }
        m += GROUP;
    }
    8 * m
}

/// Moves every `width` bytes to the next place that is a multiple of `padded`, within each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_mask(padded: usize, width: usize) -> __m256i {
    let mut mask = [0u8; 2 * LANE];
    for (i, from) in mask.iter_mut().enumerate() {
        let i = i % LANE;
        *from = (i / padded * width + (i % padded).min(width - 1)) as u8;
    }
    // SAFETY: the array has 32 bytes.
    unsafe { load(mask.as_ptr()) }
}

/// # Safety
/// 16 bytes must be readable at each place.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_lanes(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}

/// # Safety
/// 32 bytes must be writable at `target`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(target: *mut u8, register: __m256i) {
    // SAFETY: the caller's.
    unsafe { _mm256_storeu_si256(target.cast(), register) }
}
