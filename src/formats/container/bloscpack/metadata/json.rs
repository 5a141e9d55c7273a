//! JSON as Python writes it, with little memory: a value takes many times the memory of its text,
//! so of a long text only a few members become one.
//!
//! Used by [`crate::container::bloscpack::metadata`].

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use crate::container::describe::value_room;
use crate::error::{Fault, Result};
use crate::memory::{no_memory, set_aside};

/// What refusals of memory say.
const DOING: &str = "cannot read long metadata";

/// Longest name that is compared, and longest value that is taken.
const MAX_NAME: usize = 256;
const MAX_VALUE: usize = 64 << 10;

/// What a text says.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) value: Value,
    /// All of it; else only the members that were wanted.
    pub(crate) whole: bool,
}

/// The value of a text of up to `most` bytes. A longer one is parsed, but only the `wanted` members
/// of its outermost object are taken; so is one that Python writes and reads but no value holds
/// (half a surrogate pair, numbers of any size, lists in lists without end).
pub(crate) fn value_of(text: &[u8], most: usize, wanted: &[&str]) -> Result<Said> {
    if text.len() <= most
        && let Ok(value) = set_aside(value_room(text), DOING, || parse(text))?
    {
        return Ok(Said { value, whole: true });
    }
    // A bit of memory for each list in another, which the parser has in one piece.
    set_aside(3 * text.len() as u64, DOING, || parse::<IgnoredAny>(text))??;
    let text = std::str::from_utf8(text).unwrap_or_default();
    Ok(Said {
        value: pick(text, wanted)?,
        whole: false,
    })
}

/// JSON as Python reads it, which has numbers that JSON has not.
fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    let no_json = |e: &dyn fmt::Display| Fault::new(format!("the metadata is not JSON: {e}"));
    let text = std::str::from_utf8(text).map_err(|e| no_json(&e))?;
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    serde_json::from_str(&without_infinities(text)?).map_err(|_| no_json(&error).into())
}

/// Puts `null` for the NaN and Infinity that Python's writer makes.
fn without_infinities(text: &str) -> Result<String> {
    let mut plain = String::new();
    // A third more, if it is all NaN.
    let most = text.len() + text.len() / 3 + 1;
    let reserved = plain.try_reserve_exact(most);
    reserved.map_err(|_| no_memory(DOING))?;
    let (mut rest, mut quoted) = (text, false);
    while let Some(c) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"]
            .iter()
            .find(|w| rest.starts_with(**w));
        let len = match word {
            Some(word) if !quoted => {
                plain.push_str("null");
                word.len()
            }
            _ => {
                // What an escape stands for is passed on with it, so an escaped quote ends nothing.
                let escaped = if c == '\\' {
                    rest[1..].chars().next()
                } else {
                    None
                };
                let len = c.len_utf8() + escaped.map_or(0, char::len_utf8);
                quoted ^= c == '"';
                plain.push_str(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    Ok(plain)
}

/// The object with those of its members that are `wanted` and short; `null` for what is no object.
fn pick(text: &str, wanted: &[&str]) -> Result<Value> {
    let Some(inner) = text.trim_start().strip_prefix('{') else {
        return Ok(Value::Null);
    };
    let mut parts = Parts(inner);
    let mut picked = Map::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        let name = short::<String>(name, MAX_NAME)?.filter(|name| wanted.contains(&&**name));
        // Of repeated names the last one counts, as everywhere.
        if let (Some(name), Some(value)) = (name, short(value, MAX_VALUE)?) {
            picked.insert(name, value);
        }
    }
    Ok(Value::Object(picked))
}

fn short<T: DeserializeOwned>(text: &str, most: usize) -> Result<Option<T>> {
    let text = text.trim();
    if text.len() > most {
        return Ok(None);
    }
    let room = value_room(text.as_bytes());
    set_aside(room, DOING, || serde_json::from_str(text).ok())
}

/// What lies between the colons and commas of the outermost object: names and values in turn.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (mut depth, mut quoted, mut escaped) = (0u32, false, false);
        for (at, byte) in self.0.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' | b'{' => depth += 1,
                b']' | b'}' if depth > 0 => depth -= 1,
                b':' | b',' | b'}' if depth == 0 => {
                    let part = &self.0[..at];
                    self.0 = &self.0[at + 1..];
                    return Some(part);
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const WANTED: [&str; 2] = ["a", "b"];

    #[test]
    fn only_what_is_wanted() {
        let text =
            r#" { "x": {"a": 1, "y": ["}", ":", "\",\\"]}, "a" : [1, {"b": 2}] ,"\u0062":"}" } "#;
        assert_eq!(
            pick(text, &WANTED).unwrap(),
            json!({"a": [1, {"b": 2}], "b": "}"})
        );
        assert_eq!(pick(r#"{"a":1,"a":2}"#, &WANTED).unwrap(), json!({"a": 2}));
    }

    #[test]
    fn what_is_no_object() {
        for text in ["[{\"a\": 1}]", "\"{\"", "1", "null"] {
            assert_eq!(pick(text, &WANTED).unwrap(), Value::Null);
        }
        assert_eq!(pick(" {} ", &WANTED).unwrap(), json!({}));
    }

    #[test]
    fn long_values_are_left_out() {
        let text = json!({"a": "x".repeat(MAX_VALUE), "b": 1, "x".repeat(MAX_NAME): 2});
        assert_eq!(pick(&text.to_string(), &WANTED).unwrap(), json!({"b": 1}));
    }

    #[test]
    fn numbers_of_python() {
        let value: Value =
            parse(br#"{"NaN": [NaN, -Infinity, "\"NaN", "a\\", Infinity]}"#).unwrap();
        assert_eq!(
            value["NaN"],
            serde_json::json!([null, null, "\"NaN", "a\\", null])
        );
        assert!(parse::<Value>(b"{NaN}").is_err());
    }

    #[test]
    fn what_no_value_holds() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for odd in [
            r#""\ud800""#,
            "1e999",
            &format!("1{}", "0".repeat(400)),
            &deep,
        ] {
            let text = format!(r#"{{"x": {odd}, "a": 1}}"#);
            let said = value_of(text.as_bytes(), 1 << 20, &WANTED).unwrap();
            assert_eq!((said.value, said.whole), (json!({"a": 1}), false), "{odd}");
        }
        for broken in ["{", r#"{"a": 1e}"#, r#"{"a": "\x"}"#, "{} 1"] {
            assert!(value_of(broken.as_bytes(), 1 << 20, &WANTED).is_err());
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            r#"[\[\]{}:,"\\\\ a\u{e9}]{0,8}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let members = prop::collection::btree_map("[ab\"\\\\:,{}]{0,3}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn as_the_parser_has_them(value in any_value(), pretty: bool) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let expected = value.as_object().map(|object| {
                let all = object.clone().into_iter();
                all.filter(|(name, _)| WANTED.contains(&name.as_str())).collect::<Map<_, _>>()
            });
            prop_assert_eq!(pick(&text, &WANTED).unwrap(), expected.map_or(Value::Null, Value::Object));
        }
    }
}
