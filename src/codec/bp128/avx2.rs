//! BP-128 decoding with AVX2: two rows of a chunk, eight values, per register.
//!
//! There is one unpacking kernel per bit width, with every word number and shift a constant. Rows
//! `2j` and `2j + 1` start in the same word or in neighbouring ones, so one load per pair brings
//! the low bits of both, and a second one, of the words after, is needed only if a field crosses.
//! Neither ever leaves the words of the chunk. Differences are summed in a second pass over the
//! chunk, which is still in the first-level cache. Kernels that also undo zigzag would save a
//! twentieth of the time of `d1z`, for three times the code.
//!
//! Assumes a run whose lengths were checked by the parent module. The only `unsafe` is calls that
//! need AVX2, and unaligned loads and stores through references to arrays of the right size.

use std::arch::x86_64::*;

use super::{CHUNK_BYTES, ChunkBytes, Packed, RAW_BITS, Transform, packed_chunks};

/// Two rows of values, the content of a register.
pub(super) const PAIR_BYTES: usize = 32;

/// Unpacks the fields of a chunk and adds a constant to each.
type Kernel = unsafe fn(&[u8], u32, &mut ChunkBytes);

macro_rules! kernels {
    ($($bits:literal)*) => { [$(unpack::<$bits>),*] };
}

/// By bit width; 32 is not here, as those chunks are copied.
static KERNELS: [Kernel; RAW_BITS] = kernels!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);

/// Decodes the chunks of a checked run, or returns `false` if the CPU has no AVX2.
pub(super) fn decode_run(
    transform: Transform,
    idx: &[u32],
    starts: &[u32],
    words: &[u8],
    out: &mut [u8],
) -> bool {
    if !is_x86_feature_detected!("avx2") {
        return false;
    }
    let mut packed = packed_chunks(idx, starts, words);
    let (whole, cut) = out.as_chunks_mut::<CHUNK_BYTES>();
    for (out, packed) in whole.iter_mut().zip(&mut packed) {
        // SAFETY: the CPU has AVX2, as checked above.
        unsafe { decode_chunk(transform, packed, out) };
    }
    if let (false, Some(packed)) = (cut.is_empty(), packed.next()) {
        let mut chunk = [0; CHUNK_BYTES];
        // SAFETY: the CPU has AVX2, as checked above.
        unsafe { decode_chunk(transform, packed, &mut chunk) };
        cut.copy_from_slice(&chunk[..cut.len()]);
    }
    true
}

#[target_feature(enable = "avx2")]
fn decode_chunk(transform: Transform, packed: Packed<'_>, out: &mut ChunkBytes) {
    if packed.bits() == RAW_BITS {
        out.copy_from_slice(packed.bytes);
        return;
    }
    let bias = u32::from(transform == Transform::MinusOne);
    // SAFETY: the kernels need AVX2, as this function does.
    unsafe { KERNELS[packed.bits()](packed.bytes, bias, out) };
    match transform {
        Transform::Plain | Transform::MinusOne => {}
        Transform::Delta => prefix_sum::<false>(packed.start, out),
        Transform::DeltaZigzag => prefix_sum::<true>(packed.start, out),
    }
}

#[target_feature(enable = "avx2")]
fn unpack<const B: usize>(src: &[u8], bias: u32, out: &mut ChunkBytes) {
    // Lets the compiler drop the bounds checks of all loads below.
    assert_eq!(src.len(), 16 * B);
    let bias = _mm256_set1_epi32(bias.cast_signed());
    // Written out, because loops of this size are not unrolled and shifts would not be constant.
    let out = out.as_chunks_mut::<PAIR_BYTES>().0;
    macro_rules! pairs {
        ($($pair:literal)*) => {
            $(store(&mut out[$pair], _mm256_add_epi32(fields::<B, $pair>(src), bias));)*
        };
    }
    pairs!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// The fields of rows `2 * PAIR` and `2 * PAIR + 1`.
#[target_feature(enable = "avx2")]
#[inline]
fn fields<const B: usize, const PAIR: usize>(src: &[u8]) -> __m256i {
    if B == 0 {
        return _mm256_setzero_si256();
    }
    // Without `map`: of the 512 pairs it would be half of all code that the compiler has to
    // optimise.
    let bit = [2 * PAIR * B, (2 * PAIR + 1) * B];
    let word = [bit[0] / 32, bit[1] / 32];
    let shift = [(bit[0] % 32) as u32, (bit[1] % 32) as u32];
    let end = [bit[0] % 32 + B, bit[1] % 32 + B];
    let mask = _mm256_set1_epi32(((1u32 << B) - 1).cast_signed());
    let low = _mm256_srlv_epi32(load_words(src, word), halves(shift));
    // Of a field that does not cross, any word will do: its bits are shifted beyond the mask.
    let next = match (end[0] > 32, end[1] > 32) {
        (false, false) => return _mm256_and_si256(low, mask),
        (true, false) => [word[0] + 1; 2],
        (false, true) => [word[1] + 1; 2],
        (true, true) => [word[0] + 1, word[1] + 1],
    };
    let high = _mm256_sllv_epi32(
        load_words(src, next),
        halves([32 - shift[0], 32 - shift[1]]),
    );
    _mm256_and_si256(_mm256_or_si256(low, high), mask)
}

/// Replaces the differences in a chunk by values.
///
/// Sums the two halves of the chunk side by side, then adds the last value of the first half to the
/// second: so no step but the last moves anything between the halves of a register.
#[target_feature(enable = "avx2")]
fn prefix_sum<const ZIGZAG: bool>(start: u32, out: &mut ChunkBytes) {
    let (first, second) = out.split_at_mut(CHUNK_BYTES / 2);
    let mut carry = halves([start, 0]);
    for (a, b) in first
        .as_chunks_mut()
        .0
        .iter_mut()
        .zip(second.as_chunks_mut().0)
    {
        let x = _mm256_set_m128i(load_half(b), load_half(a));
        let x = row_sums(if ZIGZAG { undo_zigzag(x) } else { x });
        let values = _mm256_add_epi32(x, carry);
        store_half(a, _mm256_castsi256_si128(values));
        store_half(b, _mm256_extracti128_si256::<1>(values));
        // One addition and one shuffle wait for the row before: less than the row's other work.
        carry = _mm256_shuffle_epi32::<0xff>(values);
    }
    let carry = _mm256_broadcastsi128_si256(_mm256_castsi256_si128(carry));
    for pair in second.as_chunks_mut().0 {
        store(pair, _mm256_add_epi32(load(pair), carry));
    }
}

/// Running sums of the four values in each half.
#[target_feature(enable = "avx2")]
#[inline]
fn row_sums(x: __m256i) -> __m256i {
    let x = _mm256_add_epi32(x, _mm256_slli_epi64::<32>(x));
    // The second value to the last two places; a negative number puts 0.
    let pattern = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 4, 5, 6, 7, 4, 5, 6, 7);
    _mm256_add_epi32(
        x,
        _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(pattern)),
    )
}

/// 0, 1, 2, 3, .. stand for 0, -1, 1, -2, ..
#[target_feature(enable = "avx2")]
#[inline]
fn undo_zigzag(x: __m256i) -> __m256i {
    let odd = _mm256_and_si256(x, _mm256_set1_epi32(1));
    let sign = _mm256_sub_epi32(_mm256_setzero_si256(), odd);
    _mm256_xor_si256(_mm256_srli_epi32::<1>(x), sign)
}

/// A number for each half of a register, in all its places.
#[target_feature(enable = "avx2")]
#[inline]
fn halves([low, high]: [u32; 2]) -> __m256i {
    let (low, high) = (low.cast_signed(), high.cast_signed());
    _mm256_set_m128i(_mm_set1_epi32(high), _mm_set1_epi32(low))
}

/// Words `a` and `b` of the four lanes; `b` is `a` or `a + 1`.
#[target_feature(enable = "avx2")]
#[inline]
fn load_words(src: &[u8], [a, b]: [usize; 2]) -> __m256i {
    let src = &src[16 * a..16 * (b + 1)];
    match (src.first_chunk(), src.first_chunk()) {
        (_, Some(both)) => load(both),
        (Some(one), None) => _mm256_broadcastsi128_si256(load_half(one)),
        (None, None) => _mm256_setzero_si256(), // not reached: `src` has 16 or 32 bytes
    }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference is to 16 readable bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load(bytes: &[u8; PAIR_BYTES]) -> __m256i {
    // SAFETY: the reference is to 32 readable bytes, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store(bytes: &mut [u8; PAIR_BYTES], x: __m256i) {
    // SAFETY: the reference is to 32 writable bytes, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), x) }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store_half(bytes: &mut [u8; 16], x: __m128i) {
    // SAFETY: the reference is to 16 writable bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), x) }
}
