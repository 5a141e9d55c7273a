//! BP-128 encoding without vector instructions, one value at a time.
//!
//! Kept close to the text of the format, because the AVX2 path is tested against it. Used by the
//! parent module.

use super::{ChunkBytes, bit_width};
use crate::bp128::{CHUNK, LANES, RAW_BITS, Transform};

/// Writes the words of a chunk to the start of `words`, and says its width: 16 bytes for each bit.
pub(super) fn encode_chunk(
    transform: Transform,
    chunk: &ChunkBytes,
    words: &mut ChunkBytes,
) -> usize {
    let mut values = [0; CHUNK];
    for (value, bytes) in values.iter_mut().zip(chunk.as_chunks().0) {
        *value = u32::from_le_bytes(*bytes);
    }
    let fields = transformed(transform, &values);
    let bits = bit_width(fields.iter().fold(0, |all, field| all | field));
    match bits {
        // At full width the fields would save nothing, and the original values are stored.
        RAW_BITS => *words = *chunk,
        bits => pack(&fields, bits, words),
    }
    bits
}

fn transformed(transform: Transform, chunk: &[u32; CHUNK]) -> [u32; CHUNK] {
    match transform {
        Transform::Plain => *chunk,
        Transform::MinusOne => chunk.map(|x| x.wrapping_sub(1)),
        Transform::Delta => differences(chunk),
        Transform::DeltaZigzag => differences(chunk).map(zigzag),
    }
}

fn differences(chunk: &[u32; CHUNK]) -> [u32; CHUNK] {
    let mut before = chunk[0];
    chunk.map(|x| x.wrapping_sub(std::mem::replace(&mut before, x)))
}

fn zigzag(difference: u32) -> u32 {
    (difference << 1) ^ (difference.cast_signed() >> 31).cast_unsigned()
}

/// Writes the `4 * bits` words of a chunk whose fields all fit `bits`, which is less than 32.
fn pack(fields: &[u32; CHUNK], bits: usize, words: &mut ChunkBytes) {
    let mut packed = [[0u32; LANES]; 32];
    for (row, fields) in fields.as_chunks::<LANES>().0.iter().enumerate() {
        let (word, shift) = (row * bits / 32, row * bits % 32);
        for (lane, &field) in fields.iter().enumerate() {
            packed[word][lane] |= field << shift;
            if shift + bits > 32 {
                packed[word + 1][lane] |= field >> (32 - shift);
            }
        }
    }
    let packed = packed[..bits].as_flattened();
    for (word, place) in packed.iter().zip(words.as_chunks_mut().0) {
        *place = word.to_le_bytes();
    }
}
