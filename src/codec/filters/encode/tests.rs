//! Encoded chunks decode to what they were, within the room and the memory that were asked for; and
//! are what other writers make, where only one form is possible.

use super::super::tests::encode::{BitWriter, FilterWriter, WriterKind, bytes};
use super::super::tests::{next, packed, scale_values, single};
use super::super::{FilterDescription, Pipeline};
use super::*;
use crate::memory::scratch::Region;
use proptest::prelude::*;

fn described(id: u32, values: &[u32]) -> FilterDescription {
    let values = values.to_vec();
    FilterDescription { id, values }
}

/// Encodes with as much room and memory as the encoder asks for.
fn encoded(pipeline: &Pipeline, plain: &[u8]) -> (u32, Vec<u8>) {
    let encoder = pipeline.encoder();
    let mut region = Region::default();
    let scratch = region.scratch(encoder.scratch()).unwrap();
    let mut out = vec![0xaa; encoder.most() as usize];
    let EncodedChunk { len, mask } = encoder.encode(plain, &mut out, scratch).unwrap();
    out.truncate(len);
    (mask, out)
}

fn decoded(pipeline: &Pipeline, mask: u32, stored: &[u8]) -> Vec<u8> {
    let mut region = Region::default();
    let scratch = region.scratch(pipeline.scratch(mask)).unwrap();
    let mut out = vec![0x55; pipeline.chunk_bytes];
    let len = pipeline.decode(mask, stored, &mut out, scratch).unwrap();
    out.truncate(len);
    out
}

/// Encodes a chunk and decodes it again; says what was stored.
fn round_trip(filters: &[FilterDescription], plain: &[u8]) -> (u32, Vec<u8>) {
    let pipeline = Pipeline::new(filters, plain.len()).unwrap();
    assert_eq!(pipeline.encoder().unfiltered(), None);
    let (mask, stored) = encoded(&pipeline, plain);
    let found = decoded(&pipeline, mask, &stored);
    assert!(found == plain, "{filters:?}, {} bytes", plain.len());
    (mask, stored)
}

/// Whether its encoder can be run here: Miri cannot call C.
fn runs(filter: &FilterDescription) -> bool {
    let calls_c = match filter.id {
        1 | 32004 | 32015 => true,
        32001 => !matches!(filter.values[6], 0 | 3),
        32008 => filter.values[4] != 0,
        _ => false,
    };
    !(cfg!(miri) && calls_c)
}

/// Miri gets a part of the bytes and cases.
const FEWER: u32 = if cfg!(miri) { 300 } else { 1 };

/// All filters that take any bytes.
fn filters() -> impl Strategy<Value = FilterDescription> {
    let width = || prop_oneof![4 => 1u32..20, 1 => 200u32..300];
    let block = || prop_oneof![Just(0u32), (1u32..40).prop_map(|eights| 8 * eights)];
    let bitshuffle = (width(), block(), prop_oneof![Just(0u32), Just(2), Just(3)]);
    let blosc = (width(), 0u32..10, 0u32..3, 0u32..6);
    prop_oneof![
        (0u32..10).prop_map(|level| described(1, &[level])),
        width().prop_map(|width| described(2, &[width])),
        Just(described(3, &[])),
        (1u32..10).prop_map(|level| described(307, &[level])),
        prop_oneof![Just(0u32), 1u32..2000].prop_map(|block| described(32004, &[block])),
        (0u32..8).prop_map(|level| described(32015, &[level])),
        bitshuffle.prop_map(|(width, block, code)| described(32008, &[0, 4, width, block, code])),
        blosc.prop_map(|(width, level, shuffle, code)| {
            described(32001, &[2, 2, width, 0, level, shuffle, code])
        }),
    ]
    .prop_filter("calls C", runs)
}

/// Client values that are usual, one for each filter and variant.
fn usual() -> Vec<FilterDescription> {
    let mut usual = vec![
        described(1, &[6]),
        described(2, &[4]),
        described(3, &[]),
        described(307, &[]),
        described(32004, &[]),
        described(32015, &[]),
        described(32015, &[22]),
    ];
    usual.extend([0, 2, 3].map(|code| described(32008, &[0, 4, 4, 0, code])));
    for code in 0..6 {
        usual.extend([0, 1, 2].map(|filter| described(32001, &[2, 2, 4, 0, 5, filter, code])));
    }
    usual.retain(runs);
    usual
}

/// A chunk in which nothing is to be found.
fn noise(len: usize) -> Vec<u8> {
    let mut seed = 1;
    (0..len).map(|_| next(&mut seed) as u8).collect()
}

/// A chunk as of a slowly rising measurement.
fn measured(count: u32) -> Vec<u8> {
    let numbers = (0..count).map(|i| 1_000_000 + i / 8 + i % 5);
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn is_compressor(filter: &FilterDescription) -> bool {
    let only_moves_bits = filter.id == 32008 && filter.values[4] == 0;
    !matches!(filter.id, 2 | 3) && !only_moves_bits
}

#[test]
fn what_is_written_gets_smaller() {
    let plain = measured(50_000 / FEWER);
    for filter in usual() {
        let (mask, stored) = round_trip(std::slice::from_ref(&filter), &plain);
        assert_eq!(mask, 0, "{filter:?}");
        let smaller = stored.len() < plain.len() * 99 / 100;
        assert_eq!(smaller, is_compressor(&filter), "{filter:?}");
    }
}

#[test]
fn a_compressor_is_skipped_where_it_finds_nothing_and_the_others_run() {
    for len in [0, 1, 3, 7, 64, 1001, 30_000 / FEWER as usize] {
        let plain = noise(len);
        for filter in usual() {
            let both = [filter.clone(), described(3, &[])];
            let (mask, stored) = round_trip(&both, &plain);
            assert_eq!(mask & 2, 0);
            let sums = both.iter().filter(|filter| filter.id == 3).count();
            assert_eq!(stored.len(), len + 4 * sums, "{filter:?}");
            if is_compressor(&filter) {
                assert_eq!(mask & 1, 1, "{filter:?} of {len} bytes");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn the_level_counts() {
    let plain: Vec<u8> = measured(50_000).iter().map(|byte| byte % 11).collect();
    let len = |id, values: &[u32]| round_trip(&[described(id, values)], &plain).1.len();
    assert_eq!(len(1, &[0]), plain.len());
    assert!(len(1, &[9]) < len(1, &[1]));
    assert!(len(32015, &[19]) < len(32015, &[1]));
    assert!(len(307, &[9]) != len(307, &[1]));
    assert_eq!(len(32001, &[2, 2, 4, 0, 0, 1, 0]), plain.len());
    assert!(len(32001, &[2, 2, 4, 0, 9, 1, 5]) < len(32001, &[2, 2, 4, 0, 1, 1, 5]));
}

#[test]
fn a_filter_without_encoder_leaves_chunks_as_they_are() {
    let lossy = [
        scale_values([0, 3, 4, 1, 4, 1, 0], None),
        scale_values([2, 7, 4, 0, 4, 1, 0], None),
    ];
    let szip = described(4, &[141, 32, 32, 256]);
    let cases = [
        (szip, "there is no encoder for szip"),
        (
            described(32000, &[4, 261, 8]),
            "there is no encoder for lzf",
        ),
        (
            described(32026, &[1, 0, 4, 0]),
            "there is no encoder for blosc2",
        ),
        (described(32013, &[1]), "there is no encoder for zfp"),
        (described(4711, &[]), "there is no encoder for filter 4711"),
        (described(6, &lossy[0]), "scaleoffset is lossy"),
        (described(6, &lossy[1]), "scaleoffset is lossy"),
        (
            described(32001, &[2, 2, 4, 0, 5, 1, 9]),
            "there is no encoder for compressor 9 of blosc",
        ),
    ];
    for (filter, why) in cases {
        let filters = [described(2, &[4]), filter, described(1, &[6])];
        let pipeline = Pipeline::new(&filters, 16).unwrap();
        let encoder = pipeline.encoder();
        assert_eq!(encoder.unfiltered(), Some(why));
        assert_eq!((encoder.most(), encoder.scratch()), (16, 0));
        assert_eq!(encoded(&pipeline, &[7; 16]), (0b111, vec![7; 16]));
        assert_eq!(decoded(&pipeline, 0b111, &[7; 16]), [7; 16]);
    }
    let many = vec![described(4711, &[]); 32];
    let pipeline = Pipeline::new(&many, 4).unwrap();
    assert_eq!(encoded(&pipeline, b"abcd"), (u32::MAX, b"abcd".to_vec()));
    let none = Pipeline::new(&[], 4).unwrap();
    assert_eq!(encoded(&none, b"abcd"), (0, b"abcd".to_vec()));
}

/// Values that libhdf5 does not take: it skips these filters, and would refuse a chunk that went
/// through one of them.
#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn filters_that_are_never_applied_are_skipped() {
    let plain = measured(1000);
    for never in [
        described(2, &[]),
        described(2, &[0]),
        described(2, &[4, 4]),
        described(1, &[]),
        described(1, &[10]),
        described(4, &[4, 32]),
        described(5, &[]),
        described(6, &[2, 0]),
        described(32008, &[0, 2]),
    ] {
        let (mask, alone) = round_trip(std::slice::from_ref(&never), &plain);
        assert_eq!((mask, &alone), (1, &plain), "{never:?}");
        for (at, mask) in [(0, 1), (1, 2), (2, 4)] {
            let mut filters = vec![described(2, &[4]), described(1, &[6])];
            filters.insert(at, never.clone());
            let (found, stored) = round_trip(&filters, &plain);
            assert_eq!(found, mask, "{filters:?}");
            assert!(stored.len() < plain.len());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn many_filters_are_one_after_another() {
    let plain = measured(1000);
    let checksums = vec![described(3, &[]); 32];
    let (mask, stored) = round_trip(&checksums, &plain);
    assert_eq!((mask, stored.len()), (0, plain.len() + 32 * 4));
    let gzips = vec![described(1, &[6]); 32];
    let (mask, _) = round_trip(&gzips, &plain);
    assert!(mask & 1 == 0 && mask >> 31 == 1, "{mask:#x}");
}

#[test]
fn wrong_sizes_are_refused() {
    let encoder = single(3, &[], 8).unwrap().encoder();
    let encode = |plain: &[u8], room: usize| {
        encoder
            .encode(plain, &mut vec![0; room], Arena::none())
            .map(|chunk| chunk.len)
    };
    assert_eq!(encoder.most(), 12);
    assert_eq!(encode(&[0; 8], 12).unwrap(), 12);
    assert_eq!(encode(&[0; 8], 13).unwrap(), 12);
    assert!(encode(&[0; 8], 11).is_err());
    assert!(encode(&[0; 7], 12).is_err());
}

#[test]
fn sizes_that_are_only_claimed_take_no_time_and_do_not_overflow() {
    let claims = [
        described(2, &[u32::MAX]),
        described(32008, &[0, 4, u32::MAX, u32::MAX - 7, 2]),
        described(32001, &[2, 2, u32::MAX, 0, u32::MAX, 2, 3]),
        described(32004, &[u32::MAX]),
        described(1, &[u32::MAX]),
        described(32015, &[u32::MAX]),
        described(307, &[u32::MAX]),
    ];
    for filter in usual().into_iter().chain(claims).filter(runs) {
        round_trip(std::slice::from_ref(&filter), &[5; 300]);
        let huge = Pipeline::new(&vec![filter; 3], usize::MAX)
            .unwrap()
            .encoder();
        assert_eq!(huge.most(), u64::MAX);
        let _ = huge.scratch();
    }
}

#[test]
#[cfg_attr(miri, ignore = "calls C")]
fn zstd_takes_no_more_than_is_charged() {
    for (len, levels) in [(1 << 10, 1..=22), (300 << 10, 1..=22), (5 << 20, 1..=17)] {
        let plain: Vec<u8> = measured(len / 4);
        for level in levels {
            let charged = streams::zstd_workspace(level, plain.len());
            let mut context = ::zstd::bulk::Compressor::new(level).unwrap();
            let mut out = vec![0; plain.len()];
            context.compress_to_buffer(&plain, &mut out).unwrap();
            let taken = context.context_mut().sizeof() as u64;
            let known = charged.max(crate::contexts::KEPT_ZSTD);
            assert!(
                taken <= known,
                "{taken} at level {level} for {len}, charged {charged}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600 / FEWER))]

    #[test]
    fn what_is_encoded_decodes(
        filters in prop::collection::vec(filters(), 0..5),
        plain in bytes(20_000),
    ) {
        round_trip(&filters, &plain);
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls C")]
    fn usual_pipelines(
        which in 0usize..6,
        width in 1u32..17,
        noisy in any::<bool>(),
        plain in bytes(6000),
    ) {
        let plain = if noisy { noise(plain.len()) } else { plain };
        let (shuffle, gzip, sum) = (described(2, &[width]), described(1, &[4]), described(3, &[]));
        let pipelines = [
            vec![shuffle.clone(), gzip.clone()],
            vec![shuffle.clone(), gzip.clone(), sum.clone()],
            vec![gzip, sum.clone()],
            vec![described(32008, &[0, 4, width, 0, 2]), sum.clone()],
            vec![shuffle, described(32015, &[3])],
            vec![sum, described(32001, &[2, 2, width, 0, 5, 1, 1])],
        ];
        round_trip(&pipelines[which], &plain);
    }

    #[test]
    fn what_only_one_form_is_possible_of_is_that(
        width in 1usize..20,
        eights in 1usize..40,
        plain in bytes(3000),
    ) {
        let kinds = [
            WriterKind::Shuffle(width),
            WriterKind::Fletcher32,
            WriterKind::Bitshuffle(width, 8 * eights, 0),
        ];
        for kind in kinds {
            let writer = FilterWriter::new(kind);
            if let Some(expected) = writer.write(&plain) {
                let (mask, stored) = round_trip(std::slice::from_ref(&writer.filter), &plain);
                prop_assert_eq!((mask, stored), (0, expected));
            }
        }
    }

    #[test]
    fn bits_are_packed_as_others_do(kind in packed(), count in 1usize..40, seed in any::<u64>()) {
        let (mut seed, mut bits) = (seed, BitWriter::default());
        let plain: Vec<u8> = (0..count).flat_map(|_| kind.pack(&mut seed, &mut bits)).collect();
        let mut values = [vec![0, 0, count as u32], kind.values()].concat();
        values[0] = values.len() as u32;
        let (mask, stored) = round_trip(&[described(5, &values)], &plain);
        prop_assert_eq!((mask, stored), (0, bits.bytes()));
    }

    #[test]
    fn integers_are_scaled(
        log in 0u32..4,
        signed in 0u32..2,
        order in 0u32..2,
        first in any::<u64>(),
        raw in prop::collection::vec((any::<u64>(), any::<bool>()), 1..200),
        spread in 0u32..64,
        fill in prop::option::of(any::<u64>()),
    ) {
        let size = 1usize << log;
        let plain: Vec<u8> = raw
            .iter()
            .map(|(number, is_fill)| match fill {
                Some(fill) if *is_fill => fill,
                _ => first.wrapping_add(number & ((1 << spread) - 1)),
            })
            .flat_map(|number| {
                let mut bytes = number.to_le_bytes()[..size].to_vec();
                if order == 1 {
                    bytes.reverse();
                }
                bytes
            })
            .collect();
        let values = scale_values([2, 0, raw.len() as u32, 0, size as u32, signed, order], fill);
        round_trip(&[described(6, &values)], &plain);
    }
}
