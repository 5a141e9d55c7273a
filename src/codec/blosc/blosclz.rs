//! BloscLZ decoder: C-Blosc's own variant of FastLZ, and Bloscpack's default codec.
//!
//! An instruction is a control byte `c`. Below 32 it stands for `c + 1` literals. Otherwise the top
//! three bits are a match length, the low five the high bits of its distance, and the low byte
//! follows; distances from 8192 on take two bytes more. The first control byte is always literals.
//! A stream ends after literals, never after a match.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

use super::error::StreamError;
use super::window::{Input, Window};

const MIN_MATCH: usize = 3;
/// A match length field of this value goes on in the bytes that follow.
const EXTENDED: usize = 6;
/// Distances from here on are written in full, as the excess over it.
const FAR: usize = 8192;
/// The distance field that says so.
const FAR_MARK: usize = 0x1fff;

/// Decodes one stream into exactly `plain`.
pub(crate) fn decode(stored: &[u8], plain: &mut [u8]) -> Result<(), StreamError> {
    let (mut input, mut window) = (Input::new(stored), Window::new(plain));
    let mut control = usize::from(input.byte()? & 31);
    loop {
        if control < 32 {
            window.literals(&mut input, control + 1)?;
            if input.is_empty() {
                return window.finish();
            }
        } else {
            let (distance, len) = read_match(control, &mut input)?;
            window.repeat(distance, len)?;
        }
        control = usize::from(input.byte()?);
    }
}

/// Distance and length of the match that `control` opens.
#[inline(always)]
fn read_match(control: usize, input: &mut Input) -> Result<(usize, usize), StreamError> {
    let mut len = (control >> 5) - 1;
    if len == EXTENDED {
        len = len.saturating_add(input.extension()?);
    }
    let field = (control & 31) << 8 | usize::from(input.byte()?);
    let distance = match field {
        FAR_MARK => FAR + usize::from(u16::from_be_bytes(input.pair()?)),
        _ => field + 1,
    };
    Ok((distance, len.saturating_add(MIN_MATCH)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::encoder::{blosclz, byte_runs, mutate};
    use proptest::prelude::*;

    fn round_trip(plain: &[u8]) {
        let mut out = vec![0xaa; plain.len()];
        decode(&blosclz(plain), &mut out).unwrap();
        assert!(out == plain);
    }

    #[test]
    fn instructions_by_hand() {
        let mut out = [0; 12];
        // The first control byte is masked: 0xe1 is two literals. Then a match 2 back of 3 + 6 + 0.
        decode(&[0xe1, b'a', b'b', 0xe0, 0, 1, 0, b'c'], &mut out).unwrap();
        assert_eq!(&out, b"abababababac");
    }

    #[test]
    fn far_matches() {
        // Miri takes minutes for the farthest.
        let farthest = (!cfg!(miri)).then_some(8192 + 65535);
        for distance in [8190, 8191, 8192, 8193].into_iter().chain(farthest) {
            let noise = (0u32..).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
            let mut plain: Vec<u8> = noise.take(distance).collect();
            plain.extend_from_within(..40);
            plain.push(1);
            round_trip(&plain);
        }
    }

    #[test]
    fn faults_are_named() {
        let mut out = [0; 4];
        let mut fault = |stored: &[u8]| decode(stored, &mut out).unwrap_err();
        assert_eq!(fault(&[]), StreamError::Truncated);
        assert_eq!(fault(&[1, 7]), StreamError::Truncated);
        assert_eq!(
            fault(&[0, 7]),
            StreamError::TooShort {
                found: 1,
                expected: 4
            }
        );
        assert_eq!(fault(&[0, 7, 0x20]), StreamError::Truncated);
        assert_eq!(
            fault(&[0, 7, 0x20, 0]),
            StreamError::Truncated,
            "ends after a match"
        );
        assert_eq!(
            fault(&[0, 7, 0x20, 1]),
            StreamError::Distance {
                distance: 2,
                written: 1
            }
        );
        assert_eq!(
            fault(&[0, 7, 0x40, 0, 0, 7]),
            StreamError::TooLong { expected: 4 }
        );
        assert_eq!(
            fault(&[4, 1, 2, 3, 4, 5]),
            StreamError::TooLong { expected: 4 }
        );
    }

    proptest! {
        #[test]
        fn decodes_what_the_encoder_writes(plain in byte_runs(20_000)) {
            round_trip(&plain);
        }

        #[test]
        fn damage_never_panics(plain in byte_runs(600), edits in mutate(), room in 0usize..700) {
            let _ = decode(&edits.apply(blosclz(&plain)), &mut vec![0; room]);
        }
    }
}
