//! Chunks that are encoded in parts are those that are encoded whole.

use super::*;

fn in_parts(settings: &ChunkSettings, plain: &[u8], place: Option<usize>) -> Vec<u8> {
    let needs = PartNeeds::new(settings, plain.len()).unwrap();
    let mut chunk = Vec::new();
    let mut parts = PartEncoder {
        encoder: &mut Encoder::new(),
        space: PartSpace {
            starts: &mut vec![7; needs.blocks],
            plain: &mut vec![0x11; needs.plain],
            out: &mut vec![0x22; needs.out],
            scratch: &mut vec![0x33; needs.scratch],
        },
        read: &mut |range, out| {
            out.copy_from_slice(&plain[range]);
            Ok::<_, EncodeError>(())
        },
    };
    parts
        .chunk(settings, plain.len(), place, &mut |part| {
            chunk.extend_from_slice(part);
            Ok(())
        })
        .unwrap();
    chunk
}

fn whole(settings: &ChunkSettings, plain: &[u8], place: Option<usize>) -> Vec<u8> {
    match place {
        None => encode(settings, plain),
        Some(place) => encode_within(settings, plain, place)
            .unwrap_or_else(|| encode(&settings.highest(), plain)),
    }
}

/// Miri gets a part of the bytes.
const SMALLER: usize = if cfg!(miri) { 64 } else { 1 };

#[test]
fn parts_make_the_same_chunk() {
    let noise: Vec<u8> = (0..90_000 / SMALLER as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let floats = floats(11_000 / SMALLER);
    for &compressor in COMPRESSORS {
        for (filter, typesize, plain) in [
            (Filter::Shuffle, 8, &floats[..]),
            (Filter::Bitshuffle, 4, &floats[..50_003 / SMALLER]),
            (Filter::None, 1, &noise),
            (Filter::Shuffle, 3, &noise[..100]),
            (Filter::Shuffle, 8, &[]),
        ] {
            for level in [0, 1, 5] {
                let settings = ChunkSettings {
                    level,
                    block_size: BlockSize::Explicit((8 << 10) / SMALLER as u32),
                    ..ChunkSettings::new(compressor, filter, typesize)
                };
                let usual = encode(&settings, plain).len();
                let places = [
                    usual,
                    usual + 5000,
                    usual - usual / 50,
                    plain.len() + 16,
                    16,
                ];
                for place in places.map(Some).into_iter().chain([None]) {
                    let expected = whole(&settings, plain, place);
                    let found = in_parts(&settings, plain, place);
                    assert!(found == expected, "{settings:?} to {place:?}");
                }
            }
        }
    }
}

#[test]
fn a_block_that_is_another_one_the_second_time_is_refused() {
    let settings = ChunkSettings::new(Compressor::BloscLz, Filter::None, 1);
    let needs = PartNeeds::new(&settings, 5000).unwrap();
    let mut reads = 0;
    let mut parts = PartEncoder {
        encoder: &mut Encoder::new(),
        space: PartSpace {
            starts: &mut vec![0; needs.blocks],
            plain: &mut vec![0; needs.plain],
            out: &mut vec![0; needs.out],
            scratch: &mut vec![0; needs.scratch],
        },
        read: &mut |_, out| {
            reads += 1;
            let factor = if reads > needs.blocks { 7 } else { 0 };
            for (at, out) in out.iter_mut().enumerate() {
                *out = (at * at * factor % 251) as u8;
            }
            Ok(())
        },
    };
    let chunk = parts.chunk(&settings, 5000, None, &mut |_| Ok(()));
    assert!(
        matches!(chunk, Err(EncodeError::BlockLength { .. })),
        "{chunk:?}"
    );
}
