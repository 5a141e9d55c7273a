//! The values that the bytes of elements are, as numbers and as text.
//!
//! Bytes come from files: whatever they are, there is some text. Of long elements only the first
//! bytes may be there; what is missing is `…`. Pure. Used by tables, pictures and figures.

use std::fmt::Write as _;

use super::element::ElementType;
use super::number_text::{Digits, float};

/// Parts of an element that are spelled one by one.
const PARTS_SPELLED: usize = 8;

/// Bytes without meaning that are spelled.
const RAW_SPELLED: usize = 16;

/// A number as it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ElementNumber {
    /// Every integer that there is in 64 bits, with or without a sign.
    Integer(i128),
    /// Half and single floats are floats of this size, too.
    Float(f64),
}

impl ElementNumber {
    /// Large integers lose their last digits.
    pub fn as_f64(self) -> f64 {
        match self {
            ElementNumber::Integer(n) => n as f64,
            ElementNumber::Float(value) => value,
        }
    }
}

/// The number that an element is.
pub fn number(element: &ElementType, bytes: &[u8]) -> Option<ElementNumber> {
    match *element {
        ElementType::Bool => Some(ElementNumber::Integer(i128::from(*bytes.first()? != 0))),
        ElementType::Integer {
            size, signed, big, ..
        } => integer(bytes.get(..size)?, signed, big).map(ElementNumber::Integer),
        ElementType::Float { size, big } => {
            float_of(bytes.get(..size)?, big).map(ElementNumber::Float)
        }
        _ => None,
    }
}

/// The real and the imaginary part.
pub fn complex(element: &ElementType, bytes: &[u8]) -> Option<(f64, f64)> {
    let ElementType::Complex { size, big } = *element else {
        return None;
    };
    let real = float_of(bytes.get(..size)?, big)?;
    Some((real, float_of(bytes.get(size..2 * size)?, big)?))
}

/// Up to eight bytes, the lowest first.
fn lowest_first(bytes: &[u8], big: bool) -> Option<[u8; 8]> {
    let mut all = [0; 8];
    let place = all.get_mut(..bytes.len())?;
    place.copy_from_slice(bytes);
    if big {
        place.reverse();
    }
    Some(all)
}

fn integer(bytes: &[u8], signed: bool, big: bool) -> Option<i128> {
    let all = u64::from_le_bytes(lowest_first(bytes, big)?);
    if !signed {
        return Some(i128::from(all));
    }
    let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
    let shifted = all.checked_shl(unused)? as i64;
    Some(i128::from(shifted >> unused))
}

fn float_of(bytes: &[u8], big: bool) -> Option<f64> {
    let all = u64::from_le_bytes(lowest_first(bytes, big)?);
    match bytes.len() {
        2 => Some(half(all as u16)),
        4 => Some(f64::from(f32::from_bits(all as u32))),
        8 => Some(f64::from_bits(all)),
        _ => None,
    }
}

/// A float of five bits of exponent and ten behind the point.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, rest) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    match exponent {
        0 => sign * rest * 2f64.powi(-24),
        0x1f if rest == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        _ => sign * (1.0 + rest / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// An element as text.
pub fn text(element: &ElementType, bytes: &[u8], digits: Digits) -> String {
    let spelled = match element {
        ElementType::Bool => bytes.first().map(|byte| (*byte != 0).to_string()),
        ElementType::Integer { names, .. } => match number(element, bytes) {
            Some(ElementNumber::Integer(n)) => {
                let name = names.as_ref().and_then(|names| names.get(&n));
                Some(name.map_or_else(|| n.to_string(), |name| printable(name)))
            }
            _ => None,
        },
        ElementType::Float { size, .. } => {
            number(element, bytes).map(|value| float(value.as_f64(), *size, digits))
        }
        ElementType::Complex { size, .. } => {
            complex(element, bytes).map(|parts| complex_text(parts, *size, digits))
        }
        ElementType::Bytes { size } => Some(string(bytes, *size)),
        ElementType::Characters { count, big } => Some(characters(bytes, *count, *big)),
        ElementType::Date { unit, big } => date(bytes, unit, *big),
        ElementType::Raw { size } => Some(raw(bytes, *size)),
        ElementType::Structure(parts) => {
            let parts = parts.iter().filter(|part| !part.name.is_empty());
            let texts = parts.map(|part| (bytes.get(part.offset..), &part.element));
            Some(format!("({})", several(texts, digits)))
        }
        ElementType::Repeated { count, base } => {
            let parts = (0..*count).map(|n| (bytes.get(n * base.size()..), &**base));
            Some(format!("[{}]", several(parts, digits)))
        }
    };
    spelled.unwrap_or_else(|| "…".into())
}

fn several<'a>(
    parts: impl Iterator<Item = (Option<&'a [u8]>, &'a ElementType)>,
    digits: Digits,
) -> String {
    let mut told = Vec::new();
    for (n, (bytes, element)) in parts.enumerate() {
        if n == PARTS_SPELLED {
            told.push("…".into());
            break;
        }
        told.push(match bytes {
            Some(bytes) => text(element, bytes, digits),
            None => "…".into(),
        });
    }
    told.join(", ")
}

fn complex_text((real, imaginary): (f64, f64), size: usize, digits: Digits) -> String {
    let sign = match imaginary.is_sign_negative() && !imaginary.is_nan() {
        true => "",
        false => "+",
    };
    let part = |value| float(value, size, digits);
    format!("{}{sign}{}j", part(real), part(imaginary))
}

fn string(bytes: &[u8], size: usize) -> String {
    // Other parts of a compound may follow.
    let bytes = bytes.get(..bytes.len().min(size)).unwrap_or(bytes);
    let end = bytes.iter().rposition(|byte| *byte != 0);
    let used = bytes.get(..end.map_or(0, |end| end + 1));
    let mut text = printable(&String::from_utf8_lossy(used.unwrap_or_default()));
    if bytes.len() < size {
        text.push('…');
    }
    text
}

fn characters(bytes: &[u8], count: usize, big: bool) -> String {
    let codes = bytes.chunks_exact(4).take(count).map(|bytes| {
        let code = integer(bytes, false, big).and_then(|code| u32::try_from(code).ok());
        code.and_then(char::from_u32)
            .unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    let text: String = codes.collect();
    let mut text = printable(text.trim_end_matches('\0'));
    if bytes.len() / 4 < count {
        text.push('…');
    }
    text
}

fn raw(bytes: &[u8], size: usize) -> String {
    let mut text = String::from("0x");
    for byte in bytes.iter().take(RAW_SPELLED.min(size)) {
        let _ = write!(text, "{byte:02x}");
    }
    if size > RAW_SPELLED || bytes.len() < size {
        text.push('…');
    }
    text
}

/// NumPy's `NaT` is the least number. Units that are not parts of seconds or days are told with the
/// number.
fn date(bytes: &[u8], unit: &str, big: bool) -> Option<String> {
    let number = integer(bytes.get(..8)?, true, big)?;
    Some(match number == i128::from(i64::MIN) {
        true => "NaT".into(),
        false if unit.is_empty() => number.to_string(),
        false => format!("{number} {unit}"),
    })
}

/// Whether a terminal obeys a character instead of showing it: controls, ends of lines and of
/// paragraphs, and what changes the direction of writing.
pub fn is_obeyed(c: char) -> bool {
    let is_mark = matches!(
        c,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    );
    is_mark || c.is_control()
}

/// On one line, without what a terminal would obey.
pub fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for c in text.chars() {
        match is_obeyed(c) {
            true => printed.extend(c.escape_default()),
            false => printed.push(c),
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::dtype::Dtype;

    fn told(descr: &str, bytes: &[u8]) -> String {
        let dtype = Dtype::numpy(descr, bytes.len() as u64);
        text(&ElementType::of(&dtype).unwrap(), bytes, Digits::All)
    }

    #[test]
    fn values_of_every_kind() {
        assert_eq!(told("|b1", &[2]), "true");
        assert_eq!(told("<i2", &[0xfe, 0xff]), "-2");
        assert_eq!(told(">i2", &[0xff, 0xfe]), "-2");
        assert_eq!(told("<u8", &[0xff; 8]), "18446744073709551615");
        assert_eq!(
            told("<i8", &[0, 0, 0, 0, 0, 0, 0, 0x80]),
            "-9223372036854775808"
        );
        assert_eq!(told(">f8", &1.5f64.to_be_bytes()), "1.5");
        assert_eq!(told("<f2", &[0x00, 0x3c]), "1.0");
        assert_eq!(told("<f2", &[0x01, 0x00]), "6e-08");
        assert_eq!(told("<f2", &[0x00, 0xfc]), "-inf");
        let parts = [1.0f32.to_le_bytes(), (-2.5f32).to_le_bytes()].concat();
        assert_eq!(told("<c8", &parts), "1.0-2.5j");
        assert_eq!(told("|S4", b"a\nb\0"), "a\\nb");
        assert_eq!(told("<U2", &[0xe4, 0, 0, 0, 0, 0, 0, 0]), "ä");
        assert_eq!(told("|V2", &[1, 0xab]), "0x01ab");
        assert_eq!(told("<M8[ns]", &[0, 0, 0, 0, 0, 0, 0, 0x80]), "NaT");
        assert_eq!(told("<m8[s]", &[5, 0, 0, 0, 0, 0, 0, 0]), "5 s");
        let compound = "[('a', '|u1'), ('b', '|i1', (2,))]";
        assert_eq!(told(compound, &[1, 2, 255]), "(1, [2, -1])");
    }

    #[test]
    fn strings_end_where_the_next_part_begins() {
        let compound = "[('name', '|S4'), ('x', '<i4'), ('s', '|S2', (2,))]";
        let bytes = b"ab\0\0\x41\0\0\0cdef";
        assert_eq!(told(compound, bytes), "(ab, 65, [cd, ef])");
        let lines = told("[('s', '|S2'), ('x', '|u1')]", b"ab\x43");
        assert_eq!(lines, "(ab, 67)");
    }

    #[test]
    fn what_is_cut_off_is_said() {
        let long = ElementType::Bytes { size: 9 };
        assert_eq!(text(&long, b"abc", Digits::All), "abc…");
        let numbers = ElementType::of(&Dtype::numpy("[('a', '<f8'), ('b', '<f8')]", 16));
        let told = text(&numbers.unwrap(), &1f64.to_le_bytes(), Digits::All);
        assert_eq!(told, "(1.0, …)");
        assert_eq!(text(&ElementType::Bool, &[], Digits::All), "…");
    }

    #[test]
    fn terminals_obey_nothing() {
        assert_eq!(printable("a\u{2066}\u{200f}"), "a\\u{2066}\\u{200f}");
        assert_eq!(
            printable("\u{1b}[2J\u{9b}x\u{202e}"),
            "\\u{1b}[2J\\u{9b}x\\u{202e}"
        );
    }
}
