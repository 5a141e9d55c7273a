//! The Python literals by which NumPy spells structures: `[('a', '<f4', (3,)), ('b', '|S9')]`.
//!
//! Written by us, out of types that come from files: names may be anything. Pure. Used by
//! [`super::element`].

/// Types are nested no deeper.
const DEPTH_MOST: usize = 64;

/// A literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// A string.
    Text(String),
    /// A whole number that is not negative.
    Number(u64),
    /// A list or a tuple.
    Sequence(Vec<Literal>),
}

/// The literal that a text is, if it is one.
pub fn parse(text: &str) -> Option<Literal> {
    let mut rest = LiteralText {
        chars: text.chars().peekable(),
    };
    let literal = rest.literal(0)?;
    rest.spaces();
    rest.chars.next().is_none().then_some(literal)
}

struct LiteralText<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

impl LiteralText<'_> {
    fn spaces(&mut self) {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn literal(&mut self, depth: usize) -> Option<Literal> {
        self.spaces();
        match *self.chars.peek()? {
            quote @ ('\'' | '"') => self.text(quote).map(Literal::Text),
            '[' => self.sequence(']', depth),
            '(' => self.sequence(')', depth),
            c if c.is_ascii_digit() => self.number(),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Literal> {
        let mut number = 0u64;
        while let Some(digit) = self.chars.next_if(char::is_ascii_digit) {
            let digit = u64::from(digit.to_digit(10)?);
            number = number.checked_mul(10)?.checked_add(digit)?;
        }
        Some(Literal::Number(number))
    }

    fn sequence(&mut self, end: char, depth: usize) -> Option<Literal> {
        if depth >= DEPTH_MOST {
            return None;
        }
        self.chars.next();
        let mut items = Vec::new();
        loop {
            self.spaces();
            if self.chars.next_if_eq(&end).is_some() {
                return Some(Literal::Sequence(items));
            }
            items.push(self.literal(depth + 1)?);
            self.spaces();
            if self.chars.next_if_eq(&',').is_none() && self.chars.peek() != Some(&end) {
                return None;
            }
        }
    }

    fn text(&mut self, quote: char) -> Option<String> {
        self.chars.next();
        let mut text = String::new();
        loop {
            match self.chars.next()? {
                c if c == quote => return Some(text),
                '\\' => text.push(self.escaped()?),
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let digits = match self.chars.next()? {
            'n' => return Some('\n'),
            'r' => return Some('\r'),
            't' => return Some('\t'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            c => return Some(c),
        };
        let code = (0..digits).try_fold(0u32, |code, _| {
            let digit = self.chars.next()?.to_digit(16)?;
            code.checked_mul(16)?.checked_add(digit)
        });
        char::from_u32(code?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_read() {
        let text = |text: &str| Literal::Text(text.into());
        let parsed = parse("[('a', '<f4', (3,)), (('t', \"it's\"), '|S9'), ('\\x01\\'', [])]");
        let expected = Literal::Sequence(vec![
            Literal::Sequence(vec![
                text("a"),
                text("<f4"),
                Literal::Sequence(vec![Literal::Number(3)]),
            ]),
            Literal::Sequence(vec![
                Literal::Sequence(vec![text("t"), text("it's")]),
                text("|S9"),
            ]),
            Literal::Sequence(vec![text("\u{1}'"), Literal::Sequence(vec![])]),
        ]);
        assert_eq!(parsed, Some(expected));
    }

    #[test]
    fn what_is_no_literal_is_none() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "[",
            "'a",
            "(1 2)",
            "99999999999999999999",
            "[1] 2",
            &deep,
        ] {
            assert_eq!(parse(text), None, "{text:.20}");
        }
    }
}
