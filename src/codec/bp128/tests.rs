//! Tests of the BP-128 codec: known bytes, AVX2 against scalar against the original values, and
//! input that no encoder wrote.

use proptest::prelude::*;

use super::encoded::{Encoded, encoded as encode};
use super::*;

const TRANSFORMS: [Transform; 4] = [
    Transform::Plain,
    Transform::MinusOne,
    Transform::Delta,
    Transform::DeltaZigzag,
];

fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect()
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Encodes, decodes both ways into unaligned buffers, and expects the values back.
fn assert_round_trip(transform: Transform, values: &[u32]) -> Encoded {
    let encoded = encode(transform, values);
    let Encoded { idx, starts, words } = &encoded;
    assert_eq!(check_index(idx), Ok(words.len() as u64 / 4));
    for decoder in [decode, decode_scalar] {
        let mut out = vec![0xaa; 4 * values.len() + 2];
        let (_, inner) = out.split_at_mut(1);
        let (inner, _) = inner.split_at_mut(4 * values.len());
        decoder(transform, idx, starts, words, inner).unwrap();
        assert_eq!(words_of(inner), values, "{transform:?}");
        assert_eq!((out[0], out[out.len() - 1]), (0xaa, 0xaa), "{transform:?}");
    }
    encoded
}

/// Values whose stored fields are exactly `bits` wide, if the transform leaves that open.
fn values_of_width(transform: Transform, bits: u32, random: &[u32]) -> Vec<u32> {
    let mask = (1u64 << bits).wrapping_sub(1) as u32;
    let mut fields: Vec<u32> = random.iter().map(|x| x & mask).collect();
    let widest = fields.len() / 2;
    fields[widest] |= (1u64 << bits >> 1) as u32;
    let mut value = random[0];
    fields
        .into_iter()
        .enumerate()
        .map(|(i, field)| {
            let difference = match transform {
                Transform::Plain => return field,
                Transform::MinusOne => return field.wrapping_add(1),
                _ if i % CHUNK == 0 => 0,
                Transform::Delta => field,
                Transform::DeltaZigzag => (field >> 1) ^ (field & 1).wrapping_neg(),
            };
            value = value.wrapping_add(difference);
            value
        })
        .collect()
}

/// Numbers without pattern, the same in each run.
fn noise(count: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    })
    .take(count)
    .collect()
}

#[test]
fn every_width_and_tail_round_trips() {
    let random = noise(2 * CHUNK);
    for transform in TRANSFORMS {
        for bits in 0..=32 {
            let values = values_of_width(transform, bits, &random);
            let encoded = assert_round_trip(transform, &values);
            let widest = 4 * bits;
            assert!(
                steps(&encoded.idx).any(|step| step == widest),
                "{transform:?} {bits}"
            );
            // Miri gets one for each width.
            let tails = (1..=CHUNK).filter(|tail| !cfg!(miri) || tail % CHUNK == bits as usize);
            for tail in tails {
                assert_round_trip(transform, &values[..tail]);
                assert_round_trip(transform, &values[..CHUNK + tail]);
            }
        }
    }
}

#[test]
fn plain_vector() {
    let encoded = assert_round_trip(Transform::Plain, &Vec::from_iter(0..128));
    let words = words_of(&encoded.words);
    assert_eq!(encoded.idx, [0, 28]);
    assert_eq!(
        words[..5],
        [0x01820200, 0x11a24281, 0x21c28302, 0x31e2c383, 0x203860a1]
    );
    assert_eq!(
        words[24..],
        [0xf9e3a70d, 0xfbe7af1d, 0xfdebb72d, 0xffefbf3d]
    );
}

#[test]
fn minus_one_vector() {
    let encoded = assert_round_trip(Transform::MinusOne, &[1, 2, 3, 4, 5]);
    let mut words = vec![0x24924920, 0x24924921, 0x24924922, 0x24924923];
    words.extend([0x49249249; 4]);
    words.extend([0x92492492; 4]);
    assert_eq!(words_of(&encoded.words), words);
}

#[test]
fn delta_zigzag_vector() {
    let encoded = assert_round_trip(Transform::DeltaZigzag, &[10, 12, 11, 5, 5]);
    let mut words = vec![0, 4, 1, 0xb];
    words.resize(16, 0);
    assert_eq!(
        (encoded.starts, words_of(&encoded.words)),
        (vec![10], words)
    );
}

#[test]
fn full_width_stores_originals() {
    let encoded = assert_round_trip(Transform::MinusOne, &[3, 0, 7]);
    let mut words = vec![3, 0, 7];
    words.resize(CHUNK, 7);
    assert_eq!(words_of(&encoded.words), words);

    // A start that goes back wraps to a wide difference; the start value is stored all the same.
    let encoded = assert_round_trip(Transform::Delta, &[9, 8]);
    assert_eq!((encoded.starts, encoded.idx), (vec![9], vec![0, 128]));
    assert_eq!(words_of(&encoded.words)[..3], [9, 8, 8]);

    for step in [1u32 << 30, 0u32.wrapping_sub((1 << 30) + 1)] {
        assert_eq!(
            encode(Transform::DeltaZigzag, &[5, step.wrapping_add(5)]).idx,
            [0, 128]
        );
    }
}

#[test]
fn sums_wrap_around() {
    // Zigzag 6 and 5 are 3 and -3: over the top and back, without full width.
    let values = [u32::MAX - 1, 1, u32::MAX - 1];
    assert_eq!(
        assert_round_trip(Transform::DeltaZigzag, &values).idx,
        [0, 12]
    );
    assert_eq!(
        assert_round_trip(Transform::Delta, &[u32::MAX, 4]).idx,
        [0, 12]
    );
}

#[test]
fn index_may_start_anywhere_and_wrap() {
    let values = noise(300);
    let Encoded { idx, starts, words } = encode(Transform::Plain, &values);
    let idx: Vec<u32> = idx.iter().map(|end| end.wrapping_sub(200)).collect();
    let mut out = vec![0; 1200];
    assert_eq!(
        decode(Transform::Plain, &idx, &starts, &words, &mut out),
        Ok(())
    );
    assert_eq!(words_of(&out), values);
}

#[test]
fn a_run_may_be_empty() {
    assert_eq!(encode(Transform::Delta, &[]).idx, [0]);
    assert_eq!(decode(Transform::Delta, &[7], &[], &[], &mut []), Ok(()));
}

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn words_total_beyond_32_bits() {
    // Not to be decoded here, but checked: 2^25 chunks of full width, in 2^32 words.
    let idx: Vec<u32> = (0..=1u32 << 25)
        .map(|chunk| chunk.wrapping_mul(128))
        .collect();
    assert_eq!(check_index(&idx), Ok(1 << 32));
}

#[test]
fn errors_name_the_chunk() {
    use Bp128Error::*;
    use Transform::*;
    let check = |transform, idx: &[u32], starts: &[u32], words: usize, out: usize| {
        let (words, mut out) = (vec![1; words], vec![0xaa; out]);
        let result = decode(transform, idx, starts, &words, &mut out);
        assert_eq!(
            decode_scalar(transform, idx, starts, &words, &mut out),
            result
        );
        assert!(out.iter().all(|&byte| byte == 0xaa));
        result.unwrap_err()
    };
    assert_eq!(check(Plain, &[], &[], 0, 0), EmptyIndex);
    assert_eq!(
        check(Plain, &[0, 4, 6], &[], 24, 1024),
        Step { chunk: 1, step: 2 }
    );
    assert_eq!(
        check(Plain, &[0, 132], &[], 528, 512),
        Step {
            chunk: 0,
            step: 132
        }
    );
    assert_eq!(
        check(Plain, &[8, 4], &[], 0, 512),
        Step {
            chunk: 0,
            step: 0xffff_fffc
        }
    );
    let short = Short {
        chunk: 1,
        needed: 32,
        present: 31,
    };
    assert_eq!(check(Plain, &[0, 4, 8, 12], &[], 31, 1536), short);
    assert_eq!(
        check(Plain, &[0, 4], &[], 17, 512),
        Excess {
            needed: 16,
            present: 17
        }
    );
    assert_eq!(
        check(Delta, &[0, 4], &[], 16, 512),
        Starts {
            needed: 1,
            present: 0
        }
    );
    assert_eq!(
        check(MinusOne, &[0, 4], &[1], 16, 512),
        Starts {
            needed: 0,
            present: 1
        }
    );
    for present in [510, 516] {
        assert_eq!(
            check(Plain, &[0, 4], &[], 16, present),
            Output { chunks: 1, present }
        );
    }
    assert_eq!(
        check(Plain, &[0, 4, 8], &[], 32, 512),
        Output {
            chunks: 2,
            present: 512
        }
    );
    assert_eq!(
        check(Plain, &[0], &[], 0, 4),
        Output {
            chunks: 0,
            present: 4
        }
    );
    let message = "the index step of chunk 3 is 6 words, not a multiple of 4 up to 128";
    assert_eq!(Step { chunk: 3, step: 6 }.to_string(), message);
}

#[test]
fn lengths_become_ends() {
    let mut ends = bytes_of(&[5, 1, u32::MAX]);
    add_in_place(&mut ends, &bytes_of(&[10, u32::MAX, u32::MAX]));
    assert_eq!(words_of(&ends), [15, 0, u32::MAX - 1]);
    add_in_place(&mut ends, &[1, 0, 0, 0, 1]);
    assert_eq!(words_of(&ends), [16, 0, u32::MAX - 1]);
}

pub(super) fn any_transform() -> impl Strategy<Value = Transform> {
    prop::sample::select(TRANSFORMS.as_slice())
}

/// Mostly steps that some width gives, or nearly.
fn any_step() -> impl Strategy<Value = u32> {
    prop_oneof![9 => (0..=33u32).prop_map(|bits| 4 * bits), 1 => any::<u32>()]
}

/// Runs of chunks of mixed widths, with a tail.
pub(super) fn any_values() -> impl Strategy<Value = Vec<u32>> {
    let chunk = (
        0..=32u32,
        any::<u32>(),
        prop::collection::vec(any::<u32>(), CHUNK),
    );
    let chunks = prop::collection::vec(chunk, 1..6);
    (chunks, 1..=CHUNK).prop_map(|(chunks, tail)| {
        let mut values = Vec::new();
        for (bits, base, noise) in chunks {
            values.extend(noise.iter().map(|x| {
                base.wrapping_add(x.checked_shr(32 - bits).unwrap_or(0)) // no shift by 32
            }));
        }
        values.truncate(values.len() - CHUNK + tail);
        values
    })
}

proptest! {
    #[test]
    fn mixed_widths_round_trip(transform in any_transform(), values in any_values()) {
        assert_round_trip(transform, &values);
    }

    /// Any words are a run of some values, and both decoders must find the same ones.
    #[test]
    fn decoders_agree_on_any_words(
        transform in any_transform(),
        widths in prop::collection::vec((0..=32u32, any::<u32>()), 1..5),
        base in any::<u32>(),
        noise in prop::collection::vec(any::<u8>(), 4 * 512),
        tail in 1..=CHUNK,
    ) {
        let mut idx = vec![base];
        for (bits, _) in &widths {
            idx.push(idx[idx.len() - 1].wrapping_add(4 * bits));
        }
        let words = &noise[..4 * check_index(&idx).unwrap() as usize];
        let starts: Vec<u32> = widths.iter().map(|(_, start)| *start).collect();
        let starts = if transform.has_starts() { starts.as_slice() } else { &[] };
        let mut expected = vec![0; CHUNK_BYTES * (widths.len() - 1) + 4 * tail];
        let mut out = expected.clone();
        decode_scalar(transform, &idx, starts, words, &mut expected).unwrap();
        decode(transform, &idx, starts, words, &mut out).unwrap();
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn hostile_input_is_an_error_or_values(
        transform in any_transform(),
        steps in prop::collection::vec(any_step(), 0..4),
        base in any::<u32>(),
        starts in prop::collection::vec(any::<u32>(), 0..4),
        words in prop::collection::vec(any::<u8>(), 0..1600),
        out in 0..2000usize,
    ) {
        let ends = steps.iter().scan(base, |end, step| {
            Some(std::mem::replace(end, end.wrapping_add(*step)))
        });
        let idx: Vec<u32> = ends.collect();
        let mut fast = vec![0; out];
        let mut slow = vec![0; out];
        let result = decode(transform, &idx, &starts, &words, &mut fast);
        prop_assert_eq!(decode_scalar(transform, &idx, &starts, &words, &mut slow), result);
        prop_assert_eq!(fast, slow);
    }
}
