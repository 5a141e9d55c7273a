//! Binsparse: a JSON descriptor that says how named arrays make up a sparse matrix, vector or
//! tensor.
//!
//! The arrays are members of one group of an HDF5 or NetCDF file; this module is given only their
//! names, types and lengths, not where they lie. [`examine`] checks the descriptor against them
//! (opening a container), the [`Check`] that it returns streams over the indices (`verify`). Every
//! rule of the specification 0.1 is checked, and every spelling of the descriptor that known
//! writers use is accepted.
//!
//! What describes: [`descriptor`] reads the JSON ([`json`], [`declared`] types, [`triangle`]
//! structures), [`levels`] turns formats into levels, from which all rules follow. What checks:
//! [`lengths`] the arrays when a container is opened, [`check`] their elements. [`follow`] says
//! what becomes of a descriptor whose arrays change, [`changed`] whether changed arrays agree,
//! [`given`] checks arrays that are none of a file yet, and [`text`] lets a descriptor be written.
//! What recognises and reads is the format around it: `container::hdf5` and `container::netcdf` use
//! this one.

mod changed;
mod check;
mod declared;
mod descriptor;
mod follow;
mod given;
mod json;
mod lengths;
mod levels;
#[cfg(test)]
mod sample;
mod text;
mod triangle;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Check, Container, Text};
use crate::array::Array;
use crate::container::describe::value_room;
use crate::error::{Error, Fault, Result};
use crate::memory::set_aside;
pub(crate) use changed::SparseArrays;
use descriptor::Descriptor;
pub(crate) use given::GivenMembers;
pub(crate) use json::{LONGEST, ends_early};
pub(crate) use text::DescriptorText;

/// Name of the attribute, or string dataset, that holds the descriptor.
pub(crate) const DESCRIPTOR: &str = "binsparse";

/// Name of the format in `arrays.json`.
pub(crate) const NAME: &str = "binsparse";

/// Name under which the descriptor is shown.
pub(crate) const TEXT: &str = "binsparse.json";

/// What the rules for one array take in memory.
const MEMBER: u64 = 1 << 10;

/// What a group holds under a name.
pub(crate) struct Member {
    /// Shown name within the group; faults name arrays by it.
    pub(crate) name: String,
    /// The array, or why it cannot be read: "an external link to other.h5:/x; never followed".
    pub(crate) array: std::result::Result<Arc<dyn Array>, String>,
}

/// What a descriptor says about the arrays beside it.
pub(crate) struct Examined {
    /// Version of the specification as the descriptor spells it; empty if it does not.
    pub(crate) version: String,
    /// Rules broken by the descriptor, or by lengths and types of the arrays.
    pub(crate) faults: Vec<Fault>,
    /// Some of them are no matter of lengths: other elements in the arrays would not help.
    pub(crate) misfits: bool,
    /// Checks the elements of all index and pointer arrays that are what they should be so far.
    pub(crate) check: Option<Arc<dyn Check>>,
    /// For `arrays.json`: format, shape, number_of_stored_values, data_types and what else there
    /// is.
    pub(crate) attributes: Map<String, Value>,
}

impl Examined {
    /// Makes a container, which has the arrays, one of Binsparse; `text` is its descriptor.
    pub(crate) fn put_into(self, container: &mut Container, text: Arc<Vec<u8>>) {
        container.version = self.version;
        container.faults.extend(self.faults);
        container.checks.extend(self.check);
        container.attributes.extend(self.attributes);
        container.texts.push(Text {
            name: TEXT.into(),
            content: text,
        });
    }
}

/// Checks the descriptor and the lengths and types of the arrays; reads no elements. An error means
/// that the source could not be read.
pub(crate) fn examine(text: &[u8], members: &[Member]) -> Result<Examined> {
    set_aside(room(text, members), "cannot read a descriptor", || {
        examine_parsed(text, members)
    })?
}

fn room(text: &[u8], members: &[Member]) -> u64 {
    value_room(text).saturating_add(MEMBER.saturating_mul(members.len() as u64))
}

/// The descriptor as it has to be for arrays of other lengths; none if it is right already, or they
/// do not tell.
pub(crate) fn followed(text: &[u8], members: &[Member]) -> Result<Option<Vec<u8>>> {
    let room = room(text, members).saturating_add(2 * text.len() as u64);
    set_aside(
        room,
        "cannot read a descriptor",
        || match descriptor::parse(text).0 {
            Some(descriptor) => follow::followed(text, &descriptor, members),
            None => Ok(None),
        },
    )?
}

/// The types that a descriptor declares, by the names of arrays and as NumPy names them.
pub(crate) fn declared_types(text: &[u8]) -> Result<BTreeMap<String, &'static str>> {
    set_aside(value_room(text), "cannot read a descriptor", || {
        let types = descriptor::parse(text).0.and_then(|parsed| parsed.types);
        let Some(types) = types else {
            return BTreeMap::new();
        };
        let names = types.0.keys();
        let typed = names.filter_map(|name| Some((name.clone(), types.get(name)?.ok()?.stored())));
        typed.collect()
    })
}

/// Rules for compressed rows or columns that are no container of their own: pointers rise from 0 to
/// the number of indices, which are less than `extent`, in any order.
pub(crate) fn compressed(
    pointers: &Arc<dyn Array>,
    indices: &Arc<dyn Array>,
    extent: u64,
) -> Result<Arc<dyn Check>> {
    let integers = |array: &Arc<dyn Array>| {
        let len = array.info()?.shape.first().copied().unwrap_or(0);
        Ok::<_, Error>(lengths::IntegerArray {
            name: array.name().to_owned(),
            array: Arc::clone(array),
            len,
        })
    };
    Ok(check::check(vec![lengths::SparseLevel {
        pointers: Some(integers(pointers)?),
        indices: vec![integers(indices)?],
        extents: vec![extent],
        no_empty_slices: false,
        in_order: false,
        side: None,
    }]))
}

fn examine_parsed(text: &[u8], members: &[Member]) -> Result<Examined> {
    let (descriptor, mut faults) = descriptor::parse(text);
    let Some(descriptor) = descriptor else {
        return Ok(Examined {
            version: String::new(),
            faults,
            misfits: true,
            check: None,
            attributes: Map::new(),
        });
    };
    let broken = !faults.is_empty();
    let found = lengths::examine(&descriptor, members, &mut faults)?;
    let attributes = attributes(&descriptor, found.count);
    let check = (!found.levels.is_empty()).then(|| check::check(found.levels));
    Ok(Examined {
        version: descriptor.version,
        faults,
        misfits: broken || found.misfits,
        check,
        attributes,
    })
}

fn attributes(descriptor: &Descriptor, count: Option<u64>) -> Map<String, Value> {
    let mut attributes = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            attributes.insert(name.to_owned(), value);
        }
    };
    add("format", descriptor.format.clone().map(Value::from));
    add("shape", descriptor.shape.clone().map(Value::from));
    if let Some(layout) = &descriptor.layout {
        add("transpose", layout.transpose_to_show().map(Value::from));
        add("levels", layout.levels_to_show().map(Value::from));
    }
    add("number_of_stored_values", count.map(Value::from));
    add("data_types", descriptor.types.as_ref().map(|t| t.to_show()));
    add("fill", descriptor.fill.map(Value::from));
    let structure = descriptor.structure.as_ref().map(|s| s.name());
    add("structure", structure.map(Value::from));
    attributes.extend(descriptor.others.clone());
    attributes
}

/// Whether an array of this name can be one that a descriptor tells of.
pub(crate) fn is_member(name: &str) -> bool {
    let numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix)?.parse::<u16>().ok()?;
        // One spelling only: no sign, no leading zeros.
        (format!("{prefix}{number}") == name).then_some(())
    };
    matches!(name, "values" | "fill_value")
        || numbered("indices_").is_some()
        || numbered("pointers_to_").is_some()
}

#[cfg(test)]
mod tests;
