//! Python literals, as far as a NumPy dtype needs them: strings, whole numbers, lists and tuples.
//!
//! `[('a', '<f4', (3,)), ('b', '|S9')]` is how NumPy spells a structure, and `repr(dtype.descr)`
//! what files say of their types; some say it in JSON lists. Both become a [`Literal`]. The text
//! comes from a file: nesting is bounded and anything else is simply no literal. Pure. Used by
//! whatever reads or shows NumPy's types.

use std::fmt;

use serde_json::Value;

/// Deepest nesting; real types have two or three levels.
const MAX_DEPTH: usize = 64;

/// A literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    Str(String),
    Int(u64),
    List(Vec<Literal>),
    Tuple(Vec<Literal>),
}

impl Literal {
    /// The literal that the whole text spells.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let literal = parser.literal(MAX_DEPTH)?;
        parser.skip_space();
        parser.rest.is_empty().then_some(literal)
    }

    /// The literal that a JSON value stands for: its lists are lists.
    pub fn from_json(value: &Value) -> Option<Self> {
        Self::from_json_within(value, MAX_DEPTH)
    }

    fn from_json_within(value: &Value, depth: usize) -> Option<Self> {
        match value {
            Value::String(text) => Some(Literal::Str(text.clone())),
            Value::Number(n) => n.as_u64().map(Literal::Int),
            Value::Array(items) => {
                let depth = depth.checked_sub(1)?;
                let items = items.iter().map(|item| Self::from_json_within(item, depth));
                items.collect::<Option<_>>().map(Literal::List)
            }
            _ => None,
        }
    }

    /// The items of a list or a tuple.
    pub fn items(&self) -> Option<&[Literal]> {
        match self {
            Literal::List(items) | Literal::Tuple(items) => Some(items),
            _ => None,
        }
    }
}

/// As Python's `repr` spells it.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Str(text) => write_str(f, text),
            Literal::Int(n) => n.fmt(f),
            Literal::List(items) => write_items(f, "[", items, "]"),
            Literal::Tuple(items) if items.len() == 1 => write_items(f, "(", items, ",)"),
            Literal::Tuple(items) => write_items(f, "(", items, ")"),
        }
    }
}

fn write_items(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    items: &[Literal],
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write!(f, "{item}")?;
    }
    f.write_str(close)
}

fn write_str(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    write!(f, "{quote}")?;
    for c in text.chars() {
        match c {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote || c == '\\' => write!(f, "\\{c}")?,
            c if (c as u32) < 0x20 || ('\u{7f}'..'\u{a0}').contains(&c) => {
                write!(f, "\\x{:02x}", c as u32)?;
            }
            c => write!(f, "{c}")?,
        }
    }
    write!(f, "{quote}")
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        Some(c)
    }

    fn literal(&mut self, depth: usize) -> Option<Literal> {
        self.skip_space();
        if self.take('[') {
            return self
                .items(']', depth)
                .map(|(items, _)| Literal::List(items));
        }
        if self.take('(') {
            let (mut items, comma) = self.items(')', depth)?;
            // Without a comma these are parentheses around one literal.
            return if items.len() == 1 && !comma {
                items.pop()
            } else {
                Some(Literal::Tuple(items))
            };
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        self.string()
    }

    /// Items up to `close`, and whether a comma was among them.
    fn items(&mut self, close: char, depth: usize) -> Option<(Vec<Literal>, bool)> {
        let depth = depth.checked_sub(1)?;
        let (mut items, mut comma) = (Vec::new(), false);
        loop {
            self.skip_space();
            if self.take(close) {
                return Some((items, comma));
            }
            if !items.is_empty() && !comma {
                return None;
            }
            items.push(self.literal(depth)?);
            self.skip_space();
            if !self.take(',') {
                return self.take(close).then_some((items, comma));
            }
            comma = true;
        }
    }

    fn number(&mut self) -> Option<Literal> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        // Python 2 marks long numbers.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok().map(Literal::Int)
    }

    fn string(&mut self) -> Option<Literal> {
        let _ = self.take('u') || self.take('b');
        let quote = self.next().filter(|c| matches!(c, '\'' | '"'))?;
        let mut text = String::new();
        loop {
            match self.next()? {
                c if c == quote => return Some(Literal::Str(text)),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let digits = match self.next()? {
            'n' => return Some('\n'),
            'r' => return Some('\r'),
            't' => return Some('\t'),
            c @ ('\\' | '\'' | '"') => return Some(c),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return None,
        };
        let hex = self
            .rest
            .get(..digits)
            .filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.rest = &self.rest[digits..];
        char::from_u32(u32::from_str_radix(hex, 16).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spelled_as_python_does() {
        for text in [
            "'<f8'",
            "[('a', '<f4'), ('b', '>i8', (2, 2)), ('c', '|S3')]",
            "[(('title', 'a'), '<i4'), ('', '|V7')]",
            "[('m', '<u2', (3,)), ('n', [('x', '|u1')])]",
            "()",
            r#"["it's", '\'"', '\\\n\x07é']"#,
        ] {
            assert_eq!(Literal::parse(text).unwrap().to_string(), text);
        }
        let same = |a, b| assert_eq!(Literal::parse(a), Literal::parse(b));
        same(
            " [ ( u'a' , b\"<f4\" , ( 3L , ) , ) , ] ",
            "[('a', '<f4', (3,))]",
        );
        same("('a')", "'a'");
        same(r"'\u00e9\U000000e9\xe9'", "'\u{e9}\u{e9}\u{e9}'");
    }

    #[test]
    fn what_is_no_literal() {
        for text in [
            "",
            "<f8",
            "[",
            "['a'",
            "('a' 'b')",
            "[,]",
            "'a",
            "'a''b'",
            "-1",
            "1.5",
            "None",
            "99999999999999999999",
            r"'\q'",
            r"'\xg0'",
            r"'\x+1'",
            "{}",
            "[1 2]",
            "(,)",
            "'a' x",
        ] {
            assert_eq!(Literal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Literal::parse(&nested(MAX_DEPTH)).is_some());
        assert!(Literal::parse(&nested(MAX_DEPTH + 1)).is_none());
        assert!(Literal::parse(&nested(1_000_000)).is_none());
        let json: Value = serde_json::from_str(&nested(MAX_DEPTH + 1)).unwrap();
        assert!(Literal::from_json(&json).is_none());
    }

    proptest! {
        #[test]
        fn any_text_ends(text in r#"[\[\](),'"\\xu0-9a ]{0,40}"#) {
            if let Some(literal) = Literal::parse(&text) {
                prop_assert_eq!(Literal::parse(&literal.to_string()), Some(literal));
            }
        }
    }
}
