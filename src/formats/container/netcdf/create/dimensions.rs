//! The dimensions of a new classic file: those that are described, and those that arrays need
//! beside them.
//!
//! A dimension has the length that all its variables agree on; the unlimited one is only ever a
//! variable's first. A dimension of an array without a name is the array's alone. Used by
//! [`super::plan`].

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::header::Dimension;
use crate::container::creation::{GivenArray, GivenDescription};
use crate::container::names;
use crate::error::{Error, Result};

#[derive(Default)]
pub(super) struct NewDimensions {
    /// As the header has them: 0 is the unlimited one.
    pub(super) all: Vec<Dimension>,
    by_name: HashMap<String, usize>,
    /// What is said of the number of records.
    pub(super) records_said: u64,
}

impl NewDimensions {
    pub(super) fn described(description: &GivenDescription) -> Result<NewDimensions> {
        let said = description
            .more
            .get("dimensions")
            .and_then(Value::as_object);
        let mut said: Vec<_> = said.into_iter().flat_map(Map::iter).collect();
        let number = |value: &Value| value.get("id").and_then(Value::as_u64);
        said.sort_by_key(|(_, value)| number(value).unwrap_or(u64::MAX));
        let mut dimensions = NewDimensions::default();
        for (name, value) in said {
            let len = value.get("length").and_then(Value::as_u64);
            let len = len.ok_or_else(|| refused(name, "has no length"))?;
            match value.get("unlimited").and_then(Value::as_bool) {
                Some(true) => {
                    dimensions.records_said = len;
                    dimensions.add(name, 0)?;
                }
                _ => drop(dimensions.add_fixed(name, len)?),
            }
        }
        let unlimited = dimensions.all.iter().filter(|one| one.len == 0).count();
        match unlimited > 1 {
            true => Err(Error::Invalid(
                "arrays.json: a classic NetCDF file has one unlimited dimension at most".into(),
            )),
            false => Ok(dimensions),
        }
    }

    /// The numbers of an array's dimensions, of these lengths.
    pub(super) fn of_array(&mut self, array: &GivenArray, shape: &[u64]) -> Result<Vec<u64>> {
        let said = array.more.get("dims").and_then(Value::as_array);
        let named = |axis: usize| said?.get(axis)?.as_str();
        let mut numbers = Vec::new();
        for (axis, len) in shape.iter().enumerate() {
            let number = match named(axis) {
                Some(name) => self.named(name, *len, (array, axis))?,
                None => {
                    let name = self.free_name(&format!("{}_{axis}", array.name));
                    self.add_fixed(&name, *len)?
                }
            };
            numbers.push(number as u64);
        }
        Ok(numbers)
    }

    pub(super) fn is_unlimited(&self, number: u64) -> bool {
        let found = usize::try_from(number).ok();
        let found = found.and_then(|number| self.all.get(number));
        found.is_some_and(|found| found.len == 0)
    }

    fn named(&mut self, name: &str, len: u64, (of, axis): (&GivenArray, usize)) -> Result<usize> {
        let Some(number) = self.by_name.get(name).copied() else {
            return self.add_fixed(name, len);
        };
        let refuse = |why: String| Err(refused(&of.name, &why));
        match self.all.get(number).map_or(0, |found| found.len) {
            0 if axis > 0 => refuse(format!("{name} is unlimited, and not its first dimension")),
            0 => Ok(number),
            own if own != len => refuse(format!("{name} has length {own}, not {len}")),
            _ => Ok(number),
        }
    }

    fn add_fixed(&mut self, name: &str, len: u64) -> Result<usize> {
        match len {
            0 => Err(refused(
                name,
                "has length 0, which in a classic NetCDF file is the unlimited one's",
            )),
            len => self.add(name, len),
        }
    }

    fn add(&mut self, name: &str, len: u64) -> Result<usize> {
        self.by_name.insert(name.to_owned(), self.all.len());
        let name = names::stored(name);
        self.all.push(Dimension { name, len });
        Ok(self.all.len() - 1)
    }

    fn free_name(&self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while self.by_name.contains_key(&name) {
            name.push('_');
        }
        name
    }
}

fn refused(name: &str, why: &str) -> Error {
    Error::Invalid(format!("arrays.json: {name} {why}"))
}
