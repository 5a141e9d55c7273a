//! Making new containers: how the files of a container come about that is not there yet.
//!
//! A format that can make containers has a [`Creation`]. It is given the arrays, as raw bytes, and
//! perhaps the `arrays.json` of the container that they were copied from, and tells a [`Recipe`] of
//! new bytes alone. A new container without anything in it is told in the same way, of no arrays.
//! Used by `live` and `tree`; a command that packs a directory without a mount could use it as
//! well.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::describe::value_room;
use super::rewrite::{MemberNumber, Recipe};
use super::{FORMATS, Format};
use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::set_aside;
use crate::source::Source;

/// Longest `arrays.json` that is read.
pub const LONGEST_DESCRIPTION: u64 = 1 << 20;

/// A format of which new containers can be made.
pub trait Creation: Send + Sync {
    /// Names of the files of a container that is a directory.
    fn members(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a container can have an array of this name.
    fn has_array(&self, name: &OsStr) -> bool;

    /// Whether an array of this name follows from the others: it may be given, and is dropped.
    fn is_derived(&self, _name: &OsStr) -> bool {
        false
    }

    /// How a file of this name and with these first bytes lies in a directory that may become a
    /// container; none if that cannot be found out, or it is none of the container's.
    fn form_of(&self, _name: &OsStr, _head: &[u8]) -> Option<FileForm> {
        None
    }

    /// Whether a container can be as it is described, whatever its arrays hold; EINVAL if not.
    fn accepts(&self, description: &GivenDescription) -> Result<()>;

    /// The description with another type for its array of so many bytes; none was given if there is
    /// none. EINVAL if that does not fit, or the format fixes the type of its arrays.
    fn typed(
        &self,
        _description: Option<GivenDescription>,
        _to: &GivenType,
        _bytes: u64,
    ) -> Result<GivenDescription> {
        Err(Error::Invalid(NOT_TYPED.into()))
    }

    /// Tells the files of a container with these arrays; EINVAL if they do not fit the description.
    /// Memory is reserved once, before anything is told.
    fn recipe(
        &self,
        arrays: &[Arc<dyn Array>],
        description: Option<&GivenDescription>,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()>;
}

/// Why the type of an array cannot be set.
pub const NOT_TYPED: &str =
    "the type of arrays of this format is not set by attributes: the container says what they are";

/// The type and shape that attributes give an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenType {
    /// As NumPy names or spells it.
    pub dtype: Option<String>,
    pub shape: Option<Vec<u64>>,
}

impl GivenType {
    pub fn is_empty(&self) -> bool {
        *self == GivenType::default()
    }
}

/// What a file of a container was copied from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileForm {
    /// A container's file, as it is stored.
    Stored,
    /// An array, as it is shown.
    Shown,
}

/// The format whose new containers are named like this, whether or not they can be made.
pub fn format_named(name: &OsStr) -> Option<&'static dyn Format> {
    let extension = Path::new(name).extension()?;
    let is_its = |own: &&str| extension == *own;
    let mut formats = FORMATS.iter();
    formats
        .find(|format| format.extensions().iter().any(is_its))
        .copied()
}

/// The files of a new container without anything in it.
pub fn empty_container(
    creation: &dyn Creation,
    budget: &Arc<Budget>,
) -> Result<BTreeMap<MemberNumber, Vec<u8>>> {
    let mut told = ToldFiles::default();
    creation.recipe(&[], None, budget, &mut told)?;
    Ok(told.0)
}

/// Files in memory, as they are told.
#[derive(Default)]
pub struct ToldFiles(pub BTreeMap<MemberNumber, Vec<u8>>);

impl Recipe for ToldFiles {
    fn copy(&mut self, _file: MemberNumber, _from: Range<u64>, _to: u64) -> Result<()> {
        Err(Error::Bug(
            "a new container has nothing to copy from".into(),
        ))
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let told = self.0.entry(file).or_default();
        let at = at as usize;
        let end = at + bytes.len();
        told.resize(told.len().max(end), 0);
        told[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        let told = self.0.entry(file).or_default();
        told.resize(len as usize, 0);
        Ok(())
    }
}

/// The description that a program gives of a container which it makes: an `arrays.json`, as far as
/// it is looked at.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GivenDescription {
    pub format: Option<String>,
    /// Of the format, as the container spells it.
    pub version: Option<String>,
    pub arrays: Vec<GivenArray>,
    #[serde(default)]
    pub attributes: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GivenArray {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    #[serde(default)]
    pub order: GivenOrder,
    pub codec: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum GivenOrder {
    #[default]
    C,
    F,
}

impl From<GivenOrder> for Order {
    fn from(given: GivenOrder) -> Order {
        match given {
            GivenOrder::C => Order::C,
            GivenOrder::F => Order::Fortran,
        }
    }
}

impl GivenDescription {
    /// Of one array of plain bytes.
    pub fn of_bytes(name: &str, bytes: u64) -> GivenDescription {
        GivenDescription {
            format: None,
            version: None,
            arrays: vec![GivenArray {
                name: name.to_owned(),
                dtype: "uint8".into(),
                shape: vec![bytes],
                order: GivenOrder::C,
                codec: None,
            }],
            attributes: Map::new(),
        }
    }

    pub fn parse(text: &[u8]) -> Result<GivenDescription> {
        if text.len() as u64 > LONGEST_DESCRIPTION {
            return Err(Error::Invalid("arrays.json is too long".into()));
        }
        let room = value_room(text);
        let parsed = set_aside(room, "cannot read arrays.json", || {
            serde_json::from_slice(text)
        })?;
        parsed.map_err(|e| Error::Invalid(format!("arrays.json is not understood: {e}")))
    }
}

/// The raw bytes of an array, in a file of their own.
pub struct RawArray {
    name: String,
    source: Arc<dyn Source>,
}

impl RawArray {
    pub fn new(name: &str, source: Arc<dyn Source>) -> RawArray {
        RawArray {
            name: name.to_owned(),
            source,
        }
    }
}

impl Array for RawArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.source.len();
        Ok(Info {
            dtype: Dtype::U8,
            shape: vec![bytes],
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: 0,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.source.len()), out);
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.source.fetch_one(at, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_made() {
        let named = |name: &str| format_named(OsStr::new(name));
        let made = |name: &str| named(name).is_some_and(|format| format.creation().is_some());
        assert!(made("x.blp") && made(".x.blp") && made("x.bpcells"));
        for ordinary in ["x", "blp", ".blp", "x.BLP", "x.blp.bak", ".h5", ".bpcells"] {
            assert!(named(ordinary).is_none(), "{ordinary}");
        }
        for later in ["x.h5", "x.hdf5", "x.h5ad", "x.nc", "x.dbdf"] {
            assert!(named(later).is_some() && !made(later), "{later}");
        }
    }

    #[test]
    fn a_description_is_read_as_far_as_it_is_needed() {
        let text = br#"{"arrays": [{"name": "data", "dtype": "<i2", "shape": [2, 3], "order": "F", "blocks": 7}],
            "faults": ["?"]}"#;
        let given = GivenDescription::parse(text).unwrap();
        let array = &given.arrays[0];
        assert_eq!(
            (&array.shape[..], array.order),
            (&[2, 3][..], GivenOrder::F)
        );
        assert_eq!((given.format, array.codec.as_ref()), (None, None));
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"arrays": [{"name": "data"}]}"#,
            r#"{"arrays": [{"name": "data", "dtype": "<i2", "shape": [-1]}]}"#,
        ] {
            let refused = GivenDescription::parse(bad.as_bytes());
            assert!(matches!(refused, Err(Error::Invalid(_))), "{bad}");
        }
    }
}
