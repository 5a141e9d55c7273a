//! Element types, spelled as NumPy spells them.
//!
//! `arrays.json`, the xattrs and the `.npy` headers of the views all take their spelling from here.

pub mod descr;
pub mod literal;

use std::borrow::Cow;

/// Type of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dtype {
    U8,
    U32,
    U64,
    F32,
    F64,
    /// Any other type, by its NumPy `descr`: `<i2`, `|b1`, `>f8`, `<M8[ns]`, `|S9`, or the list of
    /// a structure with the item size in bytes.
    Descr {
        descr: String,
        itemsize: u64,
    },
    /// Lines of text, one value each.
    Text,
}

impl Dtype {
    /// The type that NumPy spells so: `<i2`, `|b1`, `[('a', '<f4')]`.
    pub fn numpy(descr: impl Into<String>, itemsize: u64) -> Dtype {
        let descr = descr.into();
        match descr.as_str() {
            "|u1" => Dtype::U8,
            "<u4" => Dtype::U32,
            "<u8" => Dtype::U64,
            "<f4" => Dtype::F32,
            "<f8" => Dtype::F64,
            _ => Dtype::Descr { descr, itemsize },
        }
    }

    /// Name for `arrays.json` and the xattrs: `uint32`, `float64`; `str` for text.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Dtype::U8 => "uint8".into(),
            Dtype::U32 => "uint32".into(),
            Dtype::U64 => "uint64".into(),
            Dtype::F32 => "float32".into(),
            Dtype::F64 => "float64".into(),
            Dtype::Text => "str".into(),
            Dtype::Descr { descr, .. } => descr_name(descr),
        }
    }

    /// Size of an element in bytes; none for text.
    pub fn itemsize(&self) -> Option<u64> {
        match self {
            Dtype::U8 => Some(1),
            Dtype::U32 | Dtype::F32 => Some(4),
            Dtype::U64 | Dtype::F64 => Some(8),
            Dtype::Descr { itemsize, .. } => Some(*itemsize),
            Dtype::Text => None,
        }
    }

    /// The `descr` of a `.npy` header, as a Python literal.
    pub fn npy_descr(&self) -> String {
        match self {
            Dtype::U8 | Dtype::Text => "'|u1'".into(),
            Dtype::U32 => "'<u4'".into(),
            Dtype::U64 => "'<u8'".into(),
            Dtype::F32 => "'<f4'".into(),
            Dtype::F64 => "'<f8'".into(),
            Dtype::Descr { descr, .. } if descr.starts_with('[') => descr.clone(),
            Dtype::Descr { descr, .. } => format!("'{descr}'"),
        }
    }
}

/// `<i2` is `int16` in NumPy's own words; what has no such name (other byte order, strings, dates,
/// structures) stays as it is.
fn descr_name(descr: &str) -> Cow<'_, str> {
    let named = NAMES.iter().find(|(known, _)| *known == descr);
    Cow::Borrowed(named.map_or(descr, |(_, name)| name))
}

/// The `descr` of what [`Dtype::name`] spells so.
pub fn descr_of_name(name: &str) -> &str {
    let named = NAMES.iter().find(|(_, known)| *known == name);
    named.map_or(name, |(descr, _)| descr)
}

/// The mount's own name of a type however NumPy lets it be spelled: `u2`, `=f8`, `<u1`, `?` and
/// `S9` are `uint16`, `float64`, `uint8`, `bool` and `|S9`. Anything else stays as it is.
pub fn name_of(spelled: &str) -> Cow<'_, str> {
    let bare = spelled.strip_prefix(['=', '|', '<']).unwrap_or(spelled);
    let of_bytes = matches!(spelled.get(..2), Some(">i" | ">u" | ">b")) && spelled.ends_with('1');
    let bare = match of_bytes {
        true => &spelled[1..],
        false => bare,
    };
    if matches!(bare, "?" | "b1") {
        return "bool".into();
    }
    let named = NAMES.iter().find(|(descr, _)| descr.get(1..) == Some(bare));
    if let Some((_, name)) = named {
        return Cow::Borrowed(name);
    }
    let is_text = |kind: char| bare.starts_with(kind) && bare.len() > 1;
    let is_sized = bare.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    match is_sized && (is_text('S') || is_text('V')) {
        true => format!("|{bare}").into(),
        false => spelled.into(),
    }
}

const NAMES: [(&str, &str); 14] = [
    ("|b1", "bool"),
    ("|i1", "int8"),
    ("|u1", "uint8"),
    ("<i2", "int16"),
    ("<u2", "uint16"),
    ("<f2", "float16"),
    ("<i4", "int32"),
    ("<u4", "uint32"),
    ("<f4", "float32"),
    ("<i8", "int64"),
    ("<u8", "uint64"),
    ("<f8", "float64"),
    ("<c8", "complex64"),
    ("<c16", "complex128"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_names() {
        let dtype = |descr: &str, itemsize| Dtype::Descr {
            descr: descr.into(),
            itemsize,
        };
        assert_eq!(dtype("<i2", 2).name(), "int16");
        assert_eq!(dtype("|b1", 1).name(), "bool");
        assert_eq!(dtype(">f8", 8).name(), ">f8");
        assert_eq!(dtype(">f8", 8).npy_descr(), "'>f8'");
        assert_eq!(dtype("[('a', '<f4')]", 4).npy_descr(), "[('a', '<f4')]");
        assert_eq!(Dtype::U32.npy_descr(), "'<u4'");
        assert_eq!(
            (descr_of_name("int16"), descr_of_name(">f8")),
            ("<i2", ">f8")
        );
    }

    #[test]
    fn types_are_named_alike_however_they_are_spelled() {
        for (spelled, name) in [
            ("u2", "uint16"),
            ("=f8", "float64"),
            ("<c16", "complex128"),
            ("|i1", "int8"),
            ("<u1", "uint8"),
            (">u1", "uint8"),
            ("?", "bool"),
            ("b1", "bool"),
            ("S9", "|S9"),
            ("|V3", "|V3"),
        ] {
            assert_eq!(name_of(spelled), name, "{spelled}");
        }
        for other in [
            "",
            "<",
            ">f8",
            "int16",
            "<U5",
            "S",
            "str",
            "[('a', '<i2')]",
            "i3",
            "é1",
            "<M8[ns]",
        ] {
            assert_eq!(name_of(other), other);
        }
    }
}
