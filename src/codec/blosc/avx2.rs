//! Byte and bit shuffle undone with AVX2, for whole groups of 32 elements or 32 bytes of a row.
//!
//! Used by [`super::shuffle`] and [`super::bitshuffle`], which finish what is left over and are all
//! there is on other machines. AVX2 is looked for at run time; without it nothing is done here.
//!
//! All rests on one step, [`interleave`]: `K` registers, of which register `j` holds byte `j` of 32
//! elements, become `K` registers of whole elements, elements 0..16 in the low 128-bit lanes and
//! 16..32 in the high ones. Widths between the powers of two repeat their last plane up to the next
//! one, and the bytes too many are squeezed out before storing.

use super::shuffle::Planes;
use std::arch::x86_64::*;

/// Elements per round: bytes of a register.
pub(super) const GROUP: usize = 32;
/// How far ahead planes are fetched. They come from the second cache level at best, and eight or
/// sixteen of them at once are more than the processor fetches ahead by itself.
const AHEAD: usize = 512;
/// Bytes of a 128-bit lane, the unit of storing.
pub(super) const LANE: usize = 16;

/// Interleaves as many elements as come in whole groups, and says how many.
///
/// `elements` must have the total length of the planes.
pub(super) fn unshuffle(planes: Planes, elements: &mut [u8]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    assert_eq!(elements.len(), planes.width() * planes.count());
    // SAFETY: the processor has AVX2; planes are of equal length, and `elements` of their total.
    unsafe {
        match (planes.width(), planes) {
            (0 | 1, _) => 0,
            (2, _) => narrow::<2, true>(planes, elements),
            (3, _) => narrow::<4, false>(planes, elements),
            (4, _) => narrow::<4, true>(planes, elements),
            (5..=7, _) => narrow::<8, false>(planes, elements),
            (8, _) => narrow::<8, true>(planes, elements),
            (9..=15, _) => narrow::<16, false>(planes, elements),
            (16, _) => narrow::<16, true>(planes, elements),
            (width, Planes::Joined { bytes, .. }) => wide(bytes, width, elements),
            (_, Planes::Apart(_)) => 0,
        }
    }
}

/// Undoes bit shuffle of eight rows as far as whole groups go; says how many bytes are written.
///
/// `rows` are eight equally long rows, one after another. Their bytes from `start` on become
/// `plane`, eight bytes of it for each.
pub(super) fn unbitshuffle(rows: &[u8], start: usize, plane: &mut [u8]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    assert!(start + plane.len() / 8 <= rows.len() / 8);
    // SAFETY: the processor has AVX2, and the rows reach as far as the plane does.
    unsafe { transpose_rows(rows, start, plane) }
}

/// Up to 16 planes, padded to `K`; `EXACT` says that no padding is needed.
///
/// # Safety
/// There must be 1 to `K` planes of equal length, and `elements` must have their total length.
#[target_feature(enable = "avx2")]
unsafe fn narrow<const K: usize, const EXACT: bool>(planes: Planes, elements: &mut [u8]) -> usize {
    let (width, count) = (planes.width(), planes.count());
    let sources: [*const u8; K] = std::array::from_fn(|j| planes.plane(j.min(width - 1)).as_ptr());
    let step = LANE / K * width;
    let squeeze = squeeze_mask(K, width);
    let mut i = 0;
    // Each store is a full lane; a squeezed one overruns into what the next store overwrites.
    while i + GROUP <= count && i * width + (2 * K - 1) * step + LANE <= elements.len() {
        let mut group = [_mm256_setzero_si256(); K];
        for (register, source) in group.iter_mut().zip(sources) {
            _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(i + AHEAD).cast());
            // SAFETY: i + 32 <= count, the length of every plane.
            *register = unsafe { load(source.add(i)) };
        }
        let mut group = interleave(group);
        for register in group.iter_mut().filter(|_| !EXACT) {
            *register = _mm256_shuffle_epi8(*register, squeeze);
        }
        // SAFETY: i * width is within the elements.
        let target = unsafe { elements.as_mut_ptr().add(i * width) };
        for (r, &register) in group.iter().enumerate() {
            // SAFETY: the lane ends at or before the loop's bound on elements.len(), r < K.
            unsafe { store_low(target.add(r * step), register) };
        }
        for (r, &register) in group.iter().enumerate() {
            // SAFETY: as above.
            unsafe { store_high(target.add((K + r) * step), register) };
        }
        i += GROUP;
    }
    i
}

/// More than 16 planes, one after another, taken 16 at a time; the last 16 may overlap others.
///
/// # Safety
/// `width` must be at least 16 and divide the length of `bytes`, which must be that of `elements`.
#[target_feature(enable = "avx2")]
unsafe fn wide(bytes: &[u8], width: usize, elements: &mut [u8]) -> usize {
    let count = bytes.len() / width;
    let mut i = 0;
    while i + GROUP <= count {
        for start in (0..width).step_by(LANE) {
            let start = start.min(width - LANE);
            let mut group = [_mm256_setzero_si256(); LANE];
            for (j, register) in group.iter_mut().enumerate() {
                // SAFETY: start + j < width and i + 32 <= count.
                *register = unsafe { load(bytes.as_ptr().add((start + j) * count + i)) };
            }
            for (r, register) in interleave(group).into_iter().enumerate() {
                let at = (i + r) * width + start;
                // SAFETY: elements i + r and i + r + 16 are below count, start + 16 <= width.
                unsafe {
                    store_low(elements.as_mut_ptr().add(at), register);
                    store_high(elements.as_mut_ptr().add(at + LANE * width), register);
                }
            }
        }
        i += GROUP;
    }
    i
}

/// Bit `e` of byte `start + m` in row `k` becomes bit `k` of byte `8 * m + e` in the plane.
///
/// # Safety
/// `start` plus an eighth of the plane's length must be at most an eighth of that of `rows`.
#[target_feature(enable = "avx2")]
unsafe fn transpose_rows(rows: &[u8], start: usize, plane: &mut [u8]) -> usize {
    let stride = rows.len() / 8;
    let mut m = 0;
    while m + GROUP <= plane.len() / 8 {
        let mut group = [_mm256_setzero_si256(); 8];
        for (k, register) in group.iter_mut().enumerate() {
            // SAFETY: k < 8 and start + m + 32 <= stride.
            *register = unsafe { load(rows.as_ptr().add(k * stride + start + m)) };
        }
        for (r, register) in interleave(transpose_bits(group)).into_iter().enumerate() {
            let at = 8 * m + LANE * r;
            // SAFETY: the last lane ends at 8 * (m + 32) <= plane.len().
            unsafe {
                store_low(plane.as_mut_ptr().add(at), register);
                store_high(plane.as_mut_ptr().add(at + 8 * LANE), register);
            }
        }
        m += GROUP;
    }
    8 * m
}

/// Shuffles `K` registers perfectly, log2 `K` times.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave<const K: usize>(group: [__m256i; K]) -> [__m256i; K] {
    rotate(group, K.ilog2() as usize)
}

/// Shuffles `K` registers perfectly, so many times.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn rotate<const K: usize>(mut group: [__m256i; K], times: usize) -> [__m256i; K] {
    for _ in 0..times {
        let halves = group;
        for i in 0..K / 2 {
            group[2 * i] = _mm256_unpacklo_epi8(halves[i], halves[i + K / 2]);
            group[2 * i + 1] = _mm256_unpackhi_epi8(halves[i], halves[i + K / 2]);
        }
    }
    group
}

/// Transposes 8 x 8 bits, row `k` in register `k`, at each of 32 byte positions.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transpose_bits(rows: [__m256i; 8]) -> [__m256i; 8] {
    let rows = swap_bits::<4>(rows, _mm256_set1_epi8(0x0f));
    let rows = swap_bits::<2>(rows, _mm256_set1_epi8(0x33));
    swap_bits::<1>(rows, _mm256_set1_epi8(0x55))
}

/// Exchanges the high bits of each row with the low bits of the row `S` below it.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const S: i32>(mut rows: [__m256i; 8], low: __m256i) -> [__m256i; 8] {
    let apart = S as usize;
    for i in (0..8).filter(|i| i & apart == 0) {
        let (upper, lower) = (rows[i], rows[i + apart]);
        let moved = _mm256_srli_epi16::<S>(upper);
        let differing = _mm256_and_si256(_mm256_xor_si256(moved, lower), low);
        rows[i + apart] = _mm256_xor_si256(lower, differing);
        rows[i] = _mm256_xor_si256(upper, _mm256_slli_epi16::<S>(differing));
    }
    rows
}

/// Moves the first `width` of every `padded` bytes together, within each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn squeeze_mask(padded: usize, width: usize) -> __m256i {
    let mut mask = [0u8; LANE];
    for (i, from) in mask.iter_mut().take(LANE / padded * width).enumerate() {
        *from = (i / width * padded + i % width) as u8;
    }
    // SAFETY: the array has 16 bytes, and the load needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(mask.as_ptr().cast()) })
}

/// # Safety
/// 32 bytes must be readable at `source`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load(source: *const u8) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_loadu_si256(source.cast()) }
}

/// # Safety
/// 16 bytes must be writable at `target`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_low(target: *mut u8, whole: __m256i) {
    // SAFETY: the caller's.
    unsafe { _mm_storeu_si128(target.cast(), _mm256_castsi256_si128(whole)) }
}

/// # Safety
/// 16 bytes must be writable at `target`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_high(target: *mut u8, whole: __m256i) {
    // SAFETY: the caller's.
    unsafe { _mm_storeu_si128(target.cast(), _mm256_extracti128_si256::<1>(whole)) }
}
