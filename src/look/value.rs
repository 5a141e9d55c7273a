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
        ElementType::Date { unit, is_span, big } => date(bytes, unit, *is_span, *big),
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

/// NumPy's `NaT` is the least number. Spans, and dates of an unknown unit, are told as the number.
fn date(bytes: &[u8], unit: &str, is_span: bool, big: bool) -> Option<String> {
    let number = integer(bytes.get(..8)?, true, big)?;
    if number == i128::from(i64::MIN) {
        return Some("NaT".into());
    }
    let counted = match unit {
        "" => number.to_string(),
        unit => format!("{number} {}", printable(unit)),
    };
    let date = iso_date(number, unit).filter(|_| !is_span);
    Some(date.unwrap_or(counted))
}

/// A date as ISO 8601 and NumPy spell it, to the unit in which it is counted from 1970 on: one of
/// NumPy's, or so many of it.
fn iso_date(number: i128, unit: &str) -> Option<String> {
    let name = unit.trim_start_matches(|c: char| c.is_ascii_digit());
    let every = match unit.strip_suffix(name)? {
        "" => 1,
        every => i128::from(every.parse::<u32>().ok()?),
    };
    let n = number.checked_mul(every)?;
    let digits: usize = match name {
        "Y" => return Some(year_text(n.checked_add(1970)?)),
        "M" => {
            let year = n.div_euclid(12).checked_add(1970)?;
            let month = n.rem_euclid(12).checked_add(1)?;
            return Some(format!("{}-{month:02}", year_text(year)));
        }
        "W" => return day_text(n.checked_mul(7)?),
        "D" => return day_text(n),
        "h" => {
            let day = day_text(n.div_euclid(24))?;
            return Some(format!("{day}T{:02}", n.rem_euclid(24)));
        }
        "m" => return minute_text(n),
        "s" => 0,
        "ms" => 3,
        "us" | "μs" => 6,
        "ns" => 9,
        "ps" => 12,
        "fs" => 15,
        "as" => 18,
        _ => return None,
    };
    let each = 10i128.checked_pow(u32::try_from(digits).ok()?)?;
    let (seconds, part) = (n.div_euclid(each), n.rem_euclid(each));
    let minute = minute_text(seconds.div_euclid(60))?;
    let second = seconds.rem_euclid(60);
    Some(match digits {
        0 => format!("{minute}:{second:02}"),
        digits => format!("{minute}:{second:02}.{part:0digits$}"),
    })
}

fn year_text(year: i128) -> String {
    match year < 0 {
        true => format!("{year:05}"),
        false => format!("{year:04}"),
    }
}

/// A minute, by its number from 1970 on.
fn minute_text(n: i128) -> Option<String> {
    let (hours, minute) = (n.div_euclid(60), n.rem_euclid(60));
    let day = day_text(hours.div_euclid(24))?;
    Some(format!("{day}T{:02}:{minute:02}", hours.rem_euclid(24)))
}

/// A day, by its number from 1970 on, in the Gregorian calendar.
fn day_text(n: i128) -> Option<String> {
    // Years begin in March here, so that the leap day is the last; 400 years have 146,097 days.
    let days = n.checked_add(719_468)?;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = match month < 10 {
        true => (month + 3, 0),
        false => (month - 9, 1),
    };
    let year = era.checked_mul(400)?.checked_add(year + next)?;
    Some(format!("{}-{month:02}-{day:02}", year_text(year)))
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
    fn dates_are_those_of_the_calendar() {
        let date = |descr: &str, n: i64| told(descr, &n.to_le_bytes());
        assert_eq!(date("<M8[D]", 18_262), "2020-01-01");
        assert_eq!(date("<M8[D]", 19_782), "2024-02-29");
        assert_eq!(date("<M8[D]", -1), "1969-12-31");
        assert_eq!(date("<M8[W]", 1), "1970-01-08");
        assert_eq!(date("<M8[Y]", -1970), "0000");
        assert_eq!(date("<M8[M]", -1), "1969-12");
        assert_eq!(date("<M8[h]", 25), "1970-01-02T01");
        assert_eq!(date("<M8[15m]", 3), "1970-01-01T00:45");
        assert_eq!(date("<M8[s]", 1_000_000_000), "2001-09-09T01:46:40");
        assert_eq!(date("<M8[ns]", -1), "1969-12-31T23:59:59.999999999");
        assert_eq!(date("<M8[x]", 5), "5 x");
        assert_eq!(date("<m8[D]", 18_262), "18262 D");
        assert_eq!(date("<M8[Y]", i64::MAX), "9223372036854777777");
        assert!(date("<M8[D]", i64::MAX).starts_with("2525273"));
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
