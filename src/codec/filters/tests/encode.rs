//! Writers for the tests: each filter by the letter of its format, or by another library; slow.

use super::FilterDescription;
use proptest::prelude::*;
use std::io::Write as _;

/// A filter and what it makes of plain bytes.
#[derive(Debug, Clone)]
pub(crate) struct FilterWriter {
    pub(crate) filter: FilterDescription,
    pub(crate) kind: WriterKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterKind {
    Deflate,
    Shuffle(usize),
    Fletcher32,
    Bzip2,
    Lzf,
    Lz4(usize),
    Zstd,
    /// Width, elements per block, compression.
    Bitshuffle(usize, usize, u32),
}

impl FilterWriter {
    pub(crate) fn new(kind: WriterKind) -> Self {
        let (id, values) = match kind {
            WriterKind::Deflate => (1, vec![6]),
            WriterKind::Shuffle(width) => (2, vec![width as u32]),
            WriterKind::Fletcher32 => (3, vec![]),
            WriterKind::Bzip2 => (307, vec![1]),
            WriterKind::Lzf => (32000, vec![4, 261, 0]),
            WriterKind::Lz4(block) => (32004, vec![block as u32]),
            WriterKind::Zstd => (32015, vec![3]),
            WriterKind::Bitshuffle(width, block, code) => {
                (32008, vec![0, 4, width as u32, block as u32, code])
            }
        };
        let filter = FilterDescription { id, values };
        Self { filter, kind }
    }

    /// The stored bytes, unless the filter cannot be applied to so many.
    pub(crate) fn write(&self, plain: &[u8]) -> Option<Vec<u8>> {
        Some(match self.kind {
            WriterKind::Deflate => deflate(plain),
            WriterKind::Shuffle(width) => shuffle(plain, width),
            WriterKind::Fletcher32 => [plain, &fletcher32(plain).to_le_bytes()].concat(),
            WriterKind::Bzip2 => bzip2(plain),
            WriterKind::Lzf => lzf(plain),
            WriterKind::Lz4(block) => lz4(plain, block),
            WriterKind::Zstd => zstd::bulk::compress(plain, 3).unwrap(),
            WriterKind::Bitshuffle(width, ..) if !plain.len().is_multiple_of(width) => return None,
            WriterKind::Bitshuffle(width, block, code) => bitshuffle(plain, width, block, code),
        })
    }
}

impl WriterKind {
    /// Whether it can be run here: Miri cannot call C.
    fn runs(&self) -> bool {
        use WriterKind::*;
        !(cfg!(miri) && matches!(self, Deflate | Zstd | Bitshuffle(_, _, 3)))
    }
}

/// All filters that can be written, of some element size.
pub(crate) fn writers() -> impl Strategy<Value = FilterWriter> {
    let bits = (
        1usize..20,
        1usize..40,
        prop_oneof![Just(0u32), Just(2), Just(3)],
    );
    prop_oneof![
        Just(WriterKind::Deflate),
        (1usize..20).prop_map(WriterKind::Shuffle),
        Just(WriterKind::Fletcher32),
        Just(WriterKind::Bzip2),
        Just(WriterKind::Lzf),
        (1usize..2000).prop_map(WriterKind::Lz4),
        Just(WriterKind::Zstd),
        bits.prop_map(|(width, eights, code)| WriterKind::Bitshuffle(width, 8 * eights, code)),
    ]
    .prop_filter("calls C", WriterKind::runs)
    .prop_map(FilterWriter::new)
}

/// Bytes of runs and noise, as arrays have them.
pub(crate) fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let run = (any::<u8>(), 1usize..60, any::<bool>()).prop_map(|(byte, len, noise)| {
        (0..len)
            .map(|i| {
                if noise {
                    byte.wrapping_mul(i as u8 ^ 0x5b)
                } else {
                    byte
                }
            })
            .collect::<Vec<_>>()
    });
    prop::collection::vec(run, 0..most / 30).prop_map(move |runs| {
        let mut bytes = runs.concat();
        bytes.truncate(most);
        bytes
    })
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut writer = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut stored = vec![0; writer.zlib_compress_bound(plain.len())];
    let len = writer.zlib_compress(plain, &mut stored).unwrap();
    stored.truncate(len);
    stored
}

fn bzip2(plain: &[u8]) -> Vec<u8> {
    let mut writer = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::new(1));
    writer.write_all(plain).unwrap();
    writer.finish().unwrap()
}

fn shuffle(plain: &[u8], width: usize) -> Vec<u8> {
    let whole = plain.len() - plain.len() % width;
    let planes = (0..width).flat_map(|j| plain[..whole].iter().skip(j).step_by(width));
    planes.chain(&plain[whole..]).copied().collect()
}

fn fletcher32(plain: &[u8]) -> u32 {
    let (mut first, mut second) = (0u64, 0u64);
    for word in plain.chunks(2) {
        first += u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
        second += first;
    }
    let reduce = |sum: u64| {
        if sum == 0 {
            0
        } else {
            ((sum - 1) % 65535 + 1) as u32
        }
    };
    reduce(second) << 16 | reduce(first)
}

fn lz4(plain: &[u8], block: usize) -> Vec<u8> {
    let mut stored = (plain.len() as u64).to_be_bytes().to_vec();
    stored.extend((block as u32).to_be_bytes());
    for part in plain.chunks(block) {
        let packed = lz4_flex::block::compress(part);
        let packed = if packed.len() < part.len() {
            &packed[..]
        } else {
            part
        };
        stored.extend((packed.len() as u32).to_be_bytes());
        stored.extend(packed);
    }
    stored
}

/// Takes the longest match at the smallest distance, by trying all.
fn lzf(plain: &[u8]) -> Vec<u8> {
    let (mut stored, mut literals, mut at) = (Vec::new(), Vec::new(), 0);
    while at < plain.len() {
        let len = |distance: usize| {
            let pairs = plain[at..].iter().zip(&plain[at - distance..]);
            pairs.take(264).take_while(|(a, b)| a == b).count()
        };
        let best = (1..=at.min(8192))
            .rev()
            .max_by_key(|&distance| len(distance));
        match best.map(|distance| (distance - 1, len(distance))) {
            Some((offset, len)) if len >= 3 => {
                lzf_literals(&mut stored, &mut literals);
                let short = (len - 2).min(7);
                stored.push((short << 5 | offset >> 8) as u8);
                stored.extend((short == 7).then(|| (len - 9) as u8));
                stored.push(offset as u8);
                at += len;
            }
            _ => {
                literals.push(plain[at]);
                at += 1;
            }
        }
    }
    lzf_literals(&mut stored, &mut literals);
    stored
}

fn lzf_literals(stored: &mut Vec<u8>, literals: &mut Vec<u8>) {
    for run in literals.chunks(32) {
        stored.push(run.len() as u8 - 1);
        stored.extend(run);
    }
    literals.clear();
}

fn bitshuffle(plain: &[u8], width: usize, block: usize, code: u32) -> Vec<u8> {
    let mut stored = Vec::new();
    if code != 0 {
        stored.extend((plain.len() as u64).to_be_bytes());
        stored.extend(((block * width) as u32).to_be_bytes());
    }
    let (eights, tail) = plain.split_at(plain.len() / (8 * width) * 8 * width);
    for part in eights.chunks(block * width) {
        let rows = bit_rows(part, width);
        let packed = match code {
            2 => lz4_flex::block::compress(&rows),
            3 => zstd::bulk::compress(&rows, 1).unwrap(),
            _ => rows,
        };
        if code != 0 {
            stored.extend((packed.len() as u32).to_be_bytes());
        }
        stored.extend(packed);
    }
    stored.extend(tail);
    stored
}

/// Row `8 * j + k` has bit `k` of byte `j` of all elements, the first in the lowest bit.
fn bit_rows(part: &[u8], width: usize) -> Vec<u8> {
    let count = part.len() / width;
    let mut rows = vec![0; part.len()];
    for (i, element) in part.chunks(width).enumerate() {
        for bit in (0..8 * width).filter(|bit| element[bit / 8] >> (bit % 8) & 1 == 1) {
            rows[bit * count / 8 + i / 8] |= 1 << (i % 8);
        }
    }
    rows
}

/// Bits written from the highest of each byte down.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bits: Vec<bool>,
}

impl BitWriter {
    pub(crate) fn put(&mut self, value: u64, count: u32) {
        self.bits
            .extend((0..count).rev().map(|i| value >> i & 1 == 1));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| {
            let at = |i: usize| u8::from(bits.get(i) == Some(&true));
            (0..8).fold(0, |byte, i| byte << 1 | at(i))
        };
        self.bits.chunks(8).map(byte).collect()
    }
}
