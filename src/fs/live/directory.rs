//! A directory of the source in which something is made, and which names may be given there.
//!
//! Used by `tree::writing`, and by [`super::creation`] for the drafts of new containers.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::shown::entry_table::EntryIndex;
use super::shown::open_container::OpenContainer;
use crate::disk::Place;
use crate::error::{Error, Result};
use crate::source::FileId;
use crate::stage::is_hidden_name;

/// A directory of the source: where it was found, and which one it is.
pub(crate) struct SourceDirectory {
    pub(crate) path: PathBuf,
    pub(crate) id: FileId,
    /// The directory of a container that it is, or lies beside.
    pub(crate) container: Option<(Arc<OpenContainer>, EntryIndex)>,
    /// There are no containers, and so nothing of ours beside them.
    pub(crate) takes_any_name: bool,
}

impl SourceDirectory {
    pub(crate) fn new(path: PathBuf, id: FileId) -> SourceDirectory {
        SourceDirectory {
            path,
            id,
            container: None,
            takes_any_name: false,
        }
    }

    /// For something new: names of ours, and those of a container's own, are refused.
    pub(crate) fn new_place<'a>(&'a self, name: &'a OsStr) -> Result<Place<'a>> {
        let kept_by = match &self.container {
            _ if !self.takes_any_name && is_hidden_name(name) => "arrayfs",
            Some((container, at)) if !container.shows_beside(*at, name) => "the container",
            _ => return Ok(self.place(name)),
        };
        Err(Error::Computed(format!(
            "{} is a name that {kept_by} keeps for itself",
            name.to_string_lossy()
        )))
    }

    pub(crate) fn place<'a>(&'a self, name: &'a OsStr) -> Place<'a> {
        Place {
            directory: &self.path,
            id: self.id,
            name,
        }
    }

    pub(crate) fn join(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }
}
