//! Strings of variable length that lie in an object header: few, so they came with the index as
//! text.
//!
//! Each value and a line feed, as [`super`] shows those that lie elsewhere. Used by `dataset`.

use crate::array::dtype::Dtype;
use crate::array::held::HeldArray;
use crate::array::{Info, Order};
use crate::error::{Fault, Result};

/// `lines`: as many as `shape` says.
pub(crate) fn compact_strings(
    name: &str,
    shape: &[u64],
    lines: &[u8],
    stored_bytes: u64,
) -> Result<HeldArray<Vec<u8>>> {
    let found = memchr::memchr_iter(b'\n', lines).count() as u64;
    let expected = crate::array::grid::product(shape, 1);
    // Values may have line feeds of their own.
    if expected.is_none_or(|expected| found < expected) {
        let fault = Fault::new("the strings are fewer than the elements");
        let fault = fault.expected(format_args!("{shape:?}"));
        return Err(fault.found(found).into());
    }
    let bytes = lines.len() as u64;
    let info = Info {
        dtype: Dtype::Text,
        shape: shape.to_vec(),
        order: Order::C,
        bytes,
        stored_bytes,
        blocks: u64::from(bytes > 0),
        codec: "compact".into(),
    };
    Ok(HeldArray::new(name, info, lines.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;

    #[test]
    fn lines_are_read_from_any_byte_on() {
        let texts = compact_strings("x", &[3], b"a\n\nb\nc\n", 48).unwrap();
        assert_eq!(texts.info().unwrap().bytes, 7);
        let mut out = [0; 4];
        texts.read_direct(2, &mut out).unwrap();
        assert_eq!(&out, b"\nb\nc"[..].first_chunk().unwrap());
        assert!(texts.read_direct(4, &mut out).is_err());
    }

    #[test]
    fn fewer_lines_than_elements_are_refused() {
        assert!(compact_strings("x", &[2, 2], b"a\nb\nc\n", 0).is_err());
        assert!(compact_strings("x", &[u64::MAX, 2], b"", 0).is_err());
        assert!(compact_strings("x", &[0], b"", 0).is_ok());
        assert!(compact_strings("x", &[], b"a\nb\n", 0).is_ok());
    }
}
