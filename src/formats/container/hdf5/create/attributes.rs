//! Attributes as they are made: of values, and of what is said of their types. Used by
//! [`super::objects`].

use serde_json::{Map, Value, json};

use super::maker::{IfRefused, Maker};
use super::types::{self, of_value};
use crate::container::hdf5::made::{MadeAttribute, MadeValue, MakeStep, bytes_of};
use crate::container::names::unescaped;
use crate::container::stored::{Padding, StoredType};
use crate::error::Result;

/// The attributes of an object: of what is shown as `name` and stored at `path`.
pub(super) struct GivenAttributes<'a> {
    pub(super) name: &'a str,
    pub(super) path: &'a [u8],
    pub(super) values: &'a Map<String, Value>,
    /// `attribute_types` of the description.
    pub(super) types: Option<&'a Value>,
    /// This one is made of another text.
    pub(super) except: Option<&'static str>,
}

impl GivenAttributes<'_> {
    pub(super) fn make(&self, maker: &mut Maker<'_>) -> Result<()> {
        for (attribute, value) in self.values {
            if self.except.is_some_and(|except| attribute == except) {
                continue;
            }
            let about = format!("{}: attribute {attribute}", shown(self.name));
            match self.made(attribute, value) {
                Ok(made) => {
                    let bytes = made.element.weight() + len(&made.value);
                    maker.add(MakeStep::Attribute(made), (about, IfRefused::Lost), bytes)?;
                }
                Err(why) => maker.lose(format!("{about}: {why}")),
            }
        }
        Ok(())
    }

    fn made(&self, attribute: &str, value: &Value) -> std::result::Result<MadeAttribute, String> {
        let stated = self.types.and_then(|types| types.get(attribute));
        let (element, dims, value) = match stated {
            Some(stated) => typed(stated, value)?,
            None => {
                let (element, dims) = of_value(value).ok_or("its type is not said")?;
                (element, Some(dims), MadeValue::Shown(value.to_string()))
            }
        };
        Ok(MadeAttribute {
            of: self.path.to_vec(),
            name: unescaped(attribute),
            element,
            dims,
            value,
        })
    }
}

/// The root is the file itself.
pub(super) fn shown(name: &str) -> &str {
    if name.is_empty() { "the file" } else { name }
}

fn len(value: &MadeValue) -> usize {
    match value {
        MadeValue::Shown(text) => text.len(),
        MadeValue::Stored(bytes) => bytes.len(),
    }
}

/// The text that makes a group a container, in the type that is told of it if that has room for it.
pub(super) fn container_text(
    (of, name): (Vec<u8>, &str),
    text: &str,
    stated: Option<&Value>,
) -> MadeAttribute {
    let usual = (StoredType::TEXT, None);
    let (element, dims) = stated
        .and_then(|stated| text_like(stated, text))
        .unwrap_or(usual);
    let value = match dims {
        Some(_) => Value::from(vec![text]),
        None => Value::from(text),
    };
    MadeAttribute {
        of,
        name: name.into(),
        element,
        dims: Some(dims.unwrap_or_default()),
        value: MadeValue::Shown(value.to_string()),
    }
}

/// A type of strings, and the shape of one of them that is no scalar.
fn text_like(stated: &Value, text: &str) -> Option<(StoredType, Option<Vec<u64>>)> {
    let mut element = types::read(stated.get("type")).ok()?;
    let StoredType::Text { size, padding, .. } = &mut element else {
        return None;
    };
    let end = u64::from(*padding == Padding::Terminated);
    let len = text.len() as u64;
    *size = size.map(|size| match size < len {
        true => len.saturating_add(end),
        false => size,
    });
    let is_list = stated
        .get("shape")
        .is_some_and(|shape| *shape == json!([1]));
    Some((element, is_list.then(|| vec![1])))
}

type Typed = (StoredType, Option<Vec<u64>>, MadeValue);

fn typed(stated: &Value, value: &Value) -> std::result::Result<Typed, String> {
    let stored = stated.get("stored").and_then(Value::as_str);
    if let (Some(why), None) = (stated.get("omitted").and_then(Value::as_str), stored) {
        return Err(why.to_owned());
    }
    let element = types::read(stated.get("type"))?;
    let dims = match stated.get("shape").and_then(Value::as_array) {
        _ if stated.get("space").is_some_and(|space| space == "null") => None,
        None => Some(Vec::new()),
        Some(list) => {
            let dims: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
            Some(dims.ok_or("its shape is none")?)
        }
    };
    let value = match stored {
        Some(digits) => MadeValue::Stored(bytes_of(digits).ok_or("its stored bytes are none")?),
        None => MadeValue::Shown(value.to_string()),
    };
    Ok((element, dims, value))
}
