//! LZ4 block decoder, for streams of chunks written with lz4 or lz4hc.
//!
//! A sequence is a token (literal count, match length), the literals, and a match of two-byte
//! distance; the last sequence stops after its literals. Our own, because shuffled arrays give
//! matches of thousands of bytes at tiny distances, which [`Window`] fills with wide copies.
//!
//! The encoder's rules on how a block must end (five literals) are not enforced: no decoder needs
//! them. Source: the LZ4 block format description; checked against lz4_flex.

use super::error::StreamError;
use super::window::{Input, Window};

const MIN_MATCH: usize = 4;
/// A nibble of this value goes on in the bytes that follow.
const EXTENDED: usize = 15;

/// Decodes one block into exactly `plain`.
pub(crate) fn decode(stored: &[u8], plain: &mut [u8]) -> Result<(), StreamError> {
    let (mut input, mut window) = (Input::new(stored), Window::new(plain));
    loop {
        let token = usize::from(input.byte()?);
        let mut literals = token >> 4;
        if literals == EXTENDED {
            literals = literals.saturating_add(input.extension()?);
        }
        window.literals(&mut input, literals)?;
        if input.is_empty() {
            return window.finish();
        }
        let distance = usize::from(u16::from_le_bytes(input.pair()?));
        let mut len = token & 15;
        if len == EXTENDED {
            len = len.saturating_add(input.extension()?);
        }
        window.repeat(distance, len.saturating_add(MIN_MATCH))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::encoder::{byte_runs, mutate};
    use proptest::prelude::*;

    #[test]
    fn overlapping_matches_of_every_small_distance() {
        for distance in 1..=70usize {
            let pattern: Vec<u8> = (0..distance as u8).collect();
            let plain: Vec<u8> = pattern.iter().copied().cycle().take(3000).collect();
            let stored = lz4_flex::block::compress(&plain);
            let mut out = vec![0xaa; plain.len()];
            decode(&stored, &mut out).unwrap();
            assert_eq!(out, plain, "distance {distance}");
        }
    }

    #[test]
    fn faults_are_named() {
        let mut out = [0; 20];
        let mut fault = |stored: &[u8]| decode(stored, &mut out).unwrap_err();
        assert_eq!(fault(&[]), StreamError::Truncated);
        assert_eq!(fault(&[0x30, 1, 2]), StreamError::Truncated);
        assert_eq!(fault(&[0x10, 1, 2]), StreamError::Truncated);
        assert_eq!(
            fault(&[0x10, 1]),
            StreamError::TooShort {
                found: 1,
                expected: 20
            }
        );
        let distance = |distance| StreamError::Distance {
            distance,
            written: 1,
        };
        assert_eq!(fault(&[0x10, 1, 0, 0]), distance(0));
        assert_eq!(fault(&[0x10, 1, 2, 0]), distance(2));
        let long = StreamError::TooLong { expected: 20 };
        assert_eq!(fault(&[0x1f, 1, 1, 0, 255, 0]), long);
        assert_eq!(
            fault(&[0xf0, 255, 255, 255, 255, 255, 255, 255, 255, 0]),
            long
        );
    }

    proptest! {
        #[test]
        fn decodes_what_lz4_flex_encodes(plain in byte_runs(5000)) {
            let stored = lz4_flex::block::compress(&plain);
            let mut out = vec![0xaa; plain.len()];
            decode(&stored, &mut out).unwrap();
            prop_assert_eq!(out, plain);
        }

        #[test]
        fn agrees_with_lz4_flex_on_damage(plain in byte_runs(600), edits in mutate(), room in 0usize..700) {
            let stored = edits.apply(lz4_flex::block::compress(&plain));
            let mut ours = vec![0; room];
            let mut theirs = vec![0; room];
            let result = decode(&stored, &mut ours);
            if lz4_flex::block::decompress_into(&stored, &mut theirs).ok() == Some(room) {
                prop_assert_eq!(result, Ok(()));
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
