//! BP-128 decoding and encoding of data shaped like a BPCells count matrix: 20 million entries,
//! 2000 per column.
//!
//! `val` is m1 of geometric counts, `index` d1z of sorted rows out of 30000, `cell` plain and
//! `start` d1 as in fragments. Each is decoded by both decoders, block by block into a reused 256
//! KiB buffer (what the daemon does) and in one call into one 80 MB buffer; and encoded from such a
//! block, by both encoders. Throughput is of decoded bytes.

use std::hint::black_box;
use std::time::Duration;

use arrayfs_codec::bp128::encoded::{Encoded, encoded};
use arrayfs_codec::bp128::{
    Bp128Error, CHUNK, Transform, add_in_place, decode, decode_scalar, encode, encode_scalar,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const ENTRIES: usize = 20_000_000;
const BLOCK: usize = 256 << 10;
/// Chunks in a block.
const STRIDE: usize = BLOCK / (4 * CHUNK);

type Decoder = fn(Transform, &[u32], &[u32], &[u8], &mut [u8]) -> Result<(), Bp128Error>;

/// Uniform 32-bit numbers, the same in each run.
fn random() -> impl FnMut() -> u32 {
    let mut state = 1u64;
    move || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    }
}

/// Counts with probability 1/2, 1/4, .. for 1, 2, ..
fn counts() -> Vec<u32> {
    let mut random = random();
    (0..ENTRIES)
        .map(|_| random().trailing_zeros() + 1)
        .collect()
}

/// Sorted rows of each column.
fn rows() -> Vec<u32> {
    let mut random = random();
    let mut rows: Vec<u32> = (0..ENTRIES).map(|_| random() % 30_000).collect();
    rows.chunks_mut(2000).for_each(<[u32]>::sort_unstable);
    rows
}

fn cells() -> Vec<u32> {
    let mut random = random();
    (0..ENTRIES).map(|_| random() % 8000).collect()
}

/// Increasing positions on a genome.
fn positions() -> Vec<u32> {
    let mut random = random();
    let mut position = 0;
    let next = || {
        position += random() % 100;
        position
    };
    std::iter::repeat_with(next).take(ENTRIES).collect()
}

fn decode_blocks(decoder: Decoder, transform: Transform, run: &Encoded, block: &mut [u8]) {
    let mut values = ENTRIES;
    let mut words = run.words.as_slice();
    for first in (0..run.idx.len() - 1).step_by(STRIDE) {
        let last = (first + STRIDE).min(run.idx.len() - 1);
        let idx = &run.idx[first..=last];
        let starts = run.starts.get(first..last).unwrap_or_default();
        let (packed, rest) = words.split_at(4 * (idx[last - first] - idx[0]) as usize);
        let out = &mut block[..BLOCK.min(4 * values)];
        decoder(transform, idx, starts, packed, out).unwrap();
        black_box(&mut *out);
        values -= out.len() / 4;
        words = rest;
    }
}

fn bench_array(c: &mut Criterion, name: &str, transform: Transform, values: &[u32]) {
    let run = encoded(transform, values);
    let mut block = vec![1; BLOCK];
    let mut whole = vec![1; 4 * ENTRIES];
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(whole.len() as u64));
    for (decoder_name, decoder) in [("scalar", decode_scalar as Decoder), ("decode", decode)] {
        group.bench_function(BenchmarkId::new(decoder_name, "blocks"), |b| {
            b.iter(|| decode_blocks(decoder, transform, &run, &mut block));
        });
        group.bench_function(BenchmarkId::new(decoder_name, "whole"), |b| {
            b.iter(|| decoder(transform, &run.idx, &run.starts, &run.words, &mut whole).unwrap());
        });
    }
}

type Encoder = fn(Transform, &[u8], &mut [u32], &mut [u32], &mut [u8]) -> Result<usize, Bp128Error>;

/// One block, again and again: values and words stay in the cache.
fn bench_encode(c: &mut Criterion, name: &str, transform: Transform, values: &[u32]) {
    let values = &values[..BLOCK / 4];
    let block: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut idx = vec![0; STRIDE + 1];
    let mut starts = vec![0; if transform.has_starts() { STRIDE } else { 0 }];
    let mut words = vec![1; BLOCK];
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(BLOCK as u64));
    for (encoder_name, encoder) in [("scalar", encode_scalar as Encoder), ("encode", encode)] {
        group.bench_function(BenchmarkId::new(encoder_name, "block"), |b| {
            b.iter(|| {
                encoder(
                    transform,
                    black_box(&block),
                    &mut idx,
                    &mut starts,
                    &mut words,
                )
                .unwrap()
            });
        });
    }
}

fn bench(c: &mut Criterion) {
    bench_encode(c, "encode val m1", Transform::MinusOne, &counts());
    bench_encode(c, "encode index d1z", Transform::DeltaZigzag, &rows());
    bench_encode(c, "encode cell plain", Transform::Plain, &cells());
    bench_encode(c, "encode start d1", Transform::Delta, &positions());
    bench_array(c, "val m1", Transform::MinusOne, &counts());
    bench_array(c, "index d1z", Transform::DeltaZigzag, &rows());
    bench_array(c, "cell plain", Transform::Plain, &cells());
    bench_array(c, "start d1", Transform::Delta, &positions());

    let (mut ends, starts) = (vec![1; BLOCK], vec![1; BLOCK]);
    let mut group = c.benchmark_group("end");
    group.throughput(Throughput::Bytes(BLOCK as u64));
    group.bench_function("add_in_place", |b| {
        b.iter(|| add_in_place(&mut ends, &starts))
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(1));
    targets = bench
}
criterion_main!(benches);
