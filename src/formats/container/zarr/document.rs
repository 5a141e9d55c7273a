//! What a document of a store says: that of an array, whichever version it has.
//!
//! Pure. [`super::version_2`] and [`super::version_3`] read documents into this; used by all that
//! reads arrays.

use serde_json::Value;

use super::element::{Kind, ZarrElement};
use super::keys::KeyEncoding;
use super::plan::DecodePlan;
use crate::array::grid::product;
use crate::error::{Error, Fault, NotShown};

/// Most dimensions that NumPy 1 has, and every reader.
const DIMENSIONS: usize = 32;

/// Why something is not read: it is broken, or whole and not known here.
#[derive(Debug)]
pub(super) enum DocumentRefusal {
    Fault(Box<Fault>),
    NotShown(String),
}

impl DocumentRefusal {
    pub(super) fn fault(what: impl Into<String>) -> DocumentRefusal {
        DocumentRefusal::Fault(Box::new(Fault::new(what)))
    }

    pub(super) fn not_shown(why: impl Into<String>) -> DocumentRefusal {
        DocumentRefusal::NotShown(why.into())
    }

    pub(super) fn expected(self, expected: impl std::fmt::Display) -> DocumentRefusal {
        self.map(|fault| fault.expected(short(&expected.to_string())))
    }

    pub(super) fn found(self, found: impl std::fmt::Display) -> DocumentRefusal {
        self.map(|fault| fault.found(short(&found.to_string())))
    }

    fn map(self, change: impl FnOnce(Fault) -> Fault) -> DocumentRefusal {
        match self {
            DocumentRefusal::Fault(fault) => DocumentRefusal::Fault(Box::new(change(*fault))),
            other => other,
        }
    }
}

impl From<DocumentRefusal> for Error {
    fn from(refusal: DocumentRefusal) -> Error {
        match refusal {
            DocumentRefusal::Fault(fault) => Error::Fault(fault),
            DocumentRefusal::NotShown(why) => NotShown::new(short(&why)).into(),
        }
    }
}

/// A line for people out of what a file says.
fn short(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// How an array is stored, and what of it is shown.
pub(super) struct ArrayDocument {
    pub(super) shape: Vec<u64>,
    pub(super) element: ZarrElement,
    /// An element as it is shown, or a text.
    pub(super) fill: Vec<u8>,
    pub(super) plan: DecodePlan,
    pub(super) keys: KeyEncoding,
    /// Names of its dimensions; none, or one for each.
    pub(super) dims: Vec<Option<String>>,
}

impl ArrayDocument {
    /// Chunks as their keys count them.
    pub(super) fn outer_chunk(&self) -> &[u64] {
        self.plan.outer_chunk()
    }

    pub(super) fn is_text(&self) -> bool {
        self.element.kind == Kind::Text
    }
}

/// A name, and what is configured beside it: a text is a name alone.
pub(super) fn named(value: &Value) -> Option<(&str, &Value)> {
    match value {
        Value::String(name) => Some((name, &Value::Null)),
        Value::Object(object) => {
            let configured = object.get("configuration").unwrap_or(&Value::Null);
            Some((object.get("name")?.as_str()?, configured))
        }
        _ => None,
    }
}

/// A part of a configuration; what is null is not there.
pub(super) fn configuration<'v>(configured: &'v Value, key: &str) -> Option<&'v Value> {
    configured.get(key).filter(|value| !value.is_null())
}

/// Lengths of dimensions.
pub(super) fn lengths(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

/// The shape of an array of this type.
pub(super) fn shape(
    value: Option<&Value>,
    element: &ZarrElement,
) -> Result<Vec<u64>, DocumentRefusal> {
    let missing = || DocumentRefusal::fault("the array has no shape");
    let value = value.ok_or_else(missing)?;
    let shape = lengths(value);
    let shape = shape
        .ok_or_else(|| DocumentRefusal::fault("the shape is no list of lengths").found(value))?;
    let size = element.size().max(1) as u64;
    // Texts of no known length are counted.
    let bytes = product(&shape, size).filter(|n| i64::try_from(*n).is_ok());
    if bytes.is_none() {
        return Err(
            DocumentRefusal::fault("the array has more bytes than there can be").found(value),
        );
    }
    match shape.len() {
        0..=DIMENSIONS => Ok(shape),
        n => Err(DocumentRefusal::not_shown(format!("{n} dimensions"))),
    }
}

/// The shape of its chunks.
pub(super) fn chunk_shape(
    value: Option<&Value>,
    shape: &[u64],
) -> Result<Vec<u64>, DocumentRefusal> {
    let missing = || DocumentRefusal::fault("the array has no shape of chunks");
    let value = value.ok_or_else(missing)?;
    let chunk = lengths(value).filter(|chunk| !chunk.contains(&0));
    let fits = chunk.filter(|chunk| chunk.len() == shape.len());
    fits.ok_or_else(|| {
        let fault = DocumentRefusal::fault("the chunks have no such shape");
        fault
            .expected(format_args!("{} lengths of 1 and more", shape.len()))
            .found(value)
    })
}
