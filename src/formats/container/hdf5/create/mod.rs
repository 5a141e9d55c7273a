//! New HDF5 and NetCDF-4 files: of raw arrays in groups, and of what an `arrays.json` says of them.
//!
//! Arrays of BPCells containers become datasets first ([`packed_groups`]); groups with a Binsparse
//! descriptor have to be what it says ([`sparse`]). Then libhdf5 makes a file in a worker that has
//! everything but the values ([`maker`], of what [`objects`] tells): groups, types, datasets,
//! attributes, scales, links, and strings of variable length, which it alone can store. Last that
//! file, which is in memory, is told as one that has been written to is ([`filled`]): values are
//! encoded by the daemon's threads through the filters of their datasets, and libhdf5 says where
//! chunks go. What cannot be kept of a file that is copied is named. Assumes a description that is
//! complete; it comes from a user and may say anything. Used by [`crate::container::creation`].

mod attributes;
mod dataset;
mod dimension_lengths;
mod dimensions;
mod filled;
mod filters;
mod maker;
mod names;
mod objects;
mod packed_groups;
mod sparse;
mod storage;
mod texts;
mod types;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::container::Preferences;
use crate::container::creation::{
    Creation, GivenArray, GivenContent, GivenDescription, GivenType, PackingRule,
};
use crate::container::writable::{MemberNumber, Recipe};
use crate::error::Result;
use crate::memory::budget::Budget;

const FILE: MemberNumber = MemberNumber::ONLY;

/// What kind of file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewFileKind {
    Hdf5,
    /// Every dimension of it has a name, and a scale.
    NetCdf4,
}

impl NewFileKind {
    /// What a description says, with what follows from it for a file of this kind.
    fn completed(self, description: &GivenDescription) -> Cow<'_, GivenDescription> {
        match self {
            NewFileKind::Hdf5 => Cow::Borrowed(description),
            NewFileKind::NetCdf4 => dimension_lengths::with_growth(description),
        }
    }
}

pub(crate) const HDF5: &dyn Creation = &NewFileKind::Hdf5;

/// The creation of files named `.nc` that are not of the classic kinds.
pub(crate) const NETCDF4: &dyn Creation = &NewFileKind::NetCdf4;

impl Creation for NewFileKind {
    fn has_array(&self, path: &str) -> bool {
        names::stored(path).is_ok()
    }

    fn has_group(&self, path: &str) -> bool {
        names::stored(path).is_ok()
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
        let description = self.completed(description);
        if *self == NewFileKind::NetCdf4 {
            dimension_lengths::check(&description)?;
        }
        let committed = description.more.get("types").and_then(Value::as_object);
        let mut by_hand = description.arrays.iter().filter(|array| !array.is_told());
        by_hand.try_for_each(|array| dataset::check(array, *self, committed))
    }

    fn typed(
        &self,
        description: Option<GivenDescription>,
        path: &str,
        to: &GivenType,
        bytes: u64,
    ) -> Result<GivenDescription> {
        // What a copied attribute says is known when there is a description.
        let said = to.dtype.as_deref().unwrap_or_default();
        match &description {
            None if bytes == 0 && needs_description(said) => Ok(GivenDescription::default()),
            _ if said == TEXT && to.shape.is_some() => {
                let shape = to.shape.clone().unwrap_or_default();
                let text = GivenArray::of_text(path, shape, bytes);
                let mut description = description.unwrap_or_default();
                description.add(vec![text]);
                Ok(description)
            }
            _ => description.unwrap_or_default().with_type(path, to, bytes),
        }
    }

    fn recipe(
        &self,
        content: &GivenContent,
        _preferences: Preferences,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<Vec<String>> {
        tell(*self, content, budget, write)
    }
}

/// The dtype of text.
const TEXT: &str = "str";

/// Whether a dtype that the mount shows does not say how elements are stored.
fn needs_description(dtype: &str) -> bool {
    dtype == TEXT || dtype.starts_with(['[', '{', '('])
}

/// Tells the file, and what of its content it does not keep.
fn tell(
    kind: NewFileKind,
    content: &GivenContent,
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<Vec<String>> {
    if objects::is_nothing(content) && kind == NewFileKind::Hdf5 {
        let empty = empty(budget)?;
        write.put(FILE, 0, empty)?;
        write.set_len(FILE, empty.len() as u64)?;
        return Ok(Vec::new());
    }
    let mut made = objects::make(kind, content, budget)?;
    let lost = std::mem::take(&mut made.lost);
    filled::tell(made, budget, write)?;
    Ok(lost)
}

/// A file without anything in it: it is asked for whenever a new container is looked at.
fn empty(budget: &Arc<Budget>) -> Result<&'static [u8]> {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    if EMPTY.get().is_none() {
        let made = objects::make(NewFileKind::Hdf5, &GivenContent::default(), budget)?;
        let _ = EMPTY.set(made.skeleton.bytes().to_vec());
    }
    Ok(EMPTY.get().map_or(&[], Vec::as_slice))
}

#[cfg(test)]
mod tests;
