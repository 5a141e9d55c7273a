//! The metadata section of a NumPy array that has become longer or shorter.
//!
//! Only the numbers of the member `shape` change, in the text as it was written: whatever else the
//! metadata say stays as it is, to the letter. Used by [`super::recipe`].

use std::ops::Range;

use crate::array::{Info, Order};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::header;
use crate::container::bloscpack::metadata::{HEADER, MAGIC};
use crate::error::{Error, Fault, Result};

/// The real program reserves so many times the text's length.
const ROOM: usize = 10;
/// The level at which it compresses metadata.
const LEVEL: i32 = 6;

/// The shape of an array with this many bytes, if it has one: the first dimension grows or shrinks.
pub(crate) fn shape_for(info: &Info, bytes: u64) -> Result<Vec<u64>> {
    if bytes == info.bytes {
        return Ok(info.shape.clone());
    }
    let whole = "cannot have this length: its shape grows and shrinks by whole";
    let refuse = |why: String| Err(Error::Invalid(why));
    let (Some(itemsize), Some((_, rest))) = (info.dtype.itemsize(), info.shape.split_first())
    else {
        return refuse("a NumPy array of no dimensions cannot have another length".into());
    };
    if info.order == Order::Fortran && !rest.is_empty() {
        return refuse("a NumPy array in Fortran order cannot have another length".into());
    }
    let row = rest.iter().try_fold(itemsize, |n, dim| n.checked_mul(*dim));
    match row {
        Some(row) if row > 0 && bytes.is_multiple_of(row) => {
            let mut shape = info.shape.clone();
            shape[0] = bytes / row;
            Ok(shape)
        }
        Some(row) => refuse(format!("a NumPy array {whole} rows of {row} bytes")),
        None => refuse(format!("a NumPy array {whole} rows")),
    }
}

/// The text with another shape.
pub(super) fn with_shape(text: &[u8], shape: &[u64]) -> Result<Vec<u8>> {
    let at = member(text, b"shape")
        .ok_or_else(|| Error::Invalid("the metadata's shape cannot be found".into()))?;
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    let list = format!("[{}]", dims.join(","));
    Ok([&text[..at.start], list.as_bytes(), &text[at.end..]].concat())
}

/// Where the value of a member of the outermost object is. Of two members with one name the last
/// counts, as in Python.
fn member(text: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let (mut depth, mut at, mut found) = (0u32, 0, None);
    let (mut key, mut value_at): (Option<Range<usize>>, Option<usize>) = (None, None);
    while at < text.len() {
        let here = at;
        at += 1;
        match text[here] {
            b'"' => {
                at = string_end(text, at)?;
                if depth == 1 && value_at.is_none() {
                    key = Some(here + 1..at - 1);
                }
            }
            b':' if depth == 1 && value_at.is_none() => value_at = Some(at),
            b'{' | b'[' => depth += 1,
            b',' | b'}' | b']' => {
                if depth == 1
                    && let (Some(key), Some(from)) = (key.take(), value_at.take())
                    && &text[key] == name
                {
                    found = Some(trimmed(text, from..here));
                }
                depth = match text[here] {
                    b',' => depth,
                    _ => depth.checked_sub(1)?,
                };
            }
            _ => {}
        }
    }
    found
}

/// Where a string ends whose opening quote has been passed: behind its closing one.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn trimmed(text: &[u8], range: Range<usize>) -> Range<usize> {
    let value = &text[range.clone()];
    let before = value.len() - value.trim_ascii_start().len();
    let start = range.start + before;
    start..start + value.trim_ascii().len()
}

/// The whole section with another text, in at least `room` bytes; `old`: its header as it is.
pub(super) fn section(old: &[u8; HEADER], text: &[u8]) -> Result<Vec<u8>> {
    let field = |at: usize| u32::from_le_bytes([old[at], old[at + 1], old[at + 2], old[at + 3]]);
    let checksum = Checksum::from_code(old[9])
        .ok_or_else(|| Error::from(Fault::new("unknown checksum code of the metadata")))?;
    let stored = match old[10] {
        0 => text.to_owned(),
        _ => deflated(text).unwrap_or_else(|| text.to_owned()),
    };
    let is_plain = old[10] == 0 || stored == text;
    let room = match stored.len() <= field(16) as usize {
        true => field(16) as usize,
        false => text.len().saturating_mul(ROOM),
    };
    let too_long = |_| Error::Invalid("the metadata would be too long".into());
    let mut bytes = Vec::from(old);
    bytes[..8].copy_from_slice(MAGIC);
    bytes[10] = if is_plain { 0 } else { 1 };
    for (at, len) in [(12, text.len()), (16, room), (20, stored.len())] {
        let len = u32::try_from(len).map_err(too_long)?;
        bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }
    bytes.extend_from_slice(&stored);
    bytes.resize(HEADER + room, 0);
    bytes.extend_from_slice(checksum.digest(&stored).as_bytes());
    Ok(bytes)
}

/// None if it is no shorter.
fn deflated(text: &[u8]) -> Option<Vec<u8>> {
    let level = libdeflater::CompressionLvl::new(LEVEL).ok()?;
    let mut compressor = libdeflater::Compressor::new(level);
    let mut out = vec![0; text.len()];
    let n = compressor.zlib_compress(text, &mut out).ok()?;
    out.truncate(n);
    Some(out)
}

/// Where a section with this many bytes ends in its file.
pub(super) fn end_of(section: &[u8]) -> u64 {
    header::LEN as u64 + section.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::dtype::Dtype;

    #[test]
    fn the_shape_alone_is_replaced() {
        let cases: [(&str, &str); 4] = [
            (r#"{"shape":[3],"a":1}"#, r#"{"shape":[7,2],"a":1}"#),
            (
                r#"{"x":{"shape":[1]}, "shape" : [ 3, 4 ] }"#,
                r#"{"x":{"shape":[1]}, "shape" : [7,2] }"#,
            ),
            (
                r#"{"t":"\"shape\":[9]","shape":[1],"y":["shape"]}"#,
                r#"{"t":"\"shape\":[9]","shape":[7,2],"y":["shape"]}"#,
            ),
            (
                r#"{"shape":[1],"shape":[2]}"#,
                r#"{"shape":[1],"shape":[7,2]}"#,
            ),
        ];
        for (text, expected) in cases {
            let replaced = with_shape(text.as_bytes(), &[7, 2]).unwrap();
            assert_eq!(String::from_utf8(replaced).unwrap(), expected);
        }
        for none in [
            "{}",
            "[\"shape\"]",
            "{\"a\":\"shape\"}",
            "",
            "}",
            "{\"shape",
        ] {
            assert!(with_shape(none.as_bytes(), &[1]).is_err(), "{none}");
        }
    }

    #[test]
    fn the_first_dimension_takes_whole_rows() {
        let info = |shape: &[u64], order| Info {
            dtype: Dtype::F64,
            shape: shape.to_vec(),
            order,
            bytes: 8 * shape.iter().product::<u64>(),
            stored_bytes: 0,
            blocks: 0,
            codec: "".into(),
        };
        let c = |shape: &[u64], bytes| shape_for(&info(shape, Order::C), bytes).ok();
        assert_eq!(c(&[3, 2], 64), Some(vec![4, 2]));
        assert_eq!(c(&[3, 2], 0), Some(vec![0, 2]));
        assert_eq!(c(&[3, 2], 56), None);
        assert_eq!(c(&[3], 16), Some(vec![2]));
        assert_eq!(c(&[], 16), None);
        assert_eq!(c(&[], 8), Some(vec![]));
        assert_eq!(c(&[3, 0], 8), None);
        let fortran = |shape: &[u64], bytes| shape_for(&info(shape, Order::Fortran), bytes).ok();
        assert_eq!(fortran(&[3, 2], 48), Some(vec![3, 2]));
        assert_eq!(fortran(&[3, 2], 64), None);
    }
}
