//! JSON as Python's writer makes it: `NaN`, `Infinity`, numbers that no type holds, halves of
//! surrogate pairs, keys that are repeated.
//!
//! What has no place in a [`Value`] becomes the nearest that has: numbers beyond 64 bits are
//! floats, those that are none are their names as text (as fill values are spelled), a lone
//! surrogate is the replacement character, and of repeated keys the last one counts. Pure. Used by
//! all that reads documents of a store.

use serde_json::{Map, Number, Value};

/// Deepest nesting that is shown, and that readers of `arrays.json` take: what lies deeper is left
/// out.
const DEEPEST: usize = 120;

/// The value of a whole document; why it has none, and at which byte.
pub(super) fn parse(document: &[u8]) -> Result<Value, (String, usize)> {
    let bytes = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
    let skipped = document.len() - bytes.len();
    let text = std::str::from_utf8(bytes)
        .map_err(|e| ("it is not UTF-8".to_owned(), skipped + e.valid_up_to()))?;
    let mut parser = JsonParser { text, at: 0 };
    let parsed = parser.value(DEEPEST).and_then(|value| match parser.peek() {
        None => Ok(value),
        Some(_) => Err("something follows it"),
    });
    parsed.map_err(|what| (what.to_owned(), skipped + parser.at))
}

type JsonResult<T> = Result<T, &'static str>;

struct JsonParser<'a> {
    text: &'a str,
    at: usize,
}

impl JsonParser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> JsonResult<Value> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.pass_over().map(|()| Value::Null);
        };
        match self.peek().ok_or("it ends too early")? {
            b'{' => self.object(depth).map(Value::Object),
            b'[' => self.list(depth).map(Value::Array),
            b'"' => self.string().map(Value::String),
            _ => {
                for (token, value) in [
                    ("null", Value::Null),
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                    ("NaN", "NaN".into()),
                    ("Infinity", "Infinity".into()),
                    ("-Infinity", "-Infinity".into()),
                ] {
                    if self.take(token) {
                        return Ok(value);
                    }
                }
                self.number()
            }
        }
    }

    /// Passes over a value that is not shown.
    fn pass_over(&mut self) -> JsonResult<()> {
        let mut open = 0usize;
        loop {
            match self.peek().ok_or("it ends too early")? {
                b'"' => drop(self.string()?),
                b'[' | b'{' => (open, self.at) = (open + 1, self.at + 1),
                b']' | b'}' | b',' | b':' if open == 0 => return Ok(()),
                b']' | b'}' => (open, self.at) = (open - 1, self.at + 1),
                b',' | b':' => self.at += 1,
                _ => {
                    let rest = self.rest();
                    let is_token = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                    let len = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
                    self.at += if len > 0 {
                        len
                    } else {
                        return Err("a value is expected");
                    };
                }
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn object(&mut self, depth: usize) -> JsonResult<Map<String, Value>> {
        self.at += 1;
        let mut object = Map::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(object);
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err("a name is expected");
            }
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return Err("a colon is expected");
            }
            self.at += 1;
            let value = self.value(depth)?;
            object.insert(name, value);
            if self.ends(b'}')? {
                return Ok(object);
            }
        }
    }

    fn list(&mut self, depth: usize) -> JsonResult<Vec<Value>> {
        self.at += 1;
        let mut list = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(list);
        }
        loop {
            list.push(self.value(depth)?);
            if self.ends(b']')? {
                return Ok(list);
            }
        }
    }

    /// Whether the end comes next, rather than a comma.
    fn ends(&mut self, end: u8) -> JsonResult<bool> {
        let next = self.peek().ok_or("it ends too early")?;
        if next != end && next != b',' {
            return Err("a comma or an end is expected");
        }
        self.at += 1;
        Ok(next == end)
    }

    fn string(&mut self) -> JsonResult<String> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ');
            let plain = plain.ok_or("a string has no end")?;
            string.push_str(&rest[..plain]);
            let end = rest.as_bytes()[plain];
            self.at += plain;
            match end {
                b'"' => {
                    self.at += 1;
                    return Ok(string);
                }
                b'\\' => string.push(self.escape()?),
                _ => return Err("a string has a control character"),
            }
        }
    }

    fn escape(&mut self) -> JsonResult<char> {
        let escaped = self.text.as_bytes().get(self.at + 1).copied();
        let c = match escaped.ok_or("a string has no end")? {
            c @ (b'"' | b'\\' | b'/') => c.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err("an unknown escape"),
        };
        self.at += 2;
        Ok(c)
    }

    /// One escape of four digits, or a pair of them.
    fn unicode(&mut self) -> JsonResult<char> {
        let first = self.unit().ok_or("four digits are expected")?;
        self.at += 6;
        if (0xd800..0xdc00).contains(&first)
            && let Some(second @ 0xdc00..0xe000) = self.unit()
        {
            self.at += 6;
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn unit(&self) -> Option<u32> {
        let digits = self.rest().strip_prefix("\\u")?.get(..4)?;
        let are_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
        are_digits.then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> JsonResult<Value> {
        let rest = self.rest();
        let len = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
        let token = &rest[..len.unwrap_or(rest.len())];
        let number = number_of(token).ok_or("a value is expected")?;
        self.at += token.len();
        Ok(number)
    }
}

/// What a number stands for, if it is spelled as JSON wants it.
fn number_of(token: &str) -> Option<Value> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = token.strip_prefix('-').unwrap_or(token);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent_is_one = exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)));
    let is_number = digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent_is_one;
    if !is_number {
        return None;
    }
    if exponent.is_none() && fraction.is_none() {
        if let Ok(number) = token.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = token.parse::<i64>() {
            return Some(number.into());
        }
    }
    let float: f64 = token.parse().ok()?;
    Some(match Number::from_f64(float) {
        Some(number) => Value::Number(number),
        None if float > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_python_writes_is_read() {
        for (text, value) in [
            (
                "[NaN, Infinity, -Infinity]",
                json!(["NaN", "Infinity", "-Infinity"]),
            ),
            (
                "[1e400, -1e999, 1E2]",
                json!(["Infinity", "-Infinity", 100.0]),
            ),
            (
                "[18446744073709551615, -9223372036854775808]",
                json!([u64::MAX, i64::MIN]),
            ),
            (
                r#""\ud83d\ude00 \ud83d x \udc00""#,
                json!("\u{1f600} \u{fffd} x \u{fffd}"),
            ),
            (r#"{"a": 1, "b": 2, "a": 3}"#, json!({"a": 3, "b": 2})),
            ("\u{feff}[-0.0]", json!([-0.0])),
            (r#" {"a":[],"":{}}"#, json!({"a": [], "": {}})),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(value), "{text}");
        }
        let large = parse(format!("1{}", "0".repeat(60)).as_bytes()).unwrap();
        assert_eq!(large.as_f64(), Some(1e60));
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(parse(deep.as_bytes()).is_ok());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        let deeper = "[".repeat(100_000) + "{\"a]\": 1}, NaN" + &"]".repeat(100_000);
        assert!(parse(deeper.as_bytes()).is_ok());
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "[",
            "[1,]",
            "{\"a\" 1}",
            "{1: 2}",
            "01",
            "1.",
            ".5",
            "+1",
            "nul",
            "\"\\x\"",
            "\"\n\"",
            "[1] 2",
            "\"\\u12\"",
            "1e",
            "--1",
            "tru",
            "{\"a\":1,}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(b"\"\xff\"").is_err());
        assert!(parse(&[0; 20]).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<Vec<u8>>(), json in "[\\[\\]{}:,\"0-9eu\\\\.-]{0,40}") {
            let _ = (parse(&text), parse(json.as_bytes()));
        }

        #[test]
        fn what_serde_writes_is_read(text in any::<String>(), int in any::<i64>(), float in any::<f64>()) {
            let value = json!({"s": text, "i": int, "f": [float], "n": null});
            prop_assert_eq!(parse(value.to_string().as_bytes()).unwrap(), value);
        }
    }
}
