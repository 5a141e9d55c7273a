//! New NetCDF files: of the classic kinds if the description is of such a file, else NetCDF-4.
//!
//! [`plan`]: the file that described arrays make up, by [`dimensions`] and [`attributes`];
//! [`encode`]: its header. One without anything in it is classic, whatever becomes of it: the least
//! that is a NetCDF file. Used by [`crate::container::creation`].

mod attributes;
mod dimensions;
mod encode;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use super::NetCdf;
use super::describe::CLASSIC;
use crate::container::creation::{
    Creation, GivenContent, GivenDescription, GivenType, PackingRule,
};
use crate::container::hdf5::NETCDF4;
use crate::container::own_lengths::ArrayLengths;
use crate::container::writable::Recipe;
use crate::container::{Format, Preferences};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use plan::NewClassic;

/// What a description can say of a variable.
const OF_CLASSIC: &[&str] = &["dims", "type", "attribute_types"];

impl Creation for NetCdf {
    fn has_array(&self, path: &str) -> bool {
        NETCDF4.has_array(path)
    }

    fn is_derived(&self, path: &str) -> bool {
        NETCDF4.is_derived(path)
    }

    fn has_group(&self, path: &str) -> bool {
        NETCDF4.has_group(path)
    }

    fn has_links(&self) -> bool {
        true
    }

    fn packing(&self) -> PackingRule {
        PackingRule::AsDescribed
    }

    fn takes_later(&self) -> bool {
        true
    }

    fn accepts(&self, description: &GivenDescription) -> Result<()> {
        match is_classic(description) {
            true => {
                NewClassic::described(description, &[], None)?;
                description.check_keys("a classic NetCDF file", OF_CLASSIC, Some(&["none"]))
            }
            false => NETCDF4.accepts(description),
        }
    }

    fn typed(
        &self,
        description: Option<GivenDescription>,
        path: &str,
        to: &GivenType,
        bytes: u64,
    ) -> Result<GivenDescription> {
        let is_classic = description.as_ref().is_some_and(is_classic);
        match is_classic {
            true => description.unwrap_or_default().with_type(path, to, bytes),
            false => NETCDF4.typed(description, path, to, bytes),
        }
    }

    fn own_lengths(&self, content: &GivenContent) -> Result<ArrayLengths> {
        match &content.description {
            Some(description) if is_classic(description) => {
                let new = NewClassic::described(description, &content.arrays, None)?;
                Ok(new.own_lengths())
            }
            _ => Ok(ArrayLengths::new()),
        }
    }

    fn recipe(
        &self,
        content: &GivenContent,
        preferences: Preferences,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<Vec<String>> {
        let nothing = GivenDescription::default();
        let description = match &content.description {
            Some(description) if is_classic(description) => description,
            None if is_empty(content) => &nothing,
            _ => return NETCDF4.recipe(content, preferences, budget, write),
        };
        if !content.groups.is_empty() || !content.links.is_empty() {
            let why = "a classic NetCDF file has no groups: arrays.json says that it is one";
            return Err(Error::Invalid(why.into()));
        }
        let descriptor = content.descriptors.get("").map(|text| &**text);
        let new = NewClassic::described(description, &content.arrays, descriptor)?;
        if let Some(text) = descriptor {
            new.check(text, budget)?;
        }
        new.tell(budget, write)?;
        Ok(new.not_kept)
    }
}

fn is_empty(content: &GivenContent) -> bool {
    content.arrays.is_empty() && content.groups.is_empty() && content.descriptors.is_empty()
}

/// Whether a file is described that is not HDF5: by its format, or by what is said of a classic
/// file that is a Binsparse container.
fn is_classic(description: &GivenDescription) -> bool {
    let of_type = |value: &Value| value.as_str().is_some_and(|name| name.starts_with("NC_"));
    let mut types = description
        .arrays
        .iter()
        .filter_map(|array| array.more.get("type"));
    let is_said = description.format.as_deref() == Some(NetCdf.name());
    is_said || description.more.contains_key(CLASSIC) || types.any(of_type)
}
