//! Data types as descriptors declare them: `float32`, `iso[complex[float64]]`, `bint8`.
//!
//! Specification, sections 3.6 and 3.7. Used by `descriptor` and `lengths`.

use serde_json::{Map, Value};

use super::json;

const BASES: [&str; 11] = [
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64",
    "bint8",
];

/// One declared type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Type {
    base: &'static str,
    /// The array holds one value for all.
    pub(super) iso: bool,
    /// Two elements a value.
    pub(super) complex: bool,
}

impl Type {
    /// Says what is wrong with a name that is not a type.
    pub(super) fn parse(name: &str) -> Result<Type, &'static str> {
        let (iso, inner) = unwrap(name, "iso[");
        let (complex, base) = unwrap(inner, "complex[");
        let base = BASES.iter().find(|known| **known == base);
        let base = *base.ok_or("the declared type is unknown")?;
        if complex && !base.starts_with("float") {
            return Err("only float32 and float64 can be complex");
        }
        Ok(Type { base, iso, complex })
    }

    /// Whether elements of this stored type, by NumPy's name, are what was declared.
    pub(super) fn is_stored_as(&self, stored: &str) -> bool {
        match self.base {
            // Writers differ; the C reference takes int8, h5py its boolean enumeration.
            "bint8" => matches!(stored, "uint8" | "int8" | "bool"),
            base => base == stored,
        }
    }

    /// `float32` of `iso[complex[float32]]`.
    pub(super) fn base(&self) -> &'static str {
        self.base
    }

    /// A type that elements can be stored as, by NumPy's name.
    pub(super) fn stored(&self) -> &'static str {
        match self.base {
            "bint8" => "int8",
            base => base,
        }
    }

    /// Whether it can number something.
    pub(super) fn is_index(&self) -> bool {
        !self.iso && !self.complex && self.base.contains("int") && self.base != "bint8"
    }

    /// Elements that `n` values take.
    pub(super) fn elements(&self, n: u128) -> u128 {
        let values = if self.iso { 1 } else { n };
        values.saturating_mul(1 + u128::from(self.complex))
    }
}

/// Takes `prefix` and the closing bracket off.
fn unwrap<'a>(name: &'a str, prefix: &str) -> (bool, &'a str) {
    let inner = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(']'));
    (inner.is_some(), inner.unwrap_or(name))
}

/// The object `data_types`.
pub(super) struct Types(pub(super) Map<String, Value>);

/// More declarations than this are not shown in `arrays.json`; no format needs them.
const SHOWN: usize = 600;

impl Types {
    /// The type declared for an array; none if there is no declaration.
    pub(super) fn get(&self, array: &str) -> Option<Result<Type, (&'static str, String)>> {
        let value = self.0.get(array)?;
        let parsed = match value.as_str() {
            Some(name) => Type::parse(name),
            None => Err("the declared type is not a string"),
        };
        Some(parsed.map_err(|what| (what, json::show(value))))
    }

    /// As `arrays.json` shows it: names of arrays and types, cut at [`SHOWN`] entries.
    pub(super) fn to_show(&self) -> Value {
        let entries = self.0.iter().take(SHOWN);
        let strings = entries.filter(|(_, v)| v.as_str().is_some_and(|s| s.len() < 64));
        Value::Object(strings.map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_type_is_read() {
        for base in BASES {
            for iso in [false, true] {
                let name = if iso {
                    format!("iso[{base}]")
                } else {
                    base.into()
                };
                assert_eq!(
                    Type::parse(&name).map(|t| (t.base, t.iso, t.complex)),
                    Ok((base, iso, false))
                );
                let complex = name.replace(base, &format!("complex[{base}]"));
                assert_eq!(
                    Type::parse(&complex).is_ok(),
                    base.starts_with("float"),
                    "{complex}"
                );
            }
        }
        for wrong in [
            "",
            "float128",
            "iso[]",
            "iso[int8",
            "complex[iso[float32]]",
            "iso[iso[int8]]",
            " int8",
        ] {
            assert!(Type::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn modifiers_change_the_number_of_elements() {
        let elements = |name: &str| Type::parse(name).unwrap().elements(7);
        assert_eq!(elements("int8"), 7);
        assert_eq!(elements("complex[float32]"), 14);
        assert_eq!(elements("iso[bint8]"), 1);
        assert_eq!(elements("iso[complex[float64]]"), 2);
    }
}
