//! Streams of planes of all kinds, as an independent decoder reads them.

use super::*;
use proptest::prelude::*;

/// What an independent decoder makes of it.
fn decoded(stream: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    let mut decoder = libdeflater::Decompressor::new();
    let n = decoder.deflate_decompress(stream, &mut out).unwrap();
    assert_eq!(n, len);
    out
}

fn encoded(plain: &[u8], plane: usize) -> Vec<u8> {
    let mut out = vec![0; plain.len() + plain.len() / 50 + 100];
    let mut deflater = PlaneDeflater::new().unwrap();
    let n = deflater.encode(plain, plane, &mut out).unwrap();
    // What is left in the tables does no harm.
    let mut again = vec![0; n];
    assert_eq!(deflater.encode(plain, plane, &mut again), Some(n));
    assert_eq!(again, out[..n]);
    again
}

/// Bytes of a kind.
fn plane(kind: u8, len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let mut bytes: Vec<u8> = match kind {
        0 => vec![seed as u8; len],
        1 => (0..len).map(|_| (random() >> 8) as u8).collect(),
        // Some often, some never.
        2 => (0..len).map(|_| (random() % 97 % 31 % 11) as u8).collect(),
        // Repetitions, near and far.
        3 => (0..len)
            .map(|at| (at / 3 % 250) as u8 ^ (at / 40_000) as u8)
            .collect(),
        _ => (0..len)
            .map(|at| if at % 700 < 690 { 7 } else { random() as u8 })
            .collect(),
    };
    if kind == 5 && len > 2 {
        bytes[len - 1] = 1;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_decoder_reads_it(
        kinds in proptest::collection::vec((0u8..6, any::<u32>()), 1..5),
        each in prop_oneof![1usize..600, Just(65_535), Just(65_536), 4_000usize..140_000],
        tail in 0usize..9,
    ) {
        let planes = kinds.iter().map(|(kind, seed)| plane(*kind, each, *seed));
        let mut plain = planes.collect::<Vec<_>>().concat();
        plain.extend((0..tail).map(|n| n as u8));
        let stream = encoded(&plain, each);
        prop_assert_eq!(decoded(&stream, plain.len()), plain);
    }
}

#[test]
fn lengths_of_runs_come_out_as_they_are() {
    for len in (1..1200).chain(65_530..65_545) {
        let plain = vec![3; len];
        let stream = encoded(&plain, len);
        assert_eq!(decoded(&stream, len), plain);
        assert!(stream.len() < 120, "{len} bytes take {}", stream.len());
    }
}

#[test]
fn each_plane_is_told_as_suits_it() {
    let len = 200_000;
    let takes = |kind| encoded(&plane(kind, len, 99), len).len();
    let noise = takes(1);
    assert!((len..len + 40).contains(&noise), "{noise}");
    assert!(takes(2) < len / 2, "{}", takes(2));
    assert!(takes(3) < len / 20, "{}", takes(3));
    assert!(takes(4) < len / 20, "{}", takes(4));
}

#[test]
fn what_does_not_fit_is_told() {
    let plain = [plane(1, 5000, 3), plane(0, 5000, 3)].concat();
    let whole = encoded(&plain, 5000).len();
    let mut deflater = PlaneDeflater::new().unwrap();
    for room in 0..whole {
        let mut out = vec![0; room];
        assert_eq!(deflater.encode(&plain, 5000, &mut out), None, "{room}");
    }
}
