//! The 8 bytes before the numbers of a file: type and endianness (docs/formats.md).
//!
//! Used by `directory` to open numeric files, and to recognise a container that has lost its
//! version.

use super::fields::Number;
use crate::error::{Fault, Result};

/// Length of the header; the elements follow at once.
pub(super) const LEN: usize = 8;

const MAGICS: [(Number, &[u8; LEN]); 4] = [
    (Number::U32, b"UINT32v1"),
    (Number::U64, b"UINT64v1"),
    (Number::F32, b"FLOATSv1"),
    (Number::F64, b"DOUBLEv1"),
];

/// The type that a file of this header holds.
pub(super) fn number(head: &[u8]) -> Option<Number> {
    MAGICS
        .iter()
        .find(|(_, magic)| head == *magic)
        .map(|&(number, _)| number)
}

/// Checks that a file of this header holds `expected`.
pub(super) fn check(head: &[u8; LEN], expected: Number) -> Result<()> {
    if number(head) == Some(expected) {
        return Ok(());
    }
    let what = match number(&swapped(head)) {
        Some(_) => "written by a big-endian machine, not supported",
        None => "the header is not the one of this array",
    };
    Err(Fault::new(what)
        .bytes(0..LEN as u64)
        .expected(magic(expected).escape_ascii())
        .found(head.escape_ascii())
        .into())
}

/// The header of a file that holds these.
pub(super) fn magic(number: Number) -> &'static [u8; LEN] {
    match number {
        Number::U32 => MAGICS[0].1,
        Number::U64 => MAGICS[1].1,
        Number::F32 => MAGICS[2].1,
        Number::F64 => MAGICS[3].1,
    }
}

/// A big-endian writer stores the magic as two 32-bit numbers too, so both halves come out
/// reversed.
fn swapped(head: &[u8; LEN]) -> [u8; LEN] {
    let mut swapped = *head;
    swapped[..4].reverse();
    swapped[4..].reverse();
    swapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_own_header() {
        for (number, head) in MAGICS {
            assert_eq!(super::number(head), Some(number));
            assert_eq!(magic(number), head);
            assert!(check(head, number).is_ok());
        }
        assert!(check(b"FLOATSv1", Number::U32).is_err());
        assert_eq!(number(b"UINT32"), None);
    }

    #[test]
    fn a_big_endian_header_is_told() {
        let error = check(b"TNIU1v23", Number::U32).unwrap_err().to_string();
        assert!(
            error.starts_with("bytes 0..8: written by a big-endian machine"),
            "{error}"
        );
    }
}
