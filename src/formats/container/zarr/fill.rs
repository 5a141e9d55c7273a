//! Fill values: what stands where no chunk is, as bytes of a shown element.
//!
//! Kept bit by bit: a NaN has the payload that it is given with, and a zero its sign. Pure. Used by
//! the documents of arrays.

use serde_json::Value;

use super::document::DocumentRefusal;
use super::element::{Kind, ZarrElement};
use crate::codec::numcodecs::half;

/// The version of a document, where spellings differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
}

/// The fill value as an element is shown; of a text, the text.
pub(super) fn bytes(
    value: &Value,
    element: &ZarrElement,
    version: Version,
) -> Result<Vec<u8>, DocumentRefusal> {
    if value.is_null() && version == Version::V2 {
        return Ok(of_null(element));
    }
    let parsed = one(value, element, version);
    parsed.ok_or_else(|| {
        let fault = DocumentRefusal::fault("the fill value is none of the data type");
        fault.expected(element.dtype().name()).found(value)
    })
}

/// Zeros, the empty text, and no time.
fn of_null(element: &ZarrElement) -> Vec<u8> {
    match element.kind {
        Kind::Time(..) => i64::MIN.to_le_bytes().into(),
        _ => vec![0; element.size()],
    }
}

fn one(value: &Value, element: &ZarrElement, version: Version) -> Option<Vec<u8>> {
    let is_old = version == Version::V2;
    match &element.kind {
        Kind::Bool => boolean(value, is_old).map(|b| vec![b.into()]),
        Kind::Signed(size) => integer(value, is_old, *size, true),
        Kind::Unsigned(size) => integer(value, is_old, *size, false),
        Kind::Float(size) => float(value, *size, is_old),
        Kind::Complex(size) => complex(value, size / 2, is_old),
        Kind::Time(..) => match value.as_str() {
            Some("NaT") => Some(i64::MIN.to_le_bytes().into()),
            _ => integer(value, is_old, 8, true),
        },
        Kind::Bytes(len) | Kind::Void(len) => padded(raw(value, is_old)?, *len),
        Kind::Unicode(len) => {
            let text = text(value, is_old)?;
            let units = text.chars().flat_map(|c| u32::from(c).to_le_bytes());
            padded(units.collect(), len.checked_mul(4)?)
        }
        Kind::Record(fields) => match value {
            Value::Object(given) if !is_old => {
                let mut record = Vec::new();
                for field in fields {
                    let bytes = one(given.get(&field.name)?, &field.element, version)?;
                    (0..field.count).for_each(|_| record.extend(&bytes));
                }
                Some(record)
            }
            Value::Number(n) if is_old && n.as_u64() == Some(0) => Some(of_null(element)),
            value => {
                let mut record = padded(raw(value, is_old)?, element.size())?;
                if let Some(turn) = element.turn(None) {
                    turn.apply(&mut record);
                }
                Some(record)
            }
        },
        Kind::Text => match value {
            Value::Number(n) if is_old && n.as_u64() == Some(0) => Some(Vec::new()),
            value => text(value, is_old).map(String::into_bytes),
        },
    }
}

fn padded(mut bytes: Vec<u8>, len: usize) -> Option<Vec<u8>> {
    if bytes.len() > len {
        return None;
    }
    bytes.resize(len, 0);
    Some(bytes)
}

fn boolean(value: &Value, is_old: bool) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::Number(n) if is_old => n.as_f64().map(|n| n != 0.0),
        _ => None,
    }
}

/// Old writers have them as floats, booleans and digits in text, too.
fn integer(value: &Value, is_old: bool, size: usize, is_signed: bool) -> Option<Vec<u8>> {
    let whole = |x: f64| (x.fract() == 0.0 && x.abs() < 1.9e19).then_some(x as i128);
    let number: i128 = match value {
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => n.into(),
            (_, Some(n)) => n.into(),
            _ => n.as_f64().and_then(whole)?,
        },
        Value::Bool(b) if is_old => (*b).into(),
        Value::String(text) if is_old => text.trim().parse().ok()?,
        _ => return None,
    };
    let bits = u32::try_from(size * 8).ok()?;
    let (least, beyond) = match is_signed {
        true => (-(1i128 << (bits - 1)), 1i128 << (bits - 1)),
        false => (0, 1i128 << bits),
    };
    let holds = (least..beyond).contains(&number);
    holds.then(|| number.to_le_bytes().get(..size).map(<[u8]>::to_vec))?
}

/// A number, a name of one that JSON has not, or its bits in hexadecimal digits.
fn float(value: &Value, size: usize, is_old: bool) -> Option<Vec<u8>> {
    let number = match value {
        Value::Number(n) => n.as_f64()?,
        Value::Bool(b) if is_old => f64::from(u8::from(*b)),
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            text => {
                if let Some(digits) = text.strip_prefix("0x") {
                    return bits(digits, size);
                }
                let number = text.trim().parse().ok();
                number.filter(|_| is_old)?
            }
        },
        _ => return None,
    };
    Some(match size {
        2 => half(number).into(),
        4 => (number as f32).to_le_bytes().into(),
        _ => number.to_le_bytes().into(),
    })
}

fn bits(digits: &str, size: usize) -> Option<Vec<u8>> {
    let are_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let bits = u64::from_str_radix(digits, 16).ok();
    let bits = bits.filter(|_| are_digits && digits.len() == 2 * size)?;
    bits.to_le_bytes().get(..size).map(<[u8]>::to_vec)
}

fn complex(value: &Value, size: usize, is_old: bool) -> Option<Vec<u8>> {
    let mut both = match value {
        Value::Array(parts) => match &parts[..] {
            [real, imaginary] => [float(real, size, is_old)?, float(imaginary, size, is_old)?],
            _ => return None,
        },
        real if is_old => [float(real, size, is_old)?, vec![0; size]],
        _ => return None,
    };
    let [real, imaginary] = &mut both;
    real.append(imaginary);
    Some(std::mem::take(real))
}

/// A text; a bare token or a number that old writers put in its place is as it is spelled.
fn text(value: &Value, is_old: bool) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) if is_old => Some(value.to_string()),
        _ => None,
    }
}

/// Bytes: base64, a list of numbers, or in old documents nothing.
fn raw(value: &Value, is_old: bool) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => base64(text),
        Value::Array(bytes) => {
            let byte = |byte: &Value| u8::try_from(byte.as_u64()?).ok();
            bytes.iter().map(byte).collect()
        }
        Value::Number(n) if is_old && n.as_u64() == Some(0) => Some(Vec::new()),
        _ => None,
    }
}

/// Padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let (mut out, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for c in digits.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (held, bits) = (held << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    (digits.len() % 4 != 1).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::zarr::element::{of_version_2, of_version_3};
    use serde_json::json;

    fn v2(dtype: Value, value: Value) -> Option<Vec<u8>> {
        bytes(&value, &of_version_2(&dtype).ok()?, Version::V2).ok()
    }

    fn v3(data_type: Value, value: Value) -> Option<Vec<u8>> {
        bytes(&value, &of_version_3(&data_type).ok()?, Version::V3).ok()
    }

    #[test]
    fn every_bit_is_kept() {
        let nan = v3(json!("float32"), json!("0x7fc00001")).unwrap();
        assert_eq!(nan, 0x7fc0_0001u32.to_le_bytes());
        let zero = v3(json!("float64"), json!(-0.0)).unwrap();
        assert_eq!(zero, (-0.0f64).to_le_bytes());
        assert_eq!(v2(json!("<f2"), json!("-Infinity")), Some(vec![0, 0xfc]));
        assert_eq!(v2(json!(">i2"), json!(258)), Some(vec![2, 1]));
        assert_eq!(v2(json!("|u1"), json!(256)), None);
        assert_eq!(v3(json!("int64"), json!(1.5)), None);
        assert_eq!(v3(json!("uint64"), json!(u64::MAX)), Some(vec![0xff; 8]));
        assert_eq!(
            v3(json!("complex64"), json!(["NaN", 1])).unwrap()[4..],
            1f32.to_le_bytes()
        );
        assert_eq!(v3(json!("float32"), json!("1")), None);
        assert_eq!(v2(json!("<f8"), json!("not a number")), None);
    }

    #[test]
    fn bytes_and_texts_are_padded() {
        assert_eq!(v2(json!("|S3"), json!("YWI=")), Some(b"ab\0".to_vec()));
        assert_eq!(v2(json!("|S1"), json!("YWI=")), None);
        assert_eq!(
            v2(json!(">U2"), json!("x")),
            Some(vec![b'x', 0, 0, 0, 0, 0, 0, 0])
        );
        assert_eq!(v3(json!("r24"), json!([1, 2, 3])), Some(vec![1, 2, 3]));
        let record = json!([["a", ">i2"], ["b", "|u1"]]);
        assert_eq!(v2(record.clone(), json!("AAEC")), Some(vec![1, 0, 2]));
        assert_eq!(v2(record, Value::Null), Some(vec![0; 3]));
        assert_eq!(
            v2(json!("<M8[s]"), Value::Null),
            Some(i64::MIN.to_le_bytes().to_vec())
        );
        assert_eq!(v2(json!("|O"), Value::Null), Some(Vec::new()));
        assert_eq!(v3(json!("string"), json!("a\n")), Some(b"a\n".to_vec()));
    }
}
