//! The JSON of descriptors: its text freed of what containers add, and its numbers read exactly.
//!
//! Deep nesting is refused by `serde_json` (128 levels), so nothing that walks a value needs a
//! limit of its own. Used by `descriptor` and `levels`.

use serde_json::Value;

use crate::error::Fault;

/// Longer descriptors are refused: parsed, they take many times their length in memory.
pub(crate) const LONGEST: usize = 1 << 20;

/// Characters of a stored string that a message repeats.
const SHOWN: usize = 60;

/// What a part of a descriptor says, or which rule it breaks.
pub(super) type Read<T> = Result<T, Box<Fault>>;

/// Parses a text that may be NUL-terminated, or padded with NULs or spaces.
pub(super) fn parse(text: &[u8]) -> Result<Value, String> {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    let text = text[..end].trim_ascii();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.len() > LONGEST {
        return Err(format!("more than {LONGEST} bytes"));
    }
    serde_json::from_slice(text).map_err(|e| e.to_string())
}

/// Whether a text is the beginning of one that could be parsed.
pub(crate) fn ends_early(text: &[u8]) -> bool {
    let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(text);
    parsed.is_err_and(|e| e.is_eof())
}

/// A whole number from 0 to 2^64 - 1, however it is written: `20`, `20.0`, `2e1`.
pub(super) fn whole(value: &Value) -> Option<u64> {
    const END: f64 = 18_446_744_073_709_551_616.0;
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    // The conversion is exact: the number has no fraction and lies in the range.
    (number.fract() == 0.0 && (0.0..END).contains(&number)).then_some(number as u64)
}

/// A value as messages repeat it: bounded, on one line.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(text) => clip(text),
        other => other.to_string(),
    }
}

/// A stored text in quotes, bounded.
pub(super) fn clip(text: &str) -> String {
    format!("\"{}\"", cut(text))
}

/// The start of a stored text, control characters escaped.
pub(super) fn cut(text: &str) -> String {
    let start = text.chars().take(SHOWN);
    let mut shown: String = start.flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_are_exact_in_every_spelling() {
        let number = |text: &str| whole(&parse(text.as_bytes()).unwrap());
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(number("9007199254740993"), Some((1 << 53) + 1));
        assert_eq!(number("3.4e1"), Some(34));
        assert_eq!(number("-0"), Some(0));
        assert_eq!(number("0.0"), Some(0));
        for text in [
            "18446744073709551616",
            "-1",
            "1.5",
            "1e300",
            "\"1\"",
            "true",
            "null",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn padding_is_no_part_of_the_text() {
        for text in [
            &b"[1]"[..],
            b"[1]\0",
            b"[1]\0\0garbage",
            b"  [1]   ",
            b"\xef\xbb\xbf[1]\n",
        ] {
            assert_eq!(parse(text), Ok(json!([1])));
        }
        assert!(parse(b"").is_err());
        assert!(parse(b"\0[1]").is_err());
    }

    #[test]
    fn deep_and_long_texts_are_refused() {
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(parse(&vec![b'1'; LONGEST + 1]).is_err());
    }
}
