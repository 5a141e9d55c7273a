//! Attributes of a new classic file, out of JSON.
//!
//! A value has the type that is said beside it, or the one that is obvious: text, an integer of 32
//! bits or a double. What cannot be an attribute is told, and left out. Used by [`super::plan`].

use serde_json::{Map, Value};

use super::super::header::Attribute;
use super::super::kind::{ClassicVersion, ElementKind};
use crate::container::names::unescaped;

/// Attributes, and what could not be one.
#[derive(Default)]
pub(super) struct NewAttributeList {
    pub(super) list: Vec<Attribute>,
    pub(super) not_kept: Vec<String>,
}

impl NewAttributeList {
    /// `types`: what is said of how they are stored; `of`: whose they are.
    pub(super) fn described(
        values: &Map<String, Value>,
        types: Option<&Value>,
        of: &str,
    ) -> NewAttributeList {
        let mut all = NewAttributeList::default();
        for (name, value) in values {
            let said = types.and_then(|types| types.get(name));
            match raw_of(value, said) {
                Ok((kind, raw)) => all.list.push(Attribute {
                    name: unescaped(name),
                    kind,
                    raw,
                    stored: 0..0,
                }),
                Err(why) => all
                    .not_kept
                    .push(format!("attribute {name} of {of}: {why}")),
            }
        }
        all
    }
}

/// The kind of this name.
pub(super) fn kind_named(name: &str) -> Option<ElementKind> {
    let mut all = (1..).map_while(|code| ElementKind::from_code(code, ClassicVersion::Five));
    all.find(|kind| kind.name() == name)
}

/// Kind and stored elements of a value.
fn raw_of(value: &Value, said: Option<&Value>) -> Result<(ElementKind, Vec<u8>), String> {
    let text = |name: &str| said?.get(name)?.as_str();
    if let Some(why) = text("omitted") {
        return Err(format!("its value is not known ({why})"));
    }
    let kind = match text("type") {
        Some(name) => {
            kind_named(name).ok_or_else(|| format!("{name} is no type of classic NetCDF"))?
        }
        None => obvious(value)?,
    };
    let raw = match (text("stored"), value) {
        (Some(stored), _) => bytes_of(stored).ok_or("what is stored is no hexadecimal number")?,
        (None, Value::String(text)) if kind == ElementKind::Char => text.clone().into_bytes(),
        (None, Value::Array(items)) => {
            let elements: Result<Vec<_>, _> =
                items.iter().map(|item| element(kind, item)).collect();
            elements?.concat()
        }
        (None, other) => element(kind, other)?,
    };
    match raw.len().is_multiple_of(kind.size()) {
        true => Ok((kind, raw)),
        false => Err("it ends within an element".into()),
    }
}

fn obvious(value: &Value) -> Result<ElementKind, String> {
    let items = match value {
        Value::String(_) => return Ok(ElementKind::Char),
        Value::Array(items) if !items.is_empty() => &items[..],
        other => std::slice::from_ref(other),
    };
    let is_small = |item: &Value| item.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    let is_integer = |item: &Value| item.is_i64() || item.is_u64();
    if items.iter().all(is_small) {
        Ok(ElementKind::Int)
    } else if items.iter().all(is_integer) {
        Ok(ElementKind::Int64)
    } else if items.iter().all(Value::is_number) {
        Ok(ElementKind::Double)
    } else {
        Err("a classic NetCDF file has text and numbers alone".into())
    }
}

/// A number as it is stored.
fn element(kind: ElementKind, value: &Value) -> Result<Vec<u8>, String> {
    let refuse = || format!("{value} is no value of its type");
    let number: Option<i128> = value
        .as_i64()
        .map(i128::from)
        .or_else(|| value.as_u64().map(i128::from));
    let float = || match value {
        // What JSON has no number for.
        Value::String(spelled) => spelled.parse::<f64>().ok(),
        other => other.as_f64(),
    };
    macro_rules! integer {
        ($of:ty) => {
            number
                .and_then(|number| <$of>::try_from(number).ok())
                .map(|number| number.to_be_bytes().to_vec())
        };
    }
    let raw = match kind {
        ElementKind::Byte => integer!(i8),
        ElementKind::Char => match value {
            Value::String(text) => Some(text.clone().into_bytes()),
            _ => None,
        },
        ElementKind::Short => integer!(i16),
        ElementKind::Int => integer!(i32),
        ElementKind::Float => float32(value).map(|number| number.to_be_bytes().to_vec()),
        ElementKind::Double => float().map(|number| number.to_be_bytes().to_vec()),
        ElementKind::UByte => integer!(u8),
        ElementKind::UShort => integer!(u16),
        ElementKind::UInt => integer!(u32),
        ElementKind::Int64 => integer!(i64),
        ElementKind::UInt64 => integer!(u64),
    };
    raw.ok_or_else(refuse)
}

/// Spelled in the shortest way, a number is rounded once: to its own precision.
fn float32(value: &Value) -> Option<f32> {
    match value {
        Value::String(spelled) => spelled.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}
