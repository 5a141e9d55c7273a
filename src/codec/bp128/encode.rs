//! BP-128 encoding, the inverse of the decoders: straightforward, one value at a time.
//!
//! For tests and benchmarks, which include this file where the crate's own tests cannot reach.
//! Chooses what the real library chooses (the smallest width that holds the transformed values of a
//! chunk, 32 bits for original values), so its output is byte for byte what BPCells would store.

use super::{CHUNK, Transform};

/// Fields that are packed side by side, and the width that holds any.
const LANES: usize = 4;
const RAW_BITS: usize = 32;

/// A run of values in BP-128.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Cumulative word counts modulo 2^32, one more than there are chunks; the first is 0.
    pub(crate) idx: Vec<u32>,
    /// The first value of each chunk, for transforms that have starts.
    pub(crate) starts: Vec<u32>,
    /// The packed words as little-endian bytes.
    pub(crate) words: Vec<u8>,
}

/// Encodes a run of values; a last chunk that is not full is filled with copies of the last value.
pub(crate) fn encode(transform: Transform, values: &[u32]) -> Encoded {
    let mut encoded = Encoded {
        idx: vec![0],
        ..Encoded::default()
    };
    let mut end = 0u32;
    for values in values.chunks(CHUNK) {
        let mut chunk = [values[values.len() - 1]; CHUNK];
        chunk[..values.len()].copy_from_slice(values);
        let fields = transformed(transform, &chunk);
        let bits = bit_width(&fields);
        // At full width the fields would save nothing, and the original values are stored.
        let fields = if bits == RAW_BITS { chunk } else { fields };
        pack(&fields, bits, &mut encoded.words);
        end = end.wrapping_add((LANES * bits) as u32);
        encoded.idx.push(end);
        if transform.has_starts() {
            encoded.starts.push(chunk[0]);
        }
    }
    encoded
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

/// The smallest width that holds every field.
fn bit_width(fields: &[u32; CHUNK]) -> usize {
    (u32::BITS - fields.iter().fold(0, |all, x| all | x).leading_zeros()) as usize
}

/// Appends the `4 * bits` words of a chunk whose fields all fit `bits`.
fn pack(fields: &[u32; CHUNK], bits: usize, words: &mut Vec<u8>) {
    let mut packed = [[0u32; LANES]; 32];
    for (row, fields) in fields.as_chunks::<LANES>().0.iter().enumerate() {
        let (word, shift) = (row * bits / 32, row * bits % 32);
        for (lane, &field) in fields.iter().enumerate() {
            if bits > 0 {
                packed[word][lane] |= field << shift;
            }
            if shift + bits > 32 {
                packed[word + 1][lane] |= field >> (32 - shift);
            }
        }
    }
    for word in packed[..bits].as_flattened() {
        words.extend_from_slice(&word.to_le_bytes());
    }
}
