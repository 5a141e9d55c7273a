//! Under which keys the chunks of an array lie. Pure. Used by all that fetches or lists chunks.

use serde_json::Value;

use super::document::{DocumentRefusal, configuration, named};

/// How places in the grid become keys, below the array's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyEncoding {
    /// Version 3 puts a `c` in front.
    has_prefix: bool,
    separator: char,
}

impl KeyEncoding {
    pub(super) fn of_version_2(separator: Option<&Value>) -> Result<KeyEncoding, DocumentRefusal> {
        let separator = separator.filter(|separator| !separator.is_null());
        Ok(KeyEncoding {
            has_prefix: false,
            separator: separator.map_or(Ok('.'), one_of_two)?,
        })
    }

    pub(super) fn of_version_3(encoding: Option<&Value>) -> Result<KeyEncoding, DocumentRefusal> {
        let missing = || DocumentRefusal::fault("the keys of chunks have no encoding");
        let (name, configured) = encoding.and_then(named).ok_or_else(missing)?;
        let (has_prefix, usual) = match name {
            "default" => (true, '/'),
            "v2" => (false, '.'),
            name => {
                return Err(DocumentRefusal::not_shown(format!(
                    "the encoding {name} of keys"
                )));
            }
        };
        let separator = configuration(configured, "separator");
        Ok(KeyEncoding {
            has_prefix,
            separator: separator.map_or(Ok(usual), one_of_two)?,
        })
    }

    /// The key of the chunk at a place.
    pub(super) fn key(self, place: &[u64]) -> String {
        let mut key = String::new();
        if self.has_prefix {
            key.push('c');
        } else if place.is_empty() {
            key.push('0');
        }
        for (at, number) in place.iter().enumerate() {
            if at > 0 || self.has_prefix {
                key.push(self.separator);
            }
            key.push_str(&number.to_string());
        }
        key
    }

    /// The place of the chunk of a key, if it is one: one spelling only.
    pub(super) fn place(self, key: &str, dimensions: usize) -> Option<Vec<u64>> {
        let place: Vec<u64> = match (self.has_prefix, dimensions) {
            (_, 0) => Vec::new(),
            (true, _) => numbers(key.strip_prefix('c')?.strip_prefix(self.separator)?, self)?,
            (false, _) => numbers(key, self)?,
        };
        (place.len() == dimensions && self.key(&place) == key).then_some(place)
    }

    /// Whether chunks lie in directories of their own.
    pub(super) fn is_nested(self) -> bool {
        self.separator == '/'
    }

    /// Whether a directory of this name, so many below the array's own, can be one of chunks.
    pub(super) fn is_directory(self, name: &str, depth: usize, dimensions: usize) -> bool {
        if !self.is_nested() || depth + 1 >= dimensions + usize::from(self.has_prefix) {
            return false;
        }
        match self.has_prefix && depth == 0 {
            true => name == "c" && dimensions > 0,
            false => name
                .parse()
                .is_ok_and(|number: u64| number.to_string() == name),
        }
    }
}

fn numbers(text: &str, encoding: KeyEncoding) -> Option<Vec<u64>> {
    let numbers = text
        .split(encoding.separator)
        .map(|number| number.parse().ok());
    numbers.collect()
}

fn one_of_two(separator: &Value) -> Result<char, DocumentRefusal> {
    match separator.as_str() {
        Some(".") => Ok('.'),
        Some("/") => Ok('/'),
        _ => {
            let fault = DocumentRefusal::fault("the separator of keys is none");
            Err(fault.expected("\".\" or \"/\"").found(separator))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn keys_are_those_of_the_specifications() {
        let v2 = KeyEncoding::of_version_2(None).unwrap();
        let nested = KeyEncoding::of_version_2(Some(&json!("/"))).unwrap();
        let v3 = KeyEncoding::of_version_3(Some(&json!("default"))).unwrap();
        let dots = json!({"name": "default", "configuration": {"separator": "."}});
        let dots = KeyEncoding::of_version_3(Some(&dots)).unwrap();
        for (encoding, keys) in [
            (v2, ["0", "1", "2.3"]),
            (nested, ["0", "1", "2/3"]),
            (v3, ["c", "c/1", "c/2/3"]),
            (dots, ["c", "c.1", "c.2.3"]),
        ] {
            let made = [&[][..], &[1], &[2, 3]].map(|place| encoding.key(place));
            assert_eq!(made, keys);
        }
        for key in ["2.03", "+2.3", "2.3.partial", "2", "2.3.4", "c.2.3", ""] {
            assert_eq!(v2.place(key, 2), None, "{key}");
        }
        assert!(v3.is_directory("c", 0, 2) && v3.is_directory("7", 1, 2));
        assert!(!v3.is_directory("7", 2, 2) && !v3.is_directory("x", 0, 2));
        assert!(!dots.is_directory("c", 0, 2) && !nested.is_directory("07", 0, 2));
    }

    proptest! {
        #[test]
        fn a_key_tells_its_place(place in prop::collection::vec(any::<u64>(), 0..4), old in any::<bool>()) {
            let name = if old { "v2" } else { "default" };
            let encoding = KeyEncoding::of_version_3(Some(&json!(name))).unwrap();
            let key = encoding.key(&place);
            prop_assert_eq!(encoding.place(&key, place.len()), Some(place));
        }
    }
}
