//! Chunks of every kind: what our decoder and the real library read of them.

mod parts;
mod settings;

use super::*;
use crate::blosc::tests::encoder::{byte_runs, floats};
use crate::blosc::{ChunkHeader, Decoder};
use proptest::prelude::*;

pub(super) const FILTERS: [Filter; 3] = [Filter::None, Filter::Shuffle, Filter::Bitshuffle];

/// All compressors, but for Miri without the libraries in C.
pub(super) const COMPRESSORS: &[Compressor] = match cfg!(miri) {
    true => &[Compressor::BloscLz, Compressor::Snappy],
    false => &Compressor::ALL,
};

pub(super) fn encode(settings: &ChunkSettings, plain: &[u8]) -> Vec<u8> {
    let plan = ChunkPlan::new(settings, plain.len()).unwrap();
    let (mut out, mut scratch) = (vec![0xaa; plan.most()], vec![0x55; plan.scratch()]);
    let len = Encoder::lend(|encoder| encoder.chunk(settings, plain, &mut out, &mut scratch, 1));
    out.truncate(len.unwrap());
    out
}

pub(super) fn encode_within(
    settings: &ChunkSettings,
    plain: &[u8],
    room: usize,
) -> Option<Vec<u8>> {
    let mut scratch = vec![0x55; settings.scratch_within(plain.len(), 1).unwrap()];
    let mut room = vec![0xaa; room];
    Encoder::lend(|encoder| encoder.chunk_within(settings, plain, &mut room, &mut scratch, 1))
        .unwrap()
        .then_some(room)
}

pub(super) fn decode(chunk: &[u8]) -> Vec<u8> {
    let header = header(chunk);
    let (mut out, mut scratch) = (
        vec![0xaa; header.nbytes() as usize],
        vec![0; header.scratch()],
    );
    Decoder::new()
        .decode_chunk(&header, chunk, &mut out, &mut scratch)
        .unwrap();
    out
}

pub(super) fn header(chunk: &[u8]) -> ChunkHeader {
    ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap()
}

#[test]
fn every_compressor_filter_size_and_level() {
    let floats = floats(20_000);
    for &compressor in COMPRESSORS {
        for filter in FILTERS {
            for typesize in [1, 2, 3, 8, 16, 17, 255] {
                for len in [0, 1, 127, 128, 129, 1000, 40_003, 140_000] {
                    // Miri takes a second for each thousand bytes.
                    if cfg!(miri) && len > 1000 {
                        continue;
                    }
                    let plain = &floats[..len];
                    for level in [0, 1, 5, 7] {
                        let mut settings = ChunkSettings::new(compressor, filter, typesize);
                        settings.level = level;
                        let chunk = encode(&settings, plain);
                        assert!(chunk.len() <= len + 16);
                        assert!(decode(&chunk) == plain, "{settings:?} of {len}");
                    }
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn a_large_chunk_is_the_same_whoever_encodes_its_blocks() {
    let plain = floats((4 << 20) / 8 + 12_345);
    for compressor in [Compressor::Lz4, Compressor::Zstd] {
        let settings = ChunkSettings {
            block_size: BlockSize::Explicit(96 << 10),
            ..ChunkSettings::new(compressor, Filter::Bitshuffle, 8)
        };
        let plan = ChunkPlan::new(&settings, plain.len()).unwrap();
        let alone = encode(&settings, &plain);
        assert!(plan.blocks() > 40 && alone.len() < plain.len());
        for threads in [2, 3, 64] {
            let mut out = vec![0xaa; plan.most()];
            let mut scratch = vec![0x55; plan.scratch_of(threads)];
            let within = |room: &mut [u8], scratch: &mut [u8]| {
                Encoder::new().chunk_within(&settings, &plain, room, scratch, threads)
            };
            let len = Encoder::new().chunk(&settings, &plain, &mut out, &mut scratch, threads);
            assert!(out[..len.unwrap()] == alone);
            let mut scratch = vec![0x55; settings.scratch_within(plain.len(), threads).unwrap()];
            assert_eq!(within(&mut out[..alone.len()], &mut scratch), Ok(true));
            assert!(out[..alone.len()] == alone);
            assert_eq!(within(&mut out[..alone.len() / 2], &mut scratch), Ok(false));
            assert!(matches!(
                within(&mut out, &mut scratch[..1000]),
                Err(EncodeError::ScratchSize { .. })
            ));
        }
    }
}

#[test]
fn mistakes_of_the_caller_are_told() {
    let settings = ChunkSettings::new(Compressor::Lz4, Filter::Shuffle, 8);
    let plan = ChunkPlan::new(&settings, 1000).unwrap();
    let mut encoder = Encoder::new();
    let mut chunk = |plain: usize, out: usize, scratch: usize| {
        encoder.chunk(
            &settings,
            &vec![1; plain],
            &mut vec![0; out],
            &mut vec![0; scratch],
            1,
        )
    };
    let expected = plan.scratch();
    let found = expected - 1;
    assert_eq!(
        chunk(1000, 1016, found),
        Err(EncodeError::ScratchSize { found, expected })
    );
    let error = EncodeError::OutputSize {
        found: 1015,
        expected: 1016,
    };
    assert_eq!(chunk(1000, 1015, expected), Err(error));
    let limit = ChunkHeader::MAX_PLAIN as usize;
    let error = EncodeError::TooLarge {
        found: limit + 1,
        limit,
    };
    assert_eq!(ChunkPlan::new(&settings, limit + 1), Err(error));
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn what_outgrows_its_place_is_encoded_at_the_highest_level() {
    let plain = &floats(20_000)[..];
    for compressor in [Compressor::Lz4, Compressor::Zlib, Compressor::Zstd] {
        let mut settings = ChunkSettings::new(compressor, Filter::Shuffle, 8);
        settings.level = 1;
        let (usual, least) = (encode(&settings, plain), encode(&settings.highest(), plain));
        assert!(least.len() < usual.len(), "{compressor:?}");
        let filled = encode_within(&settings, plain, least.len() + 1).unwrap();
        assert_eq!(
            (decode(&filled) == plain, filled.len()),
            (true, least.len() + 1)
        );
        assert_eq!(encode_within(&settings, plain, least.len() - 1), None);
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        plain in byte_runs(3000),
        compressor in prop::sample::select(COMPRESSORS),
        filter in prop::sample::select(&FILTERS),
        typesize: u8,
        level in 0u8..=9,
        utmost in prop::bool::weighted(0.1),
        explicit in prop::option::of(1u32..4000),
        split: bool,
        slack in 0usize..200,
    ) {
        let mut settings = ChunkSettings::new(compressor, filter, typesize);
        (settings.level, settings.utmost, settings.split) = (level, utmost, split);
        settings.block_size = explicit.map_or(BlockSize::Rule, BlockSize::Explicit);
        let chunk = encode(&settings, &plain);
        prop_assert_eq!(decode(&chunk), &plain[..]);
        prop_assert!(chunk.len() <= plain.len() + 16);
        let filled = encode_within(&settings, &plain, chunk.len() + slack);
        if let Some(filled) = &filled {
            prop_assert_eq!(decode(filled), &plain[..]);
        }
        prop_assert!(filled.is_some() || header(&chunk).memcpyed());
    }
}
