//! BP-128 encoding with AVX2.
//!
//! A first pass makes the fields of a chunk, eight values per register, and finds its width; a
//! second one packs them, a row of four per register, with one kernel per bit width, in which every
//! word number and shift is a constant. A chunk stays in registers and the first-level cache
//! between them.
//!
//! Assumes a run whose lengths were checked by the parent module. The only `unsafe` is calls that
//! need AVX2.

use std::arch::x86_64::*;

use super::{ChunkBytes, bit_width, encode_run as encode_chunks};
use crate::bp128::avx2::{PAIR_BYTES, load, load_half, store, store_half};
use crate::bp128::{CHUNK_BYTES, RAW_BITS, Transform};

/// A row of fields, or a word of each lane.
const ROW_BYTES: usize = 16;

/// Packs the fields of a chunk.
type Packer = unsafe fn(&ChunkBytes, &mut ChunkBytes);

macro_rules! packers {
    ($($bits:literal)*) => { [$(pack::<$bits>),*] };
}

/// By bit width; 32 is not here, as those chunks are copied.
static PACKERS: [Packer; RAW_BITS] = packers!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);

/// Encodes a checked run, unless the CPU has no AVX2.
pub(super) fn encode_run(
    transform: Transform,
    values: &[u8],
    idx: &mut [u32],
    starts: &mut [u32],
    words: &mut [u8],
) -> Option<usize> {
    if !is_x86_feature_detected!("avx2") {
        return None;
    }
    let encode = match transform {
        Transform::Plain => encode_chunk::<PlainFields>,
        Transform::MinusOne => encode_chunk::<LessOne>,
        Transform::Delta => encode_chunk::<Differences>,
        Transform::DeltaZigzag => encode_chunk::<ZigzagDifferences>,
    };
    Some(encode_chunks(values, idx, starts, words, |chunk, words| {
        // SAFETY: the CPU has AVX2, as checked above.
        unsafe { encode(chunk, words) }
    }))
}

/// What a transform makes of eight values and those before each of them.
trait Transformed {
    /// # Safety
    /// The CPU has AVX2.
    unsafe fn of(values: __m256i, before: __m256i) -> __m256i;
}

struct PlainFields;
struct LessOne;
struct Differences;
struct ZigzagDifferences;

impl Transformed for PlainFields {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn of(values: __m256i, _before: __m256i) -> __m256i {
        values
    }
}

impl Transformed for LessOne {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn of(values: __m256i, _before: __m256i) -> __m256i {
        // All bits set are -1.
        _mm256_add_epi32(values, _mm256_cmpeq_epi32(values, values))
    }
}

impl Transformed for Differences {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn of(values: __m256i, before: __m256i) -> __m256i {
        _mm256_sub_epi32(values, before)
    }
}

impl Transformed for ZigzagDifferences {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn of(values: __m256i, before: __m256i) -> __m256i {
        let difference = _mm256_sub_epi32(values, before);
        let sign = _mm256_srai_epi32::<31>(difference);
        _mm256_xor_si256(_mm256_slli_epi32::<1>(difference), sign)
    }
}

#[target_feature(enable = "avx2")]
fn encode_chunk<F: Transformed>(chunk: &ChunkBytes, words: &mut ChunkBytes) -> usize {
    let mut fields = [0; CHUNK_BYTES];
    let bits = bit_width(make_fields::<F>(chunk, &mut fields));
    match PACKERS.get(bits) {
        // SAFETY: the kernels need AVX2, as this function does.
        Some(pack) => unsafe { pack(&fields, words) },
        None => *words = *chunk,
    }
    bits
}

/// Makes the fields, and says which bits are set in any.
#[target_feature(enable = "avx2")]
#[inline]
fn make_fields<F: Transformed>(chunk: &ChunkBytes, fields: &mut ChunkBytes) -> u32 {
    let (pairs, _) = chunk.as_chunks::<PAIR_BYTES>();
    let mut all = _mm256_setzero_si256();
    // The value before the first one is itself.
    let first = _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6);
    let mut before = _mm256_permutevar8x32_epi32(load(&pairs[0]), first);
    for (number, place) in fields.as_chunks_mut().0.iter_mut().enumerate() {
        // SAFETY: the CPU has AVX2, as this function needs it.
        let made = unsafe { F::of(load(&pairs[number]), before) };
        all = _mm256_or_si256(all, made);
        store(place, made);
        let next = (number + 1) * PAIR_BYTES;
        if let Some(shifted) = chunk[next - 4..].first_chunk() {
            before = load(shifted);
        }
    }
    let half = _mm_or_si128(
        _mm256_castsi256_si128(all),
        _mm256_extracti128_si256::<1>(all),
    );
    let two = _mm_or_si128(half, _mm_srli_si128::<8>(half));
    let one = _mm_or_si128(two, _mm_srli_si128::<4>(two));
    _mm_cvtsi128_si32(one).cast_unsigned()
}

/// Packs fields of `B` bits to the first `16 * B` bytes of `words`.
#[target_feature(enable = "avx2")]
fn pack<const B: usize>(fields: &ChunkBytes, words: &mut ChunkBytes) {
    let (fields, _) = fields.as_chunks::<ROW_BYTES>();
    let (words, _) = words.as_chunks_mut::<ROW_BYTES>();
    let mut word = _mm_setzero_si128();
    // Written out, because loops of this size are not unrolled and shifts would not be constant.
    macro_rules! rows {
        ($($row:literal)*) => {
            $(word = put_row::<B, $row>(word, &fields[$row], words);)*
        };
    }
    rows!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    // The last row has ended the last word.
    let _ = word;
}

/// Adds a row to the word that is being filled. Stores it when it is full, and begins the next with
/// what does not fit.
#[target_feature(enable = "avx2")]
#[inline]
fn put_row<const B: usize, const ROW: usize>(
    word: __m128i,
    row: &[u8; ROW_BYTES],
    words: &mut [[u8; ROW_BYTES]],
) -> __m128i {
    if B == 0 {
        return word;
    }
    let (number, shift) = (ROW * B / 32, ROW * B % 32);
    let fields = load_half(row);
    let word = _mm_or_si128(word, _mm_sllv_epi32(fields, _mm_set1_epi32(shift as i32)));
    if shift + B < 32 {
        return word;
    }
    store_half(&mut words[number], word);
    // Shifted by 32 there is nothing left.
    _mm_srlv_epi32(fields, _mm_set1_epi32((32 - shift) as i32))
}
