//! Attributes and dimensions as JSON, for `arrays.json`: bounded, whatever the file holds.
//!
//! Used by `super`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::header::{Attribute, ClassicHeader, Variable};
use super::kind::ElementKind;
use super::swap;
use crate::container::names;
use crate::container::stored::{ArrayDetails, AttributeType, DimensionDetails, StoredType};

/// What names the version of a file that is a container of another format.
pub(super) const CLASSIC: &str = "classic";

/// Longest text, and most numbers of a list, that are shown.
const TEXT: usize = 1 << 20;
const NUMBERS: usize = 65_536;

/// Most memory of the values that are shown of one file; the rest are named only.
const BUDGET: usize = 32 << 20;

/// What an attribute takes beside its value and its name.
const ATTRIBUTE: usize = 512;

/// Turns attributes into JSON until the budget is spent.
pub(super) struct Describer {
    budget: usize,
}

/// What is shown of attributes: values, and how they are stored.
pub(super) type ShownAttributes = (Map<String, Value>, BTreeMap<String, AttributeType>);

impl Describer {
    pub(super) fn new() -> Self {
        Describer { budget: BUDGET }
    }

    /// Attributes by their names; of two with one name, the first.
    pub(super) fn attributes<'a>(
        &mut self,
        attributes: impl Iterator<Item = &'a Attribute>,
    ) -> ShownAttributes {
        let (mut shown, mut types) = (Map::new(), BTreeMap::new());
        for attribute in attributes {
            let name = names::escape(without_nuls(&attribute.name));
            if shown.contains_key(&name) {
                continue;
            }
            let (value, stored) = self.attribute(attribute);
            types.extend(stored.map(|stored| (name.clone(), stored)));
            shown.insert(name, value);
        }
        (shown, types)
    }

    fn attribute(&mut self, attribute: &Attribute) -> (Value, Option<AttributeType>) {
        let cost = cost(attribute);
        if let (true, Some(left)) = (is_short(attribute), self.budget.checked_sub(cost)) {
            self.budget = left;
            let value = value(attribute);
            let exact = is_exact(attribute, &value);
            let stored = (!exact).then(|| hexadecimal(&attribute.raw));
            let is_told = exact && is_obvious(attribute.kind, &value);
            return (
                value,
                (!is_told).then(|| stored_as(attribute, stored, None)),
            );
        }
        let why = format!("{} elements", elements(attribute));
        let value = json!({ "omitted": why });
        (value, Some(stored_as(attribute, None, Some(why))))
    }

    /// How a variable is stored, and its attributes.
    pub(super) fn variable(
        &mut self,
        variable: &Variable,
        (kind, header): (ElementKind, &ClassicHeader),
    ) -> (Map<String, Value>, ArrayDetails) {
        let name = |&id: &u64| {
            let id = usize::try_from(id).ok()?;
            Some(names::escape(&header.dimensions.get(id)?.name))
        };
        let (shown, attribute_types) = self.attributes(variable.attributes.iter());
        let details = ArrayDetails {
            dims: variable.dimensions.iter().map(name).collect(),
            stored_type: Some(StoredType::named(kind.name())),
            attribute_types,
            ..ArrayDetails::default()
        };
        (shown, details)
    }
}

/// The dimensions of a file, by their names.
pub(super) fn dimensions(header: &ClassicHeader) -> BTreeMap<String, DimensionDetails> {
    let records = header.records.unwrap_or(0);
    let dimensions = (0..).zip(&header.dimensions).map(|(id, dimension)| {
        let unlimited = dimension.len == 0;
        let details = DimensionDetails {
            length: if unlimited { records } else { dimension.len },
            unlimited,
            id: Some(id),
        };
        (names::escape(&dimension.name), details)
    });
    dimensions.collect()
}

/// Most memory that what is described of a file takes.
pub(super) fn room(header: &ClassicHeader) -> u64 {
    let attributes = header.variables.iter().flat_map(|own| &own.attributes);
    let attributes = attributes.chain(&header.attributes);
    let values = attributes.clone().map(cost).fold(0, usize::saturating_add);
    let names = attributes.map(|own| ATTRIBUTE + 6 * own.name.len());
    let dims = header.variables.iter().flat_map(|own| &own.dimensions);
    let name = |id: &u64| header.dimensions.get(usize::try_from(*id).ok()?);
    let dims = dims.filter_map(name).chain(&header.dimensions);
    let dims = dims.map(|dimension| 128 + 6 * dimension.name.len());
    let others = names.chain(dims).fold(0, usize::saturating_add);
    values.min(BUDGET).saturating_add(others) as u64
}

/// Memory that an attribute takes as a value, and its bytes in digits.
fn cost(attribute: &Attribute) -> usize {
    let each = match attribute.kind {
        ElementKind::Char => 3,
        _ => size_of::<Value>() + 32,
    };
    let values = elements(attribute).saturating_mul(each);
    values.saturating_add(2 * attribute.raw.len())
}

fn elements(attribute: &Attribute) -> usize {
    attribute.raw.len() / attribute.kind.size()
}

fn is_short(attribute: &Attribute) -> bool {
    let most = match attribute.kind {
        ElementKind::Char => TEXT,
        _ => NUMBERS,
    };
    elements(attribute) <= most
}

fn stored_as(
    attribute: &Attribute,
    stored: Option<String>,
    omitted: Option<String>,
) -> AttributeType {
    AttributeType {
        stored_type: StoredType::named(attribute.kind.name()),
        shape: None,
        space: None,
        stored: stored.map(String::into_boxed_str),
        omitted: omitted.map(String::into_boxed_str),
    }
}

/// Whether a value of JSON is of this type by itself.
fn is_obvious(kind: ElementKind, value: &Value) -> bool {
    match (kind, value) {
        (ElementKind::Char, value) => value.is_string(),
        (ElementKind::Int, Value::Number(_)) | (ElementKind::Double, Value::Number(_)) => true,
        (_, Value::Array(items)) => {
            !items.is_empty() && items.iter().all(|item| is_obvious(kind, item))
        }
        _ => false,
    }
}

/// Whether the value tells the stored bytes.
fn is_exact(attribute: &Attribute, value: &Value) -> bool {
    match attribute.kind {
        ElementKind::Char => value
            .as_str()
            .is_some_and(|text| text.as_bytes() == attribute.raw),
        // All NaNs are spelled alike.
        ElementKind::Float | ElementKind::Double => {
            let is_nan = |value: &Value| value.as_str() == Some("NaN");
            !is_nan(value)
                && !value
                    .as_array()
                    .is_some_and(|items| items.iter().any(is_nan))
        }
        _ => true,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(attribute: &Attribute) -> Value {
    if attribute.kind == ElementKind::Char {
        return text(&attribute.raw).into();
    }
    let mut raw = attribute.raw.clone();
    swap::elements(&mut raw, attribute.kind.size());
    let mut numbers: Vec<Value> = raw
        .chunks_exact(attribute.kind.size())
        .map(|element| number(attribute.kind, element))
        .collect();
    match numbers.len() {
        1 => numbers.remove(0),
        _ => numbers.into(),
    }
}

/// A little-endian element.
fn number(kind: ElementKind, element: &[u8]) -> Value {
    let mut raw = [0; 8];
    raw[..element.len()].copy_from_slice(element);
    let bits = u64::from_le_bytes(raw);
    match kind {
        ElementKind::Byte => (bits as i8).into(),
        ElementKind::Short => (bits as i16).into(),
        ElementKind::Int => (bits as i32).into(),
        ElementKind::Int64 => (bits as i64).into(),
        ElementKind::Float => float(f32::from_bits(bits as u32)),
        ElementKind::Double => float(f64::from_bits(bits)),
        _ => bits.into(),
    }
}

/// In the shortest spelling of its own precision; what JSON has no number for as text.
fn float(number: impl std::fmt::Display) -> Value {
    let spelled = number.to_string();
    let parsed = spelled.parse().ok().and_then(serde_json::Number::from_f64);
    parsed.map_or(Value::String(spelled), Value::Number)
}

/// Text without the NULs that end it in some files.
fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(without_nuls(raw)).into_owned()
}

fn without_nuls(raw: &[u8]) -> &[u8] {
    let last = raw.iter().rposition(|&byte| byte != 0);
    &raw[..last.map_or(0, |at| at + 1)]
}
