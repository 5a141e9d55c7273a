//! Blosc chunks of our encoder, read by the real library and compared with those that it makes
//! itself.
//!
//! `oracle_blosc.py` reads and compares. The library has no Snappy. Sizes are compared where they
//! are determined, by the version of LZ4 that both have.

use std::path::Path;

use arrayfs_codec::blosc::Filter;
use arrayfs_codec::blosc::encode::{BlockSize, ChunkPlan, ChunkSettings, Compressor, Encoder};
use serde_json::{Value, json};

use crate::harness::depth::some_of;
use crate::harness::python::script;
use crate::harness::scratch_directory;

const COMPRESSORS: [(Compressor, &str); 5] = [
    (Compressor::BloscLz, "blosclz"),
    (Compressor::Lz4, "lz4"),
    (Compressor::Lz4Hc, "lz4hc"),
    (Compressor::Zlib, "zlib"),
    (Compressor::Zstd, "zstd"),
];

/// Chunks and their plain bytes, as files, and a list of them.
struct Cases<'a> {
    directory: &'a Path,
    list: Vec<Value>,
}

impl Cases<'_> {
    /// A chunk of these settings; `slack` more than it takes, none for as many bytes as it takes.
    fn add(&mut self, settings: &ChunkSettings, plain: &[u8], slack: Option<usize>) {
        let mut chunk = encode(settings, plain);
        if let Some(slack) = slack {
            let room = chunk.len() + slack;
            match encode_within(settings, plain, room) {
                Some(filled) => chunk = filled,
                None => return,
            }
        }
        let name = COMPRESSORS
            .iter()
            .find(|(it, _)| *it == settings.compressor)
            .unwrap()
            .1;
        let number = self.list.len();
        let exact = slack.is_none() && !settings.utmost && settings.block_size == BlockSize::Rule;
        self.write(number, "chunk", &chunk);
        self.write(number, "plain", plain);
        self.list.push(json!({
            "number": number,
            "compressor": name,
            "level": settings.level,
            "filter": settings.filter as u8,
            "typesize": settings.typesize,
            "compare": exact,
        }));
    }

    fn write(&self, number: usize, kind: &str, bytes: &[u8]) {
        std::fs::write(self.directory.join(format!("{number}.{kind}")), bytes).unwrap();
    }

    fn check(&self) {
        let list = serde_json::to_vec(&self.list).unwrap();
        std::fs::write(self.directory.join("cases.json"), list).unwrap();
        let ran = script("oracle_blosc.py", [self.directory]);
        assert_eq!(ran.code(), Some(0), "{}{}", ran.text(), ran.stderr);
        assert_eq!(ran.text().trim(), format!("{} chunks", self.list.len()));
    }
}

fn encode(settings: &ChunkSettings, plain: &[u8]) -> Vec<u8> {
    let plan = ChunkPlan::new(settings, plain.len()).unwrap();
    let (mut out, mut scratch) = (vec![0xaa; plan.most()], vec![0x55; plan.scratch_of(1)]);
    let len = Encoder::lend(|encoder| encoder.chunk(settings, plain, &mut out, &mut scratch, 1));
    out.truncate(len.unwrap());
    out
}

fn encode_within(settings: &ChunkSettings, plain: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut scratch = vec![0x55; settings.scratch_within(plain.len(), 1).unwrap()];
    let mut room = vec![0xaa; room];
    Encoder::lend(|encoder| encoder.chunk_within(settings, plain, &mut room, &mut scratch, 1))
        .unwrap()
        .then_some(room)
}

/// Numbers that rise with noise in their low bits.
fn rising(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let number = |i: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (1.0 + i as f64 / 1e6).to_bits() ^ state >> 52
    };
    let bytes: Vec<u8> = (0..len.div_ceil(8))
        .map(number)
        .flat_map(u64::to_le_bytes)
        .collect();
    bytes[..len].to_vec()
}

/// Few different lines in no order.
fn lines(len: usize) -> Vec<u8> {
    let words = [
        "alpha,", "beta,", "gamma\n", "0.25,", "3.75,", "delta\n", "epsilon,",
    ];
    let mut state = 7u64;
    let mut text = Vec::new();
    while text.len() < len {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        text.extend(words[(state >> 60) as usize % words.len()].bytes());
    }
    text.truncate(len);
    text
}

#[test]
fn the_real_library_reads_what_we_encode() {
    let directory = scratch_directory();
    let mut cases = Cases {
        directory: directory.path(),
        list: Vec::new(),
    };
    let lengths = [
        0,
        1,
        5,
        127,
        128,
        129,
        1000,
        32_767,
        32_768,
        150_001,
        1 << 20,
    ];
    for (compressor, _) in COMPRESSORS {
        for (i, len) in lengths.into_iter().enumerate() {
            let sizes = [1, 2, 4, 8, 16, 17, 255].into_iter().enumerate();
            for (j, typesize) in some_of(sizes.collect(), 2, i as u64) {
                let filter = [Filter::Shuffle, Filter::Bitshuffle, Filter::None][(i + j) % 3];
                let mut settings = ChunkSettings::new(compressor, filter, typesize);
                settings.level = [0, 1, 3, 5, 7, 9, 2, 4, 6, 8][(i * 7 + j) % 10];
                let plain = if j % 2 == 0 { rising(len) } else { lines(len) };
                cases.add(&settings, &plain, None);
                settings.block_size = BlockSize::Explicit(4096);
                cases.add(&settings, &plain, Some(1 + 100 * j));
            }
        }
        for (filter, way) in [Filter::None, Filter::Shuffle, Filter::Bitshuffle]
            .into_iter()
            .zip(0..)
        {
            for level in some_of((0..=9).collect(), 3, way) {
                let mut settings = ChunkSettings::new(compressor, filter, 8);
                settings.level = level;
                cases.add(&settings, &rising(300_000), None);
                cases.add(&settings, &lines(300_000), Some(777));
            }
            let highest = ChunkSettings::new(compressor, filter, 8).highest();
            cases.add(&highest, &rising(200_000), None);
        }
    }
    cases.check();
}
