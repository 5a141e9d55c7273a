//! A whole run of values in BP-128, in vectors.
//!
//! For tests and benchmarks. Encoded by the scalar encoder, whose output is byte for byte what
//! BPCells would store.

use super::{CHUNK, Transform, encode_scalar};

/// A run of values in BP-128.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Cumulative word counts modulo 2^32, one more than there are chunks; the first is 0.
    pub idx: Vec<u32>,
    /// The first value of each chunk, for transforms that have starts.
    pub starts: Vec<u32>,
    /// The packed words as little-endian bytes.
    pub words: Vec<u8>,
}

/// Encodes a run of values.
pub fn encoded(transform: Transform, values: &[u32]) -> Encoded {
    let chunks = values.len().div_ceil(CHUNK);
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut encoded = Encoded {
        idx: vec![0; chunks + 1],
        starts: vec![0; if transform.has_starts() { chunks } else { 0 }],
        words: vec![0; 4 * CHUNK * chunks],
    };
    let Encoded { idx, starts, words } = &mut encoded;
    let len = encode_scalar(transform, &bytes, idx, starts, words).expect("slices that fit");
    encoded.words.truncate(len);
    encoded
}
