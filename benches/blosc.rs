//! Throughput of decoding and encoding 1 MiB chunks, in plain bytes: float64 with noisy low bits,
//! byte shuffled.
//!
//! The block sizes and splits are those that C-Blosc chooses at Bloscpack's usual settings.

use arrayfs_codec::blosc::encode::{ChunkPlan, ChunkSettings, Compressor, Encoder};
use arrayfs_codec::blosc::{ChunkHeader, Codec, Decoder, Filter};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

#[path = "../src/codec/blosc/tests/encoder.rs"]
mod encoder;

const CHUNK: usize = 1 << 20;

fn decode(c: &mut Criterion) {
    let plain = encoder::floats(CHUNK / 8);
    let mut group = c.benchmark_group("blosc/decode");
    group.throughput(Throughput::Bytes(CHUNK as u64));
    for (name, codec, filter, blocksize) in [
        ("lz4", Codec::Lz4, Filter::Shuffle, CHUNK),
        ("blosclz", Codec::BloscLz, Filter::Shuffle, CHUNK),
        ("zstd", Codec::Zstd, Filter::Shuffle, 64 << 10),
        ("zlib", Codec::Zlib, Filter::Shuffle, CHUNK),
        ("lz4-bitshuffle", Codec::Lz4, Filter::Bitshuffle, CHUNK),
    ] {
        let split = codec != Codec::Zstd;
        let chunk = encoder::Plan {
            codec,
            filter,
            typesize: 8,
            blocksize,
            split,
        }
        .chunk(&plain);
        let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
        let (mut decoder, mut out) = (Decoder::new(), vec![0; CHUNK]);
        let mut scratch = vec![0; header.scratch()];
        group.bench_function(name, |b| {
            b.iter(|| {
                decoder
                    .decode_chunk(&header, black_box(&chunk), &mut out, &mut scratch)
                    .unwrap()
            })
        });
        assert!(out == plain, "{name}");
    }
    group.finish();
}

fn encode(c: &mut Criterion) {
    let plain = encoder::floats(CHUNK / 8);
    let mut group = c.benchmark_group("blosc/encode");
    group.throughput(Throughput::Bytes(CHUNK as u64));
    for (name, compressor, filter, level) in [
        ("lz4-5", Compressor::Lz4, Filter::Shuffle, 5),
        ("lz4-7", Compressor::Lz4, Filter::Shuffle, 7),
        ("lz4-7-bitshuffle", Compressor::Lz4, Filter::Bitshuffle, 7),
        ("lz4hc-9", Compressor::Lz4Hc, Filter::Shuffle, 9),
        ("blosclz-7", Compressor::BloscLz, Filter::Shuffle, 7),
        ("zlib-5", Compressor::Zlib, Filter::Shuffle, 5),
        ("zstd-2", Compressor::Zstd, Filter::Shuffle, 2),
    ] {
        let mut settings = ChunkSettings::new(compressor, filter, 8);
        settings.level = level;
        let plan = ChunkPlan::new(&settings, CHUNK).unwrap();
        let (mut encoder, mut out) = (Encoder::new(), vec![0; plan.most()]);
        let mut scratch = vec![0; plan.scratch_of(1)];
        let mut encode = || {
            encoder
                .chunk(&settings, black_box(&plain), &mut out, &mut scratch, 1)
                .unwrap()
        };
        println!("{name}: {} bytes", encode());
        group.bench_function(name, |b| b.iter(&mut encode));
    }
    group.finish();
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
