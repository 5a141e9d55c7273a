//! BP-128 decoding without vector instructions: one generic loop for every bit width.
//!
//! Kept close to the text of the format, because the AVX2 path is tested against it; it is also
//! what runs on CPUs without AVX2. Assumes a run whose lengths were checked by the parent module.

use super::{CHUNK, CHUNK_BYTES, LANES, Packed, RAW_BITS, Transform, packed_chunks};

/// Decodes the chunks of a checked run; the last one may be cut by the end of `out`.
pub(super) fn decode_run(
    transform: Transform,
    idx: &[u32],
    starts: &[u32],
    words: &[u8],
    out: &mut [u8],
) {
    for (packed, out) in packed_chunks(idx, starts, words).zip(out.chunks_mut(CHUNK_BYTES)) {
        let values = decode_chunk(transform, packed);
        for (bytes, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *bytes = value.to_le_bytes();
        }
    }
}

fn decode_chunk(transform: Transform, packed: Packed<'_>) -> [u32; CHUNK] {
    let mut words = [0; CHUNK];
    for (word, bytes) in words.iter_mut().zip(packed.bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    match packed.bits() {
        RAW_BITS => return words,
        0 => {} // no words, and all of `words` is 0
        bits => words = unpack(&words, bits),
    }
    match transform {
        Transform::Plain => {}
        Transform::MinusOne => words.iter_mut().for_each(|x| *x = x.wrapping_add(1)),
        Transform::Delta => prefix_sum(&mut words, packed.start, |x| x),
        Transform::DeltaZigzag => prefix_sum(&mut words, packed.start, undo_zigzag),
    }
    words
}

/// Takes the 128 fields of `bits` (1 to 31) bits out of a chunk.
fn unpack(words: &[u32; CHUNK], bits: usize) -> [u32; CHUNK] {
    let mask = (1u32 << bits) - 1;
    let (rows, _) = words.as_chunks::<LANES>();
    let mut values = [0; CHUNK];
    for (row, values) in values.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let (word, shift) = (row * bits / 32, row * bits % 32);
        let crosses = shift + bits > 32;
        for lane in 0..LANES {
            let mut field = rows[word][lane] >> shift;
            if crosses {
                field |= rows[word + 1][lane] << (32 - shift);
            }
            values[lane] = field & mask;
        }
    }
    values
}

/// Replaces differences by values; `undo` turns a stored field into its difference.
fn prefix_sum(values: &mut [u32; CHUNK], start: u32, undo: impl Fn(u32) -> u32) {
    let mut sum = start;
    for value in values {
        sum = sum.wrapping_add(undo(*value));
        *value = sum;
    }
}

/// 0, 1, 2, 3, .. stand for 0, -1, 1, -2, ..
fn undo_zigzag(field: u32) -> u32 {
    (field >> 1) ^ (field & 1).wrapping_neg()
}
