//! The JSON descriptor: what it says, in whatever spelling, and which of its own rules it breaks.
//!
//! Specification, section 3, and what writers do beside it: no outer `binsparse` key, no version or
//! a number, `nnz` for `number_of_stored_values` or neither, numbers as floats, no `format` beside
//! `custom` or both. A part that breaks a rule is left out and reported; the rest is still used.
//! Used by `super` and `lengths`.

use serde_json::{Map, Value};

use super::TEXT;
use super::declared::Types;
use super::json::{self, Read};
use super::levels::{LevelLayout, MOST_DIMENSIONS};
use super::triangle::Structure;
use crate::error::Fault;

/// Keys of the namespace that are understood, under the names by which `arrays.json` shows them.
const KNOWN: [&str; 9] = [
    "version",
    "format",
    "shape",
    "number_of_stored_values",
    "nnz",
    "data_types",
    "fill",
    "structure",
    "custom",
];

/// Descriptors up to this size have their other keys shown in `arrays.json`, too.
const SHOWN: usize = 64 << 10;

/// What could be read; a part is missing where a fault was reported, or nothing need be said.
pub(super) struct Descriptor {
    pub(super) version: String,
    pub(super) format: Option<String>,
    pub(super) layout: Option<LevelLayout>,
    pub(super) shape: Option<Vec<u64>>,
    /// The number of stored values.
    pub(super) count: Option<u64>,
    pub(super) types: Option<Types>,
    pub(super) fill: Option<bool>,
    pub(super) structure: Option<Structure>,
    /// User keys: those beside the namespace, and unknown ones within.
    pub(super) others: Map<String, Value>,
}

/// Reads a descriptor; none if it is no JSON object with the right things in it.
pub(super) fn parse(text: &[u8]) -> (Option<Descriptor>, Vec<Fault>) {
    let mut faults = Faults(Vec::new());
    let descriptor = namespace(text)
        .map_err(|fault| faults.add(*fault))
        .ok()
        .map(|(namespace, mut others)| {
            let mut descriptor = read(&namespace, &mut faults);
            let unknown = namespace
                .into_iter()
                .filter(|(key, _)| !KNOWN.contains(&&**key));
            if text.len() <= SHOWN {
                others.extend(unknown);
                others.retain(|key, _| !KNOWN.contains(&&**key));
                descriptor.others = others;
            }
            descriptor
        });
    (descriptor, faults.0)
}

type Object = Map<String, Value>;

/// Faults of the descriptor.
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, fault: Fault) {
        self.0.push(fault.file(TEXT));
    }

    /// The value, or nothing and a fault.
    fn take<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|fault| self.add(*fault)).ok()
    }
}

/// The object of the namespace, and what stands beside it.
fn namespace(text: &[u8]) -> Read<(Object, Object)> {
    let invalid = |why| Fault::new(format!("the descriptor is not valid JSON: {why}"));
    let mut outer = match json::parse(text).map_err(invalid)? {
        Value::Object(outer) => outer,
        other => {
            let fault = Fault::new("the descriptor is not a JSON object");
            return Err(fault.found(json::show(&other)).into());
        }
    };
    match outer.shift_remove("binsparse") {
        Some(Value::Object(namespace)) => Ok((namespace, outer)),
        Some(other) => Err(Fault::new("\"binsparse\" is not an object")
            .found(json::show(&other))
            .into()),
        None if ["shape", "data_types"]
            .iter()
            .all(|key| outer.contains_key(*key)) =>
        {
            Ok((outer, Map::new()))
        }
        None => Err(Fault::new("the descriptor has no object \"binsparse\"").into()),
    }
}

fn read(namespace: &Map<String, Value>, faults: &mut Faults) -> Descriptor {
    let version = faults.take(version(namespace)).unwrap_or_default();
    let shape = faults.take(shape(namespace));
    let rank = shape.as_ref().map(Vec::len);
    let format = format(namespace, faults);
    let layout = layout(namespace, format.as_deref(), rank, faults);
    let types = faults.take(types(namespace));
    let structure = faults.take(structure(namespace)).flatten();
    if let (Some(_), Some(shape)) = (&structure, &shape)
        && !matches!(shape[..], [rows, columns] if rows == columns)
    {
        let fault = Fault::new("only a square matrix can have a structure");
        faults.add(fault.found(format!("shape {shape:?}")));
    }
    Descriptor {
        version,
        format,
        layout,
        shape,
        count: faults.take(count(namespace)).flatten(),
        types,
        fill: faults.take(fill(namespace)).flatten(),
        structure,
        others: Map::new(),
    }
}

/// Any 0.x, as a string or a number; an absent one is empty.
fn version(namespace: &Map<String, Value>) -> Read<String> {
    let spelled = match namespace.get("version") {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        Some(other) => other.to_string(),
    };
    let major = spelled
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major == Some(0) && spelled.len() < 64 {
        return Ok(spelled);
    }
    let fault = Fault::new("this version of Binsparse is not known");
    Err(fault.expected("0.1").found(json::clip(&spelled)).into())
}

fn shape(namespace: &Map<String, Value>) -> Read<Vec<u64>> {
    let missing = || Fault::new("\"shape\" is missing");
    let value = namespace.get("shape").ok_or_else(missing)?;
    let fault = || Fault::new("\"shape\" is not a list of whole numbers");
    let list = value
        .as_array()
        .ok_or_else(|| fault().found(json::show(value)))?;
    if list.len() > MOST_DIMENSIONS {
        let fault = Fault::new("\"shape\" has too many dimensions");
        let expected = format!("at most {MOST_DIMENSIONS}");
        return Err(fault.expected(expected).found(list.len()).into());
    }
    let wrong = |value| Box::new(fault().found(json::show(value)));
    let number = |value| json::whole(value).ok_or_else(|| wrong(value));
    list.iter().map(number).collect()
}

/// The name of the format; `custom` may go without it.
fn format(namespace: &Map<String, Value>, faults: &mut Faults) -> Option<String> {
    let fault = match namespace.get("format") {
        Some(Value::String(name))
            if name == "custom" || LevelLayout::predefined(name).is_some() =>
        {
            return Some(name.clone());
        }
        None | Some(Value::Null) if namespace.contains_key("custom") => {
            return Some("custom".into());
        }
        None | Some(Value::Null) => Fault::new("\"format\" is missing"),
        Some(other) => Fault::new("the format is unknown").found(json::show(other)),
    };
    faults.add(fault);
    None
}

fn layout(
    namespace: &Map<String, Value>,
    format: Option<&str>,
    rank: Option<usize>,
    faults: &mut Faults,
) -> Option<LevelLayout> {
    let format = format?;
    let Some(predefined) = LevelLayout::predefined(format) else {
        let missing = || Fault::new("the format is custom, but \"custom\" is missing");
        let custom = namespace.get("custom").ok_or_else(|| Box::new(missing()));
        return faults.take(custom.and_then(|custom| LevelLayout::custom(custom, rank)));
    };
    let dimensions = predefined.transpose.len();
    if let Some(rank) = rank.filter(|&rank| rank != dimensions) {
        let fault = Fault::new(format!(
            "\"shape\" has another number of dimensions than {format}"
        ));
        faults.add(fault.expected(dimensions).found(rank));
        return None;
    }
    if let Some(custom) = namespace.get("custom").filter(|custom| !custom.is_null())
        && let Some(custom) = faults.take(LevelLayout::custom(custom, rank))
        && !custom.agrees(&predefined)
    {
        faults.add(Fault::new(format!(
            "\"custom\" describes another format than {format}"
        )));
    }
    Some(predefined)
}

fn count(namespace: &Map<String, Value>) -> Read<Option<u64>> {
    let named = |key| namespace.get(key).map(|value| (key, value));
    // The C reference wrote `nnz` until 2024; binsparse-python writes neither.
    let Some((key, value)) = named("number_of_stored_values").or_else(|| named("nnz")) else {
        return Ok(None);
    };
    let wrong = || Fault::new(format!("\"{key}\" is not a whole number")).found(json::show(value));
    Ok(Some(json::whole(value).ok_or_else(wrong)?))
}

fn types(namespace: &Map<String, Value>) -> Read<Types> {
    match namespace.get("data_types") {
        Some(Value::Object(types)) => Ok(Types(types.clone())),
        Some(other) => Err(Fault::new("\"data_types\" is not an object")
            .found(json::show(other))
            .into()),
        None => Err(Fault::new("\"data_types\" is missing").into()),
    }
}

fn fill(namespace: &Map<String, Value>) -> Read<Option<bool>> {
    match namespace.get("fill") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(fill)) => Ok(Some(*fill)),
        Some(other) => Err(Fault::new("\"fill\" is not true or false")
            .found(json::show(other))
            .into()),
    }
}

fn structure(namespace: &Map<String, Value>) -> Read<Option<Structure>> {
    match namespace.get("structure") {
        None | Some(Value::Null) => Ok(None),
        // No value of the specification, but what some writers say for none.
        Some(Value::String(name)) if name == "general" => Ok(None),
        Some(value) => {
            let unknown = || Fault::new("the structure is unknown").found(json::show(value));
            let known = value.as_str().and_then(Structure::parse);
            Ok(Some(known.ok_or_else(unknown)?))
        }
    }
}
