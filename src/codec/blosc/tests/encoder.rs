//! Writer of Blosc-1 chunks for tests and benchmarks: plain and slow, by the letter of the format.
//!
//! Also the generators of bytes that these tests share. The benchmark includes this file by path.
#![allow(dead_code, reason = "the benchmark needs a part of it only")]

use super::{Codec, Filter};
use proptest::prelude::*;
use std::collections::HashMap;

/// How to write a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) codec: Codec,
    pub(crate) filter: Filter,
    pub(crate) typesize: usize,
    pub(crate) blocksize: usize,
    pub(crate) split: bool,
}

impl Plan {
    pub(crate) fn chunk(&self, plain: &[u8]) -> Vec<u8> {
        self.chunk_with_blocks(plain, |_| ())
    }

    /// As [`Plan::chunk`], with the blocks (number, bytes) stored in another order.
    pub(crate) fn chunk_with_blocks(
        &self,
        plain: &[u8],
        reorder: impl FnOnce(&mut Vec<(usize, Vec<u8>)>),
    ) -> Vec<u8> {
        let mut blocks: Vec<_> = plain
            .chunks(self.blocksize)
            .map(|block| self.block(block))
            .enumerate()
            .collect();
        reorder(&mut blocks);
        let mut chunk = vec![0; 16 + 4 * blocks.len()];
        for (number, block) in blocks {
            let start = chunk.len() as u32;
            chunk[16 + 4 * number..][..4].copy_from_slice(&start.to_le_bytes());
            chunk.extend(block);
        }
        self.write_header(&mut chunk, plain.len(), 0);
        chunk
    }

    pub(crate) fn memcpyed(&self, plain: &[u8]) -> Vec<u8> {
        let mut chunk = vec![0; 16];
        chunk.extend(plain);
        let whole = Self {
            blocksize: plain.len().max(1),
            ..*self
        };
        whole.write_header(&mut chunk, plain.len(), 0x02);
        chunk
    }

    fn write_header(&self, chunk: &mut [u8], nbytes: usize, flags: u8) {
        let filter = match self.filter {
            Filter::None => 0,
            Filter::Shuffle => 0x01,
            Filter::Bitshuffle => 0x04,
        };
        let not_split = if self.split { 0 } else { 0x10 };
        let flags = flags | filter | not_split | (self.codec as u8) << 5;
        chunk[..4].copy_from_slice(&[2, 1, flags, self.typesize as u8]);
        for (at, size) in [(4, nbytes), (8, self.blocksize), (12, chunk.len())] {
            chunk[at..at + 4].copy_from_slice(&(size as u32).to_le_bytes());
        }
    }

    fn splits(&self, len: usize) -> bool {
        let elements = self.blocksize / self.typesize;
        self.split && len == self.blocksize && self.typesize <= 16 && elements >= 128
    }

    /// Whether blocks can be written: split ones must divide into streams.
    pub(crate) fn divides(&self) -> bool {
        !self.splits(self.blocksize) || self.blocksize.is_multiple_of(self.typesize)
    }

    fn block(&self, plain: &[u8]) -> Vec<u8> {
        let shuffled = match self.filter {
            Filter::Shuffle => shuffle(plain, self.typesize),
            Filter::Bitshuffle if (plain.len() / self.typesize).is_multiple_of(8) => {
                bitshuffle(plain, self.typesize)
            }
            _ => plain.to_vec(),
        };
        let streams = if self.splits(plain.len()) {
            self.typesize
        } else {
            1
        };
        let mut block = Vec::new();
        for stream in shuffled.chunks(plain.len() / streams) {
            let mut stored = compress(self.codec, stream);
            if stored.len() >= stream.len() {
                stored = stream.to_vec();
            }
            block.extend((stored.len() as i32).to_le_bytes());
            block.extend(stored);
        }
        block
    }
}

pub(crate) fn compress(codec: Codec, plain: &[u8]) -> Vec<u8> {
    match codec {
        Codec::BloscLz => blosclz(plain),
        Codec::Lz4 => lz4_flex::block::compress(plain),
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
        Codec::Zlib => zlib(plain),
        Codec::Zstd => zstd::bulk::compress(plain, 3).unwrap(),
    }
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut stored = vec![0; encoder.zlib_compress_bound(plain.len())];
    let len = encoder.zlib_compress(plain, &mut stored).unwrap();
    stored.truncate(len);
    stored
}

/// Byte `j` of element `i` goes to `j * elements + i`; the tail stays.
pub(crate) fn shuffle(plain: &[u8], typesize: usize) -> Vec<u8> {
    let elements = plain.len() / typesize;
    let mut out = plain.to_vec();
    for i in 0..elements {
        for j in 0..typesize {
            out[j * elements + i] = plain[i * typesize + j];
        }
    }
    out
}

/// Bit `k` of byte `j` of element `e` goes to bit `e % 8` of byte `e / 8` in row `8 * j + k`.
pub(crate) fn bitshuffle(plain: &[u8], typesize: usize) -> Vec<u8> {
    let elements = plain.len() / typesize;
    let mut out = plain.to_vec();
    out[..elements * typesize].fill(0);
    for e in 0..elements {
        for j in 0..typesize {
            for k in 0..8 {
                let bit = plain[e * typesize + j] >> k & 1;
                out[(8 * j + k) * (elements / 8) + e / 8] |= bit << (e % 8);
            }
        }
    }
    out
}

/// BloscLZ with a greedy search for matches by their first four bytes.
pub(crate) fn blosclz(plain: &[u8]) -> Vec<u8> {
    let mut seen = HashMap::<[u8; 4], usize>::new();
    let (mut stored, mut literals, mut at) = (Vec::new(), 0, 0);
    // The last byte must be a literal.
    while let Some(four) = plain[at..].first_chunk::<4>() {
        let earlier = seen
            .insert(*four, at)
            .filter(|earlier| at - earlier < 8192 + 65536);
        let len = earlier.map_or(0, |earlier| common(plain, earlier, at));
        if len < 4 {
            at += 1;
            continue;
        }
        write_literals(&plain[literals..at], &mut stored);
        write_match(at - earlier.unwrap_or(0), len, &mut stored);
        at += len;
        literals = at;
    }
    write_literals(&plain[literals..], &mut stored);
    stored
}

/// Length of the match at `at`, leaving a byte for the literals at the end.
fn common(plain: &[u8], earlier: usize, at: usize) -> usize {
    let (there, here) = (&plain[earlier..], &plain[at..plain.len() - 1]);
    there.iter().zip(here).take_while(|(a, b)| a == b).count()
}

fn write_literals(literals: &[u8], stored: &mut Vec<u8>) {
    for run in literals.chunks(32) {
        stored.push(run.len() as u8 - 1);
        stored.extend(run);
    }
}

fn write_match(distance: usize, len: usize, stored: &mut Vec<u8>) {
    let far = distance > 8191;
    let field = if far { 0x1fff } else { distance - 1 };
    let excess = len - 3;
    stored.push(((excess.min(6) + 1) << 5 | field >> 8) as u8);
    if excess >= 6 {
        stored.extend(vec![255; (excess - 6) / 255]);
        stored.push(((excess - 6) % 255) as u8);
    }
    stored.push(field as u8);
    if far {
        stored.extend(((distance - 8192) as u16).to_be_bytes());
    }
}

/// Sizes of elements: all of them, but for Miri those that have code of their own, and two more.
pub(crate) fn typesizes() -> impl Iterator<Item = usize> {
    (1..=255).filter(|size| !cfg!(miri) || matches!(size, 1..=17 | 33))
}

/// Bytes without pattern, the same every time.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(len)
    .collect()
}

/// Evenly spaced float64 with twelve noisy low bits: few of the byte planes are hard to compress.
pub(crate) fn floats(count: usize) -> Vec<u8> {
    let noise = noise(2 * count);
    let element = |(i, pair): (usize, &[u8])| {
        let smooth = (1.0 + i as f64 / (1 << 21) as f64).to_bits();
        let low = u64::from(u16::from_le_bytes([pair[0], pair[1]]) & 0x0fff);
        (smooth ^ low).to_le_bytes()
    };
    noise
        .chunks_exact(2)
        .enumerate()
        .flat_map(element)
        .collect()
}

/// Bytes with runs, repeated patterns and noise, up to about `len` of them.
pub(crate) fn byte_runs(len: usize) -> impl Strategy<Value = Vec<u8>> {
    let pattern = prop::collection::vec(any::<u8>(), 1..40);
    let piece = (pattern, 1usize..60).prop_map(|(pattern, times)| pattern.repeat(times));
    prop::collection::vec(piece, 1..12).prop_map(move |pieces| {
        let mut bytes = pieces.concat();
        bytes.truncate(len);
        bytes
    })
}

/// Damage to stored bytes: some set, then perhaps the end cut off.
#[derive(Debug, Clone)]
pub(crate) struct Edits {
    set: Vec<(prop::sample::Index, u8)>,
    keep: Option<prop::sample::Index>,
}

impl Edits {
    pub(crate) fn apply(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() {
            return bytes;
        }
        for (at, value) in &self.set {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if let Some(keep) = &self.keep {
            bytes.truncate(keep.index(bytes.len()));
        }
        bytes
    }
}

pub(crate) fn mutate() -> impl Strategy<Value = Edits> {
    let value = prop_oneof![any::<u8>(), Just(0xff), Just(0x0f), Just(0xf0), Just(0)];
    let set = prop::collection::vec((any::<prop::sample::Index>(), value), 0..6);
    let keep = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (set, keep).prop_map(|(set, keep)| Edits { set, keep })
}
