//! What a stored chunk shows of how it was written, and C-Blosc's block sizes.

use super::{COMPRESSORS, FILTERS, encode, header};
use crate::blosc::encode::{BlockSize, ChunkSettings, Compressor};
use crate::blosc::tests::encoder::floats;
use crate::blosc::{ChunkHeader, Filter};
use proptest::prelude::*;

fn shuffled(compressor: Compressor, typesize: u8, level: u8) -> ChunkSettings {
    ChunkSettings {
        level,
        ..ChunkSettings::new(compressor, Filter::Shuffle, typesize)
    }
}

/// In KiB, rounded down, at levels 0 to 9.
fn block_sizes(compressor: Compressor, typesize: u8) -> [u32; 10] {
    std::array::from_fn(|level| {
        shuffled(compressor, typesize, level as u8).block_size(4 << 20) >> 10
    })
}

#[test]
fn block_sizes_of_the_real_library() {
    use Compressor::*;
    let few = [8, 64, 64, 64, 128, 128, 256, 256, 256, 256];
    let eight = [8, 128, 256, 512, 1024, 1024, 1024, 1024, 1024, 1024];
    let whole = [7, 15, 31, 63, 127, 127, 255, 255, 255, 255];
    for compressor in [BloscLz, Lz4, Snappy] {
        assert_eq!(block_sizes(compressor, 1), few);
        assert_eq!(block_sizes(compressor, 8), eight);
        assert_eq!(block_sizes(compressor, 40), whole);
    }
    let four = [16, 128, 256, 512, 1024, 1024, 1024, 1024, 1024, 1024];
    let whole = [15, 31, 63, 127, 255, 255, 511, 511, 511, 1023];
    for compressor in [Lz4Hc, Zlib] {
        assert_eq!(block_sizes(compressor, 4), four);
        assert_eq!(block_sizes(compressor, 17), whole);
    }
    let zstd = [16, 32, 64, 128, 256, 256, 512, 512, 512, 1024];
    assert_eq!(block_sizes(Zstd, 8), zstd);
}

#[test]
fn block_sizes_of_short_chunks() {
    let size =
        |level, typesize, nbytes| shuffled(Compressor::Lz4, typesize, level).block_size(nbytes);
    let lengths = [0, 1, 7, 8, 127, 129, 1000, 40_000];
    assert_eq!(
        lengths.map(|len| size(7, 8, len)),
        [1, 1, 1, 8, 120, 128, 1000, 40_000]
    );
    assert_eq!([5, 127, 1000].map(|len| size(7, 1, len)), [5, 127, 1000]);
    assert_eq!([31, 127, 1000].map(|len| size(5, 32, len)), [1, 96, 992]);
    assert_eq!(size(0, 8, 40_000), 8192);
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn levels_are_narrowed_by_block_sizes() {
    let plain = floats(1 << 18);
    let level = |compressor, typesize, level| {
        let chunk = encode(&shuffled(compressor, typesize, level), &plain);
        ChunkSettings::of_chunk(&header(&chunk), &chunk)
    };
    let zstd = (0..=9).map(|given| level(Compressor::Zstd, 8, given).level);
    assert_eq!(zstd.collect::<Vec<_>>(), [0, 1, 2, 3, 5, 5, 7, 7, 7, 9]);
    let lz4 = (1..=9).map(|given| level(Compressor::Lz4, 8, given).level);
    assert_eq!(lz4.collect::<Vec<_>>(), [1, 2, 3, 7, 7, 7, 7, 7, 7]);
    // Zlib says more, in its streams.
    let zlib = (1..=9).map(|given| level(Compressor::Zlib, 8, given).level);
    assert_eq!(zlib.collect::<Vec<_>>(), [1, 2, 5, 5, 5, 6, 7, 7, 7]);
    // No level of the fast LZ4 makes blocks of this size.
    let thorough = level(Compressor::Lz4Hc, 32, 9);
    assert_eq!(
        (thorough.compressor, thorough.level),
        (Compressor::Lz4Hc, 9)
    );
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn blocks_of_no_level_are_kept() {
    let mut given = shuffled(Compressor::Zlib, 4, 3);
    given.block_size = BlockSize::Explicit(20_000);
    let chunk = encode(&given, &floats(20_000));
    let found = ChunkSettings::of_chunk(&header(&chunk), &chunk);
    assert_eq!(found.block_size, BlockSize::Explicit(20_000));
    assert_eq!(found.level, 5, "of those with zlib's hint, 2 to 5");
    assert_eq!(found.block_size(10_001), 10_000);
}

#[test]
fn memcpyed_chunks_have_the_default_level() {
    let chunk = encode(&shuffled(Compressor::Lz4, 8, 0), &floats(500));
    assert!(header(&chunk).memcpyed());
    assert_eq!(ChunkSettings::of_chunk(&header(&chunk), &chunk).level, 7);
    // But what has the small blocks of level 0 was meant to be stored so.
    let chunk = encode(&shuffled(Compressor::Lz4, 8, 0), &floats(5000));
    assert_eq!(ChunkSettings::of_chunk(&header(&chunk), &chunk).level, 0);
}

#[test]
fn the_empty_chunk_is_that_of_the_real_library() {
    let chunk = encode(
        &ChunkSettings::new(Compressor::BloscLz, Filter::Shuffle, 8),
        &[],
    );
    assert_eq!(chunk, [2, 1, 0x13, 8, 0, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0]);
}

proptest! {
    #[test]
    fn a_chunk_rewritten_has_the_same_header(
        len in 1usize..if cfg!(miri) { 5000 } else { 200_000 },
        compressor in prop::sample::select(COMPRESSORS),
        filter in prop::sample::select(&FILTERS),
        typesize in 1u8..40,
        level in 0u8..=9,
        explicit in prop::option::of(128u32..100_000),
        split: bool,
    ) {
        let mut given = ChunkSettings::new(compressor, filter, typesize);
        (given.level, given.split) = (level, split);
        given.block_size = explicit.map_or(BlockSize::Rule, BlockSize::Explicit);
        let plain = &floats(len / 8 + 1)[..len];
        let chunk = encode(&given, plain);
        let found = ChunkSettings::of_chunk(&header(&chunk), &chunk);
        let again = encode(&found, plain);
        // Whether it pays to compress may depend on the level.
        let unlike = |chunk: &[u8]| chunk[2] & !0x02;
        prop_assert_eq!(unlike(&again), unlike(&chunk), "{:?}", found);
        prop_assert_eq!(&again[3..12], &chunk[3..12], "{:?}", found);
        prop_assert_eq!(ChunkSettings::of_chunk(&header(&again), &again), found);
    }

    #[test]
    fn any_header_has_settings(bytes: [u8; 16], first in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = bytes;
        (bytes[0], bytes[1]) = (2, 1);
        (bytes[2], bytes[7], bytes[11]) = (bytes[2] & 0x77, 0, 0);
        if let Ok(header) = ChunkHeader::parse(&bytes) {
            let first = [&bytes[..], &first].concat();
            let found = ChunkSettings::of_chunk(&header, &first);
            prop_assert!(found.block_size(header.nbytes()) > 0);
        }
    }
}
