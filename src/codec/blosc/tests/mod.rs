//! Whole chunks, of every codec and filter, sound and damaged; and the encoder that the tests
//! share.

pub(crate) mod encoder;

use super::{BloscError, ChunkHeader, Codec, Decoder, Filter};
use encoder::{Plan, byte_runs, floats, mutate};
use proptest::prelude::*;

/// All codecs, but for Miri without the libraries in C.
pub(super) const CODECS: &[Codec] = match cfg!(miri) {
    true => &[Codec::BloscLz, Codec::Lz4, Codec::Snappy],
    false => &[
        Codec::BloscLz,
        Codec::Lz4,
        Codec::Snappy,
        Codec::Zlib,
        Codec::Zstd,
    ],
};
const FILTERS: [Filter; 3] = [Filter::None, Filter::Shuffle, Filter::Bitshuffle];

fn decode(chunk: &[u8]) -> Result<Vec<u8>, BloscError> {
    let header = ChunkHeader::parse(chunk.first_chunk().unwrap())?;
    let mut out = vec![0xaa; header.nbytes() as usize];
    let mut scratch = scratch(&header);
    Decoder::new().decode_chunk(&header, chunk, &mut out, &mut scratch)?;
    Ok(out)
}

fn scratch(header: &ChunkHeader) -> Vec<u8> {
    vec![0x55; header.scratch()]
}

fn plan() -> Plan {
    Plan {
        codec: Codec::Lz4,
        filter: Filter::Shuffle,
        typesize: 8,
        blocksize: 4096,
        split: true,
    }
}

#[test]
fn codecs_filters_and_splits() {
    let (count, most) = if cfg!(miri) {
        (150, 1024)
    } else {
        (2500, 4096)
    };
    let plain = floats(count);
    let mut decoder = Decoder::new();
    for &codec in CODECS {
        for filter in FILTERS {
            for (typesize, split) in [(1, true), (8, true), (8, false), (7, true), (32, true)] {
                let blocksize = most / typesize * typesize;
                let plan = Plan {
                    codec,
                    filter,
                    typesize,
                    blocksize,
                    split,
                };
                let chunk = plan.chunk(&plain);
                let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
                let mut out = vec![0xaa; plain.len()];
                decoder
                    .decode_chunk(&header, &chunk, &mut out, &mut scratch(&header))
                    .unwrap();
                assert!(out == plain, "{plan:?}");
            }
        }
    }
}

#[test]
fn blocks_in_any_order_one_at_a_time() {
    let plain = floats(2500);
    let chunk = plan().chunk_with_blocks(&plain, |blocks| blocks.reverse());
    let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
    assert_eq!(decode(&chunk).unwrap(), plain);
    let mut decoder = Decoder::new();
    for block in (0..header.blocks()).rev() {
        let at = 16 + 4 * block as usize;
        let start = u32::from_le_bytes(*chunk[at..].first_chunk().unwrap());
        let range = header.block_range(block);
        let plain = &plain[range.start as usize..range.end as usize];
        let mut out = vec![0; plain.len()];
        decoder
            .decode_block(
                &header,
                block,
                &chunk[start as usize..],
                &mut out,
                &mut scratch(&header),
            )
            .unwrap();
        assert!(out == plain);
    }
}

#[test]
fn memcpyed_is_never_filtered() {
    let plain = floats(100);
    let chunk = plan().memcpyed(&plain);
    let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
    assert_eq!(decode(&chunk).unwrap(), plain);
    let mut out = vec![0; plain.len()];
    Decoder::new()
        .decode_block(&header, 0, &chunk[16..], &mut out, &mut [])
        .unwrap();
    assert_eq!(out, plain);
    let error = Decoder::new()
        .decode_block(&header, 0, &chunk[17..], &mut out, &mut [])
        .unwrap_err();
    assert_eq!(
        error,
        BloscError::BlockEnd {
            block: 0,
            stream: 0,
            found: 799,
            needed: 800
        }
    );
}

#[test]
fn empty_chunk() {
    assert_eq!(decode(&plan().memcpyed(&[])), Ok(vec![]));
    let header = ChunkHeader::parse(plan().memcpyed(&[]).first_chunk().unwrap()).unwrap();
    let error = Decoder::new()
        .decode_block(&header, 0, &[], &mut [], &mut [])
        .unwrap_err();
    assert_eq!(
        error,
        BloscError::NoSuchBlock {
            block: 0,
            blocks: 0
        }
    );
}

#[test]
fn places_of_faults() {
    let good = plan().chunk(&floats(1024));
    let with = |at: usize, value: i32| {
        let mut chunk = good.clone();
        chunk[at..at + 4].copy_from_slice(&value.to_le_bytes());
        decode(&chunk).unwrap_err()
    };
    let limit = good.len() as u32;
    for found in [23, limit, u32::MAX] {
        let error = BloscError::BlockStart {
            block: 1,
            found,
            least: 24,
            limit,
        };
        assert_eq!(with(20, found as i32), error);
    }
    let available = good.len() - 28;
    for found in [-1, i32::MIN, i32::MAX, available as i32 + 1] {
        let error = BloscError::StreamLength {
            block: 0,
            stream: 0,
            found,
            available,
        };
        assert_eq!(with(24, found), error);
    }
    let error = BloscError::BlockEnd {
        block: 1,
        stream: 0,
        found: 3,
        needed: 4,
    };
    assert_eq!(with(20, good.len() as i32 - 3), error);
    assert!(matches!(
        with(24, 0),
        BloscError::Stream {
            block: 0,
            stream: 0,
            ..
        }
    ));
    let error = BloscError::UnevenSplit {
        blocksize: 4100,
        typesize: 8,
    };
    assert_eq!(with(8, 4100), error);
    assert!(matches!(
        decode(&good[..good.len() - 1]),
        Err(BloscError::ChunkSize { .. })
    ));
}

#[test]
fn output_must_fit() {
    let chunk = plan().chunk(&floats(512));
    let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
    let error = BloscError::OutputSize {
        found: 9,
        expected: 4096,
    };
    let mut decoder = Decoder::new();
    assert_eq!(
        decoder.decode_chunk(&header, &chunk, &mut [0; 9], &mut scratch(&header)),
        Err(error.clone())
    );
    assert_eq!(
        decoder.decode_block(&header, 0, &chunk[20..], &mut [0; 9], &mut scratch(&header)),
        Err(error)
    );
}

#[test]
fn too_little_scratch_is_our_mistake() {
    let chunk = plan().chunk(&floats(512));
    let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
    let (mut out, mut scratch) = (vec![0; 4096], scratch(&header));
    let expected = scratch.len();
    let error = Decoder::new().decode_chunk(&header, &chunk, &mut out, &mut scratch[1..]);
    let found = expected - 1;
    assert_eq!(error, Err(BloscError::ScratchSize { found, expected }));
}

proptest! {
    #[test]
    fn any_plan(
        plain in byte_runs(6000),
        codec in prop::sample::select(CODECS),
        filter in prop::sample::select(&FILTERS),
        typesize in 1usize..=255,
        elements in 1usize..600,
        split: bool,
    ) {
        let blocksize = (elements * typesize).min(plain.len());
        let plan = Plan { codec, filter, typesize, blocksize, split };
        prop_assume!(!plain.is_empty() && plan.divides());
        prop_assert_eq!(decode(&plan.chunk(&plain)), Ok(plain));
    }

    #[test]
    fn damage_never_panics(
        codec in prop::sample::select(CODECS),
        filter in prop::sample::select(&FILTERS),
        split: bool,
        edits in mutate(),
    ) {
        let plan = Plan { codec, filter, split, ..plan() };
        let chunk = edits.apply(plan.chunk(&floats(1100)));
        let header = chunk.first_chunk().and_then(|bytes| ChunkHeader::parse(bytes).ok());
        if let Some(header) = header.filter(|header| header.nbytes() < 1 << 20) {
            let mut out = vec![0; header.nbytes() as usize];
            let _ = Decoder::new().decode_chunk(&header, &chunk, &mut out, &mut scratch(&header));
        }
    }
}
