//! Pipelines as a whole: what is written comes back, what is damaged is refused or keeps its size.

pub(super) mod encode;
mod real;
mod unusable;

use super::error::Undecodable;
use super::*;
use crate::memory::scratch::Region;
use encode::{BitWriter, FilterWriter, WriterKind, bytes, writers};
use proptest::prelude::*;
use real::chunks;

fn pipeline(writers: &[FilterWriter], chunk_bytes: usize) -> Pipeline {
    let filters: Vec<_> = writers.iter().map(|writer| writer.filter.clone()).collect();
    Pipeline::new(&filters, chunk_bytes).unwrap()
}

pub(super) fn single(id: u32, values: &[u32], chunk_bytes: usize) -> Result<Pipeline, Unsupported> {
    let values = values.to_vec();
    Pipeline::new(&[FilterDescription { id, values }], chunk_bytes)
}

/// Decodes with as much memory as the pipeline asks for, which has to be enough for any bytes.
fn decode(
    pipeline: &Pipeline,
    mask: u32,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, Undecodable> {
    let mut region = Region::default();
    let scratch = region.scratch(pipeline.scratch(mask)).unwrap();
    pipeline
        .decode(mask, stored, out, scratch)
        .map_err(|error| match error {
            FilterError::Damage(damage) => *damage,
            FilterError::Failed(error) => panic!("{error}"),
        })
}

/// The decoded bytes, of at most `most`.
fn decoded(
    pipeline: &Pipeline,
    mask: u32,
    stored: &[u8],
    most: usize,
) -> Result<Vec<u8>, Undecodable> {
    let mut out = vec![0xaa; most];
    let len = decode(pipeline, mask, stored, &mut out)?;
    out.truncate(len);
    Ok(out)
}

/// Applies filters in order; sets the bit of one that is to be skipped or cannot be applied.
fn write(writers: &[FilterWriter], skip: u32, plain: &[u8]) -> (u32, Vec<u8>) {
    let (mut mask, mut stored) = (0, plain.to_vec());
    for (i, writer) in writers.iter().enumerate() {
        match writer.write(&stored).filter(|_| skip >> i & 1 == 0) {
            Some(written) => stored = written,
            None => mask |= 1 << i,
        }
    }
    (mask, stored)
}

/// Overwrites some bytes, and sometimes cuts the end off.
fn damage(mut stored: Vec<u8>, edits: &[(prop::sample::Index, u8)], cut: Option<usize>) -> Vec<u8> {
    for (at, byte) in edits {
        if !stored.is_empty() {
            let at = at.index(stored.len());
            stored[at] = *byte;
        }
    }
    stored.truncate(cut.unwrap_or(usize::MAX));
    stored
}

#[test]
fn names_are_in_order_of_writing() {
    let kinds = [
        WriterKind::Shuffle(4),
        WriterKind::Deflate,
        WriterKind::Fletcher32,
    ];
    assert_eq!(
        pipeline(&kinds.map(FilterWriter::new), 8).name(),
        "shuffle+gzip+fletcher32"
    );
    let none = Pipeline::new(&[], 8).unwrap();
    assert_eq!(none.name(), "none");
    assert_eq!(
        pipeline(&[FilterWriter::new(WriterKind::Bitshuffle(4, 8, 2))], 8).name(),
        "bitshuffle-lz4"
    );
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn a_short_chunk_gives_what_it_has() {
    let plain: Vec<u8> = (0..1000u32).map(|i| (i * i / 7) as u8).collect();
    let widths = [
        WriterKind::Shuffle(4),
        WriterKind::Deflate,
        WriterKind::Fletcher32,
    ];
    let writers = widths.map(FilterWriter::new);
    let pipeline = pipeline(&writers, 1000);
    for len in [0, 1, 4, 100, 998, 999, 1000] {
        for skip in 0..8 {
            let (mask, stored) = write(&writers, skip, &plain[..len]);
            let found = decoded(&pipeline, mask, &stored, 1000);
            assert_eq!(found.as_deref(), Ok(&plain[..len]), "{len} {skip}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn of_more_bytes_than_a_chunk_has_the_first_are_taken_or_it_is_an_error() {
    let writers = [WriterKind::Shuffle(4), WriterKind::Deflate].map(FilterWriter::new);
    let pipeline = pipeline(&writers, 1000);
    for len in [1001, 100_000] {
        let plain: Vec<u8> = (0..len as u32).map(|i| (i / 3) as u8).collect();
        let (mask, stored) = write(&writers, 0, &plain);
        assert_eq!(
            decoded(&pipeline, mask, &stored, 1000).unwrap_err().filter,
            "gzip"
        );
        let (mask, stored) = write(&writers, 3, &plain);
        assert_eq!(
            decoded(&pipeline, mask, &stored, 1000).unwrap(),
            &plain[..1000]
        );
    }
    let unfiltered = Pipeline::new(&[], 10).unwrap();
    assert!(decode(&unfiltered, 0, &[1; 10], &mut [0; 11]).is_err());
}

#[test]
fn a_wrong_checksum_is_told_with_both_sums() {
    let writers = [FilterWriter::new(WriterKind::Fletcher32)];
    let (_, mut stored) = write(&writers, 0, &[1, 2, 3, 4]);
    stored[0] ^= 1;
    let error = decoded(&pipeline(&writers, 4), 0, &stored, 4).unwrap_err();
    let text = "fletcher32: the checksum does not match: expected 0x03080306, found 0x05080406";
    assert_eq!(error.to_string(), text);
}

#[test]
fn scratch_is_bounded_for_any_pipeline() {
    let many = vec![FilterWriter::new(WriterKind::Zstd); 32];
    assert!(pipeline(&many, 1 << 20).scratch(0) < 8 << 20);
    assert!(pipeline(&many, usize::MAX).scratch(0) > 1 << 40);
    assert_eq!(pipeline(&many, 1 << 20).scratch(u32::MAX), 0);
    assert_eq!(Pipeline::new(&[], 1 << 20).unwrap().scratch(0), 0);
    let usual = [WriterKind::Shuffle(4), WriterKind::Deflate].map(FilterWriter::new);
    assert_eq!(pipeline(&usual, 1 << 20).scratch(0), 1 << 20);
    assert_eq!(pipeline(&usual[1..], 1 << 20).scratch(0), 0);
    let own = [WriterKind::Bzip2].map(FilterWriter::new);
    assert!(pipeline(&own, 1 << 20).scratch(0) >= 4_000_000);
}

#[test]
fn a_claimed_width_takes_no_time() {
    let mut out = [0; 5];
    let pipeline = single(2, &[u32::MAX], 5).unwrap();
    decode(&pipeline, 0, &[1, 2, 3, 4, 5], &mut out).unwrap();
    assert_eq!(out, [1, 2, 3, 4, 5]);
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn bytes_behind_a_zlib_stream_are_ignored() {
    let writers = [FilterWriter::new(WriterKind::Deflate)];
    let (_, mut stored) = write(&writers, 0, &[5; 64]);
    stored.extend([1, 2, 3]);
    let mut out = [0; 64];
    decode(&pipeline(&writers, 64), 0, &stored, &mut out).unwrap();
    assert_eq!(out, [5; 64]);
}

#[test]
fn chunks_of_other_writers_decode() {
    for chunk in chunks() {
        let (plain, stored) = (chunk.plain(), chunk.stored());
        let mut out = vec![0xaa; plain.len()];
        let pipeline = chunk.pipeline();
        let len = decode(&pipeline, 0, &stored, &mut out);
        let len = len.unwrap_or_else(|error| panic!("{error}: {chunk:?}"));
        assert_eq!(len, plain.len());
        assert!(out == plain, "{chunk:?}");
        assert!(pipeline.most(stored.len() as u64) >= plain.len() as u64);
    }
}

#[test]
fn every_prefix_of_a_chunk_is_refused_or_gives_first_bytes() {
    for chunk in chunks() {
        let (plain, stored) = (chunk.plain(), chunk.stored());
        let mut out = vec![0; plain.len()];
        let step = if cfg!(miri) { stored.len() / 3 } else { 1 };
        for len in (0..stored.len()).step_by(step) {
            if let Ok(found) = decode(&chunk.pipeline(), 0, &stored[..len], &mut out) {
                assert!(out[..found] == plain[..found], "{len} bytes of {chunk:?}");
            }
        }
    }
}

/// The types that n-bit packs.
#[derive(Debug, Clone)]
pub(super) enum Packed {
    Number {
        size: u32,
        big_endian: bool,
        offset: u32,
        precision: u32,
    },
    Bytes(u32),
    Array(u32, Box<Packed>),
    /// Members, each behind so many bytes of padding.
    Compound(Vec<(u32, Packed)>),
}

impl Packed {
    fn size(&self) -> u32 {
        match self {
            Self::Number { size, .. } | Self::Bytes(size) => *size,
            Self::Array(count, base) => count * base.size(),
            Self::Compound(members) => members.iter().map(|(pad, kind)| pad + kind.size()).sum(),
        }
    }

    pub(super) fn values(&self) -> Vec<u32> {
        let size = self.size();
        match self {
            Self::Number {
                big_endian,
                offset,
                precision,
                ..
            } => {
                vec![1, size, u32::from(*big_endian), *precision, *offset]
            }
            Self::Bytes(_) => vec![4, size],
            Self::Array(_, base) => [vec![2, size], base.values()].concat(),
            Self::Compound(members) => {
                let mut values = vec![3, size, members.len() as u32];
                let mut at = 0;
                for (pad, kind) in members {
                    values.push(at + pad);
                    values.extend(kind.values());
                    at += pad + kind.size();
                }
                values
            }
        }
    }

    /// Packs the element that `seed` gives; returns its plain bytes.
    pub(super) fn pack(&self, seed: &mut u64, bits: &mut BitWriter) -> Vec<u8> {
        let size = self.size() as usize;
        match self {
            Self::Number {
                big_endian,
                offset,
                precision,
                ..
            } => {
                let number = u128::from(next(seed)) << 64 | u128::from(next(seed));
                let number = number & (u128::MAX >> (128 - precision));
                bits.put((number >> 64) as u64, precision.saturating_sub(64));
                bits.put(number as u64, *precision.min(&64));
                let mut plain = (number << offset).to_le_bytes()[..size].to_vec();
                if *big_endian {
                    plain.reverse();
                }
                plain
            }
            Self::Bytes(_) => {
                let plain: Vec<u8> = (0..size).map(|_| next(seed) as u8).collect();
                plain.iter().for_each(|byte| bits.put(u64::from(*byte), 8));
                plain
            }
            Self::Array(count, base) => (0..*count).flat_map(|_| base.pack(seed, bits)).collect(),
            Self::Compound(members) => members
                .iter()
                .flat_map(|(pad, kind)| [vec![0; *pad as usize], kind.pack(seed, bits)].concat())
                .collect(),
        }
    }
}

pub(super) fn next(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed ^ *seed >> 29
}

pub(super) fn packed() -> impl Strategy<Value = Packed> {
    let number = (1u32..=16, any::<bool>(), any::<u32>(), any::<u32>());
    let number = number.prop_map(|(size, big_endian, a, b)| {
        let precision = 1 + a % (8 * size);
        let offset = b % (8 * size - precision + 1);
        Packed::Number {
            size,
            big_endian,
            offset,
            precision,
        }
    });
    let leaf = prop_oneof![3 => number, 1 => (1u32..9).prop_map(Packed::Bytes)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let members = prop::collection::vec((0u32..4, inner.clone()), 1..4);
        prop_oneof![
            (1u32..4, inner).prop_map(|(count, base)| Packed::Array(count, Box::new(base))),
            members.prop_map(Packed::Compound),
        ]
    })
}

/// A scale-offset chunk: header, then numbers less their minimum.
fn scaled(width: u32, minimum: u64, numbers: &[u64]) -> Vec<u8> {
    let mut bits = BitWriter::default();
    numbers.iter().for_each(|number| bits.put(*number, width));
    let head = [
        &width.to_le_bytes()[..],
        &[8],
        &minimum.to_le_bytes(),
        &[0; 8],
    ]
    .concat();
    [head, bits.bytes()].concat()
}

/// Client values of scale-offset: scale, factor, count, class, size, sign, order, fill value.
pub(super) fn scale_values(scale: [u32; 7], fill: Option<u64>) -> Vec<u32> {
    let mut values = scale.to_vec();
    let fill_value = fill.unwrap_or(0);
    values.extend([
        u32::from(fill.is_some()),
        fill_value as u32,
        (fill_value >> 32) as u32,
    ]);
    values.resize(20, 0);
    values
}

/// Miri gets a part of the bytes.
const SMALLER: usize = if cfg!(miri) { 10 } else { 1 };

proptest! {
    #[test]
    fn what_is_written_comes_back(
        writers in prop::collection::vec(writers(), 0..5),
        skip in any::<u32>(),
        plain in bytes(5000 / SMALLER),
    ) {
        let (mask, stored) = write(&writers, skip & skip >> 8, &plain);
        let pipeline = pipeline(&writers, plain.len());
        let mut out = vec![0xaa; plain.len()];
        prop_assert_eq!(decode(&pipeline, mask, &stored, &mut out), Ok(plain.len()));
        prop_assert!(out == plain);
        prop_assert!(pipeline.most(stored.len() as u64) >= plain.len() as u64);
    }

    #[test]
    fn damaged_chunks_are_refused_or_keep_their_size(
        writers in prop::collection::vec(writers(), 1..4),
        plain in bytes(1500 / SMALLER),
        edits in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
        cut in prop::option::of(0usize..600),
        room in 0usize..1600,
    ) {
        let (mask, stored) = write(&writers, 0, &plain);
        let stored = damage(stored, &edits, cut);
        let _ = decoded(&pipeline(&writers, plain.len()), mask, &stored, plain.len());
        let _ = decoded(&pipeline(&writers, room), mask, &stored, room);
    }

    #[test]
    fn damaged_chunks_of_other_writers_are_refused_or_keep_their_size(
        chunk in prop::sample::select(Vec::from_iter(chunks())),
        edits in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..8),
        cut in prop::option::of(0usize..600),
    ) {
        let stored = damage(chunk.stored(), &edits, cut);
        let mut out = vec![0; chunk.plain().len()];
        let _ = decode(&chunk.pipeline(), 0, &stored, &mut out);
    }

    #[test]
    fn random_values_and_bytes_never_panic(
        id in prop_oneof![2u32..7, Just(32008)],
        values in prop::collection::vec(prop_oneof![0u32..5, 0u32..70, any::<u32>()], 0..24),
        stored in prop::collection::vec(any::<u8>(), 0..300),
        room in 0usize..2000,
    ) {
        for values in [&values[..], &[&[values.len() as u32, 0][..], &values].concat()] {
            if let Ok(pipeline) = single(id, values, room) {
                let _ = pipeline.most(stored.len() as u64);
                // It asks for a decoder that there is not.
                if pipeline.unusable(0).is_some() {
                    continue;
                }
                let _ = decoded(&pipeline, 0, &stored, room);
            }
        }
    }

    #[test]
    fn packed_bits_come_back(kind in packed(), count in 0usize..40, seed in any::<u64>()) {
        let (mut seed, mut bits) = (seed, BitWriter::default());
        let plain: Vec<u8> = (0..count).flat_map(|_| kind.pack(&mut seed, &mut bits)).collect();
        let mut values = [vec![0, 0, count as u32], kind.values()].concat();
        values[0] = values.len() as u32;
        let pipeline = single(5, &values, plain.len()).unwrap();
        let mut out = vec![0xaa; plain.len()];
        prop_assert_eq!(decode(&pipeline, 0, &bits.bytes(), &mut out), Ok(plain.len()));
        prop_assert_eq!(out, plain);
    }

    #[test]
    fn scaled_integers_come_back(
        size in prop_oneof![Just(1u32), Just(2), Just(4), Just(8)],
        minimum in any::<u64>(),
        raw in prop::collection::vec(any::<u64>(), 1..200),
        bits in 0u32..64,
        fill in prop::option::of(any::<u64>()),
        order in 0u32..2,
    ) {
        let width = bits % (8 * size);
        let ones = (1u64 << width) - 1;
        let numbers: Vec<_> = raw.iter().map(|number| number & ones).collect();
        let plain: Vec<u8> = numbers
            .iter()
            .map(|number| match fill {
                Some(fill) if *number == ones => fill,
                _ => number.wrapping_add(minimum),
            })
            .flat_map(|number| {
                let mut bytes = number.to_le_bytes()[..size as usize].to_vec();
                if order == 1 {
                    bytes.reverse();
                }
                bytes
            })
            .collect();
        let values = scale_values([2, 0, raw.len() as u32, 0, size, 0, order], fill);
        let mut out = vec![0xaa; plain.len()];
        let pipeline = single(6, &values, out.len()).unwrap();
        let stored = scaled(width, minimum, &numbers);
        prop_assert_eq!(decode(&pipeline, 0, &stored, &mut out), Ok(plain.len()));
        prop_assert_eq!(out, plain);
    }

    #[test]
    fn scaled_floats_keep_their_decimals(
        raw in prop::collection::vec(-1000.0..1000.0f64, 1..100),
        decimals in 0i32..5,
    ) {
        let minimum = raw.iter().copied().fold(f64::INFINITY, f64::min);
        let scale = |value: &f64| ((value - minimum) * 10f64.powi(decimals)).round() as u64;
        let numbers: Vec<_> = raw.iter().map(scale).collect();
        let stored = scaled(40, minimum.to_bits(), &numbers);
        let values = scale_values([0, decimals as u32, raw.len() as u32, 1, 8, 0, 0], None);
        let mut out = vec![0; 8 * raw.len()];
        let pipeline = single(6, &values, out.len()).unwrap();
        prop_assert_eq!(decode(&pipeline, 0, &stored, &mut out), Ok(out.len()));
        for (value, bytes) in raw.iter().zip(out.as_chunks::<8>().0) {
            let error = (f64::from_le_bytes(*bytes) - value).abs();
            prop_assert!(error <= 0.5001 * 10f64.powi(-decimals) + 1e-9);
        }
    }
}
