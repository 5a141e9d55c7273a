//! Both encoders: the same words, which the decoders take for the values that were encoded.

use proptest::prelude::*;

use super::*;
use crate::bp128::tests::{any_transform, any_values};
use crate::bp128::{decode_scalar, encoded, encoded::Encoded};

type Encode = fn(Transform, &[u8], &mut [u32], &mut [u32], &mut [u8]) -> Result<usize, Bp128Error>;

fn bytes_of(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

proptest! {
    /// From unaligned bytes, to unaligned words that hold rubbish.
    #[test]
    fn encoders_agree_and_decode(transform in any_transform(), values in any_values(), base in any::<u32>()) {
        let reference: Encoded = encoded::encoded(transform, &values);
        let shifted = [&[9][..], &bytes_of(&values)].concat();
        let room = most_words(4 * values.len()).unwrap();
        let (mut words, mut starts) = (vec![0x55; room + 1], reference.starts.clone());
        let mut idx = vec![base; reference.idx.len()];
        starts.fill(7);
        let len = encode(transform, &shifted[1..], &mut idx, &mut starts, &mut words[1..]).unwrap();
        prop_assert!(words[1..][..len] == reference.words);
        prop_assert_eq!(&starts, &reference.starts);
        let ends: Vec<u32> = idx.iter().map(|end| end.wrapping_sub(base)).collect();
        prop_assert_eq!(ends, reference.idx);
        let mut decoded = vec![0; 4 * values.len()];
        decode_scalar(transform, &idx, &starts, &words[1..][..len], &mut decoded).unwrap();
        prop_assert!(decoded == shifted[1..]);
    }
}

#[test]
fn a_run_of_nothing_has_no_words() {
    for encode in [encode as Encode, encode_scalar] {
        let mut idx = [5];
        let len = encode(Transform::Delta, &[], &mut idx, &mut [], &mut []);
        assert_eq!((len, idx), (Ok(0), [5]));
    }
}

#[test]
fn slices_that_do_not_belong_together_are_refused() {
    use Bp128Error::*;
    let check = |transform, values: usize, idx: usize, starts: usize, words: usize| {
        let refused = [encode as Encode, encode_scalar].map(|encode| {
            let (mut idx, mut starts) = (vec![0; idx], vec![0; starts]);
            let refused = encode(
                transform,
                &vec![1; values],
                &mut idx,
                &mut starts,
                &mut vec![0; words],
            );
            refused.unwrap_err()
        });
        assert_eq!(refused[0], refused[1]);
        refused[0]
    };
    let plain = Transform::Plain;
    assert_eq!(check(plain, 514, 3, 0, 1024), Values { present: 514 });
    let index = |present| Index { needed: 3, present };
    for present in [0, 2, 4] {
        assert_eq!(check(plain, 516, present, 0, 1024), index(present));
    }
    let starts = |needed, present| Starts { needed, present };
    assert_eq!(check(plain, 516, 3, 2, 1024), starts(0, 2));
    assert_eq!(check(Transform::Delta, 516, 3, 1, 1024), starts(2, 1));
    let (chunks, present) = (2, 1023);
    assert_eq!(check(plain, 516, 3, 0, 1023), Room { chunks, present });
    assert_eq!(most_words(usize::MAX), None);
}
