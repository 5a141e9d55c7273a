//! Codecs against what their writers made, any bytes, and each other.

use proptest::prelude::*;

use super::*;
use crate::filters::FilterError;
use crate::memory::scratch::Region;

fn decode(codecs: Vec<ChunkCodec>, plain: Length, stored: &[u8]) -> Result<Vec<u8>, FilterError> {
    let chain = Chain::new(codecs, plain);
    let (mut region, mut out) = (Region::default(), vec![0xaa; plain.most()]);
    let scratch = region.scratch(chain.scratch()).unwrap();
    let len = chain.decode(stored, &mut out, scratch)?;
    out.truncate(len);
    Ok(out)
}

fn number(descr: &str) -> NumberType {
    NumberType::of_descr(descr).unwrap()
}

fn run(len: usize, is_big: bool, count: usize) -> NumberRun {
    NumberRun { len, is_big, count }
}

#[test]
fn dimensions_and_byte_order_are_put_back() {
    // numpy.arange(6, dtype=">u2").reshape(2, 3) in order F.
    let stored = [0u16, 3, 1, 4, 2, 5].map(u16::to_be_bytes).concat();
    let reorder = Reorder::new(&[2, 3], &[1, 0], 2).unwrap();
    let turn = ByteTurn::new([run(2, true, 1)]).unwrap();
    let codecs = vec![ChunkCodec::Reorder(reorder), ChunkCodec::ByteTurn(turn)];
    let plain = decode(codecs, Length::Exactly(12), &stored).unwrap();
    assert_eq!(
        plain,
        (0u16..6).flat_map(u16::to_le_bytes).collect::<Vec<_>>()
    );
    assert_eq!(Reorder::new(&[2, 3], &[0, 1], 2), None);
    assert_eq!(Reorder::new(&[2, 3], &[1, 1], 2), None);
    assert_eq!(ByteTurn::new([run(1, true, 1), run(4, false, 1)]), None);
    let mut record = [1, 0, 0, 2, 9, 8];
    ByteTurn::new([run(1, false, 1), run(3, true, 1), run(2, false, 1)])
        .unwrap()
        .apply(&mut record);
    assert_eq!(record, [1, 2, 0, 0, 9, 8]);
    let mut record = [1, 2, 3, 4, 5, 6, 7, 8];
    let runs = [run(1, true, 2), run(2, true, 2), run(2, true, 1)];
    ByteTurn::new(runs).unwrap().apply(&mut record);
    assert_eq!(record, [1, 2, 4, 3, 6, 5, 8, 7]);
}

#[test]
fn elements_are_changed_as_numpy_does_it() {
    let delta = ChunkCodec::Delta {
        shown: number("<i4"),
        stored: number("|i1"),
    };
    let plain = decode(vec![delta], Length::Exactly(12), &[100, 100, 0xff]).unwrap();
    assert_eq!(plain, [100i32, 200, 199].map(i32::to_le_bytes).concat());
    let scaled = ChunkCodec::FixedScaleOffset {
        scale: 10.0,
        offset: 1000.0,
        shown: number("<f8"),
        stored: number("|u1"),
    };
    let plain = decode(vec![scaled], Length::Exactly(16), &[0, 6]).unwrap();
    assert_eq!(plain, [1000.0, 1000.6f64].map(f64::to_le_bytes).concat());
    let packed = decode(
        vec![ChunkCodec::Packbits],
        Length::Exactly(9),
        &[7, 0b1010_0000, 0x80],
    );
    assert_eq!(packed.unwrap(), [1, 0, 1, 0, 0, 0, 0, 0, 1]);
    assert!(decode(vec![ChunkCodec::Packbits], Length::Exactly(9), &[200, 0, 0]).is_err());
    let of = ChunkCodec::AsType {
        shown: number(">i2"),
        stored: number("<f4"),
    };
    let stored = [-1.9f32, 258.0].map(f32::to_le_bytes).concat();
    assert_eq!(
        decode(vec![of], Length::Exactly(4), &stored).unwrap(),
        [0xff, 0xff, 1, 2]
    );
}

#[test]
fn sums_stand_at_either_end() {
    for sum in [Sum::Adler32, Sum::Crc32, Sum::Crc32c] {
        let stored = [&sum_of(sum, b"chunk").to_le_bytes(), &b"chunk"[..]].concat();
        let codec = ChunkCodec::Sum {
            sum,
            at_start: true,
        };
        let plain = decode(vec![codec.clone()], Length::Exactly(5), &stored).unwrap();
        assert_eq!(plain, b"chunk");
        assert!(decode(vec![codec], Length::Exactly(4), &stored).is_err());
        let turned = [&b"chunk"[..], &sum_of(sum, b"chunk").to_le_bytes()].concat();
        let codec = ChunkCodec::Sum {
            sum,
            at_start: false,
        };
        assert!(decode(vec![codec.clone()], Length::Exactly(5), &turned).is_ok());
        assert!(decode(vec![codec], Length::Exactly(5), &stored).is_err());
    }
}

fn sum_of(sum: Sum, data: &[u8]) -> u32 {
    match sum {
        Sum::Adler32 => simd_adler32::adler32(&data),
        Sum::Crc32 => crc32fast::hash(data),
        _ => crc32c::crc32c(data),
    }
}

#[test]
fn streams_that_follow_on_each_other_are_one() {
    let member = |data: &[u8]| {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; 100 + data.len()];
        let len = compressor.gzip_compress(data, &mut out).unwrap();
        out.truncate(len);
        out
    };
    let stored = [
        member(b"one"),
        member(b""),
        member(b"two"),
        b"rest".to_vec(),
    ]
    .concat();
    let plain = decode(vec![ChunkCodec::Gzip], Length::Exactly(6), &stored).unwrap();
    assert_eq!(plain, b"onetwo");
    let cut = &stored[..stored.len() - 10];
    assert!(decode(vec![ChunkCodec::Gzip], Length::Exactly(6), cut).is_err());
}

#[test]
fn what_decodes_to_more_than_a_chunk_is_refused() {
    let zeros = zstd::bulk::compress(&vec![0; 1 << 20], 1).unwrap();
    let refused = decode(vec![ChunkCodec::Zstd], Length::Exactly(40), &zeros);
    assert!(refused.is_err());
    // One compressor inside of another: what lies between is bounded as well.
    let twice = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    let chain = vec![ChunkCodec::Zstd, ChunkCodec::Zstd];
    assert!(decode(chain.clone(), Length::Exactly(40), &twice).is_err());
    assert!(Chain::new(chain, Length::Exactly(40)).scratch() < 1 << 20);
}

fn all() -> Vec<ChunkCodec> {
    let raw = LzmaForm::Raw(vec![LzmaFilter::Delta { distance: 4 }, LzmaFilter::Lzma2]);
    let one = LzmaForm::Raw(vec![LzmaFilter::Lzma1 {
        lc: 3,
        lp: 0,
        pb: 2,
    }]);
    vec![
        ChunkCodec::Blosc,
        ChunkCodec::Gzip,
        ChunkCodec::Zlib,
        ChunkCodec::Zstd,
        ChunkCodec::Lz4,
        ChunkCodec::Bz2,
        ChunkCodec::Lzma(LzmaForm::Xz),
        ChunkCodec::Lzma(LzmaForm::Alone),
        ChunkCodec::Lzma(raw),
        ChunkCodec::Lzma(one),
        ChunkCodec::Sum {
            sum: Sum::Fletcher32,
            at_start: false,
        },
        ChunkCodec::Shuffle { size: 3 },
        ChunkCodec::Pcodec(NumpyNumber::F16),
        ChunkCodec::Pcodec(NumpyNumber::I64),
        ChunkCodec::Delta {
            shown: number(">u2"),
            stored: number("<i8"),
        },
        ChunkCodec::Packbits,
        ChunkCodec::Categorize {
            labels: vec![1; 12],
            size: 4,
            stored: number("|u1"),
        },
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        which in 0usize..17,
        plain in 0usize..300,
        exact in any::<bool>(),
        stored in prop::collection::vec(any::<u8>(), 0..200),
        magic in any::<bool>(),
    ) {
        let codec = all()[which].clone();
        let length = if exact { Length::Exactly(plain) } else { Length::AtMost(plain) };
        let start: &[u8] = match &codec {
            ChunkCodec::Gzip => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0],
            ChunkCodec::Zlib => &[0x78, 0x9c],
            ChunkCodec::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
            ChunkCodec::Bz2 => b"BZh91AY&SY",
            ChunkCodec::Lzma(LzmaForm::Xz) => b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16",
            ChunkCodec::Lzma(LzmaForm::Alone) => &[0x5d, 0, 0, 0x80, 0xff],
            ChunkCodec::Pcodec(_) => b"pco!",
            _ => &[],
        };
        let stored = if magic { [start, &stored].concat() } else { stored };
        if let Ok(out) = decode(vec![codec], length, &stored) {
            prop_assert!(out.len() == plain || !exact && out.len() < plain);
        }
    }
}
