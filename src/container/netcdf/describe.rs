//! Attributes and dimensions as JSON, for `arrays.json`: bounded, whatever the file holds.
//!
//! Used by `super`.

use serde_json::{Map, Value, json};

use super::header::{Attribute, ClassicHeader, Variable};
use super::kind::ElementKind;
use super::swap;

/// Longest text, and most numbers of a list, that are shown.
const TEXT: usize = 4 << 10;
const NUMBERS: usize = 256;

/// Most bytes of values that are shown of one file; the rest are named only.
const BUDGET: usize = 256 << 10;

/// Most memory that all of it takes as JSON: a number of one byte becomes a value.
pub(super) const MOST: u64 = 96 * BUDGET as u64;

/// Turns attributes into JSON until the budget is spent.
pub(super) struct Describer {
    budget: usize,
}

impl Describer {
    pub(super) fn new() -> Self {
        Describer { budget: BUDGET }
    }

    /// Attributes by their names; of two with one name, the first.
    pub(super) fn attributes<'a>(
        &mut self,
        attributes: impl Iterator<Item = &'a Attribute>,
    ) -> Map<String, Value> {
        let mut shown = Map::new();
        for attribute in attributes {
            let cost = attribute.name.len() + attribute.raw.len().min(TEXT) + 16;
            let Some(left) = self.budget.checked_sub(cost) else {
                break;
            };
            self.budget = left;
            let name = text(&attribute.name);
            shown.entry(name).or_insert_with(|| value(attribute));
        }
        shown
    }

    /// Dimensions and attributes of a variable.
    pub(super) fn variable(
        &mut self,
        variable: &Variable,
        header: &ClassicHeader,
    ) -> Map<String, Value> {
        let mut shown = Map::new();
        let name = |&id: &u64| {
            let id = usize::try_from(id).ok()?;
            Some(text(&header.dimensions.get(id)?.name))
        };
        let names: Option<Vec<String>> = variable.dimensions.iter().map(name).collect();
        let names = names.unwrap_or_default();
        let cost = names.iter().map(|name| name.len() + 4).sum();
        if let Some(left) = self.budget.checked_sub(cost) {
            self.budget = left;
            shown.insert("dimensions".into(), names.into());
        }
        for (name, value) in self.attributes(variable.attributes.iter()) {
            shown.entry(name).or_insert(value);
        }
        shown
    }
}

fn value(attribute: &Attribute) -> Value {
    let elements = attribute.raw.len() / attribute.kind.size();
    let most = match attribute.kind {
        ElementKind::Char => TEXT,
        _ => NUMBERS,
    };
    if elements > most {
        return json!({ "omitted": format!("{elements} elements") });
    }
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
    let end = raw
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |at| at + 1);
    String::from_utf8_lossy(&raw[..end]).into_owned()
}
