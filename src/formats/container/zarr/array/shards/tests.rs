//! Entries of indices, sound and not.

use super::*;
use proptest::prelude::*;

fn checked(entries: &[[u64; 2]], len: u64, index: Range<u64>) -> Vec<[u64; 2]> {
    let words = entries.iter().flatten();
    let mut bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    check(&mut bytes, (len, index), &mut vec![0; entries.len()]);
    let words: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    words.as_chunks().0.to_vec()
}

#[test]
fn entries_that_cannot_be_right_are_marked() {
    const GONE: [u64; 2] = [MISSING, MISSING];
    let (outside, overlaps) = ([MISSING, OUTSIDE], [MISSING, OVERLAPS]);
    let sound = [[0, 10], GONE, [10, 5], [15, 0]];
    assert_eq!(checked(&sound, 100, 90..100), sound);
    assert_eq!(checked(&[[80, 11], [95, 1]], 100, 90..100), [outside; 2]);
    assert_eq!(
        checked(&[[u64::MAX - 3, 8], [0, 101]], 100, 0..0),
        [outside; 2]
    );
    let laid = checked(&[[0, 50], [60, 5], [40, 15], [10, 1]], 100, 90..100);
    assert_eq!(laid, [overlaps, [60, 5], overlaps, overlaps]);
}

proptest! {
    #[test]
    fn what_is_left_lies_in_the_shard_and_over_nothing(
        entries in prop::collection::vec((0u64..60, 0u64..30), 0..12),
        at_end in any::<bool>(),
    ) {
        let entries: Vec<[u64; 2]> = entries.into_iter().map(|(a, b)| [a, b]).collect();
        let index = if at_end { 50..64 } else { 0..14 };
        let left = checked(&entries, 64, index.clone());
        let mut used = [false; 64];
        for [start, len] in left.iter().filter(|entry| entry[0] != MISSING) {
            for at in *start..start + len {
                prop_assert!(!used[at as usize] && !index.contains(&at));
                used[at as usize] = true;
            }
        }
        for (was, is) in entries.iter().zip(&left) {
            prop_assert!(was == is || is[0] == MISSING);
        }
    }
}
