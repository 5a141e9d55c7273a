//! Making new containers: how the files of a container come about that is not there yet.
//!
//! A format that can make containers has a [`Creation`]. It is given what has been put into a new
//! one ([`content`]): arrays, as raw bytes, groups, and perhaps the `arrays.json` of the container
//! that they were copied from ([`description`]), and tells a [`Recipe`] of new bytes alone. A new
//! container without anything in it is told in the same way, of nothing. Used by `live` and `tree`;
//! a command that packs a directory without a mount could use it as well.

mod content;
mod description;
mod known_keys;
mod made_again;
mod packed_directory;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::own_lengths::ArrayLengths;
use super::writable::{MemberNumber, Recipe};
use super::{FORMATS, Format, Layout, Preferences};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

pub use content::{GivenContent, RawArray};
pub use description::{GivenArray, GivenDescription, GivenOrder, GivenType, LONGEST_DESCRIPTION};
pub use packed_directory::{
    LONGEST_OF_DIRECTORY, VERSION, VERSION_HEAD, describes_packed, is_packed_array,
    is_packed_version, packed_member, split,
};

/// The text of a group that makes it a Binsparse container.
pub const DESCRIPTOR: &str = super::binsparse::TEXT;

/// A format of which new containers can be made.
pub trait Creation: Send + Sync {
    /// How the files of a container lie.
    fn layout(&self) -> Layout {
        Layout::FILE
    }

    /// Whether a container can have an array of this path.
    fn has_array(&self, path: &str) -> bool;

    /// Whether an array of this path follows from the others: it may be given, and is dropped.
    fn is_derived(&self, _path: &str) -> bool {
        false
    }

    /// Whether a directory of this path can be a group.
    fn has_group(&self, _path: &str) -> bool {
        false
    }

    /// Whether its groups have links and descriptors, and names of any kind.
    fn has_links(&self) -> bool {
        false
    }

    /// When one is packed that nobody uses any more.
    fn packing(&self) -> PackingRule {
        PackingRule::WithAnArray
    }

    /// Whether a file that is put into a container which has been packed can become an array of it.
    fn takes_later(&self) -> bool {
        false
    }

    /// How a file of this name and with these first bytes lies in a directory that may become a
    /// container; none if that cannot be found out, or it is none of the container's.
    fn form_of(&self, _name: &OsStr, _head: &[u8]) -> Option<FileForm> {
        None
    }

    /// Whether a container can be as it is described, whatever its arrays hold; EINVAL if not.
    fn accepts(&self, description: &GivenDescription) -> Result<()>;

    /// Whether the type of each array is the format's own: what a copy says of it is dropped.
    fn fixes_types(&self) -> bool {
        false
    }

    /// Whether an array of this path is bytes, if nothing says its type.
    fn is_bytes_untyped(&self, _path: &str) -> bool {
        self.takes_later()
    }

    /// The description with another type for the array of this path, which has so many bytes; none
    /// was given if there is none. EINVAL if that does not fit, or the format fixes the type of its
    /// arrays.
    fn typed(
        &self,
        _description: Option<GivenDescription>,
        _path: &str,
        _to: &GivenType,
        _bytes: u64,
    ) -> Result<GivenDescription> {
        Err(Error::Invalid(NOT_TYPED.into()))
    }

    /// Lengths of arrays that the file would have longer, filled up: with these they are shown as
    /// long as the mount lives that has made it.
    fn own_lengths(&self, _content: &GivenContent) -> Result<ArrayLengths> {
        Ok(ArrayLengths::new())
    }

    /// Tells the files of a container of this content; EINVAL if it does not fit its description.
    /// Memory is reserved once, before anything is told. Says what of the description could not be
    /// kept, a line each.
    fn recipe(
        &self,
        content: &GivenContent,
        preferences: Preferences,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<Vec<String>>;
}

/// When a new container is packed that nobody uses any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackingRule {
    /// As soon as there is an array in it.
    WithAnArray,
    /// With a description, when all that this names is there; without one, when it has not been
    /// used for long: whether another array follows cannot be known.
    AsDescribed,
}

/// Why the type of an array cannot be set.
pub const NOT_TYPED: &str =
    "the type of arrays of this format is not set by attributes: the container says what they are";

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
    let mut recipe = RecipeInMemory::default();
    creation.recipe(
        &GivenContent::default(),
        Preferences::default(),
        budget,
        &mut recipe,
    )?;
    Ok(recipe.0)
}

/// Files in memory, as they are told.
#[derive(Default)]
pub struct RecipeInMemory(pub BTreeMap<MemberNumber, Vec<u8>>);

impl Recipe for RecipeInMemory {
    fn copy(&mut self, _file: MemberNumber, _from: Range<u64>, _to: u64) -> Result<()> {
        Err(Error::Bug(
            "a new container has nothing to copy from".into(),
        ))
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let recipe = self.0.entry(file).or_default();
        let at = at as usize;
        let end = at + bytes.len();
        recipe.resize(recipe.len().max(end), 0);
        recipe[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        let recipe = self.0.entry(file).or_default();
        recipe.resize(len as usize, 0);
        Ok(())
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
        for new in ["x.dbdf", "x.nc", "x.h5", "x.hdf5", "x.h5ad"] {
            assert!(made(new), "{new}");
        }
        for ordinary in ["x", "blp", ".blp", "x.BLP", "x.blp.bak", ".h5", ".bpcells"] {
            assert!(named(ordinary).is_none(), "{ordinary}");
        }
    }
}
