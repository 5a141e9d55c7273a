//! What arrays that are described by hand say of the dimensions of a NetCDF-4 file: that they agree
//! with each other on lengths, and which of them grow with a dimension without end.
//!
//! netCDF's own library reads nothing of a variable that is longer or shorter than a dimension of
//! it. Of a file that is copied all stays as it was. Used by [`super`] and [`super::objects`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::types::{self, inner_rank, stated};
use crate::container::creation::{GivenArray, GivenDescription};
use crate::error::{Error, Result};

/// Whether arrays have the lengths of their dimensions, but for those that grow.
pub(super) fn check(description: &GivenDescription) -> Result<()> {
    let growing = growing(description);
    let mut lengths: BTreeMap<&str, u64> = described(description)
        .filter_map(|(name, said)| Some((name, said.get("length")?.as_u64()?)))
        .collect();
    for array in &description.arrays {
        for (name, len) in named(array) {
            let own = *lengths.entry(name).or_insert(len);
            if own != len && !growing.contains(name) && !array.is_told() {
                return Err(Error::Invalid(format!(
                    "arrays.json: {}: {name} has length {own}, not {len}",
                    array.name
                )));
            }
        }
    }
    Ok(())
}

/// The description in which arrays may become longer along dimensions without end, where it does
/// not say itself how long they may become.
pub(super) fn with_growth(description: &GivenDescription) -> Cow<'_, GivenDescription> {
    let growing = growing(description);
    let grows = |array: &GivenArray| named(array).any(|(name, _)| growing.contains(name));
    let lacks = |array: &GivenArray| !array.is_told() && !array.more.contains_key("maxshape");
    let mut description = Cow::Borrowed(description);
    if !description
        .arrays
        .iter()
        .any(|one| lacks(one) && grows(one))
    {
        return description;
    }
    let arrays = &mut description.to_mut().arrays;
    for array in arrays.iter_mut().filter(|one| lacks(one)) {
        let most = named(array).map(|(name, len)| match growing.contains(name) {
            true => Value::Null,
            false => len.into(),
        });
        let most: Vec<Value> = most.collect();
        if most.contains(&Value::Null) {
            array.more.insert("maxshape".into(), most.into());
        }
    }
    description
}

/// Names of the dimensions that have no end.
fn growing(description: &GivenDescription) -> BTreeSet<String> {
    let said = described(description).filter(|(_, said)| said["unlimited"] == true);
    let mut growing: BTreeSet<String> = said.map(|(name, _)| name.to_owned()).collect();
    for array in &description.arrays {
        let most = array.more.get("maxshape").and_then(Value::as_array);
        let ends = most.into_iter().flatten();
        for ((name, _), most) in named(array).zip(ends) {
            if most.is_null() {
                growing.insert(name.to_owned());
            }
        }
    }
    growing
}

fn described(description: &GivenDescription) -> impl Iterator<Item = (&str, &Value)> {
    let said = description.more.get("dimensions");
    let said = said.and_then(Value::as_object).into_iter();
    said.flat_map(Map::iter).map(|(name, said)| (&**name, said))
}

/// The dimensions of an array, if all have names: with its length along each.
fn named(array: &GivenArray) -> impl Iterator<Item = (&str, u64)> {
    let inner = types::read(stated(array)).ok();
    let inner = inner.as_ref().map_or(0, inner_rank);
    let rank = array.shape.len().saturating_sub(inner);
    let said = array.more.get("dims").and_then(Value::as_array);
    let names: Option<Vec<&str>> = said.into_iter().flatten().map(Value::as_str).collect();
    let names = names.filter(|names| names.len() == rank);
    let lengths = array.shape[..rank].iter().copied();
    names.unwrap_or_default().into_iter().zip(lengths)
}
