//! Where the files of a container lie, and how they were when it was opened. Used by all of
//! [`super`], and by whoever names a place to it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::disk::Place;
use crate::error::Result;
use crate::source::{FileId, FileIdentity};

/// Where the files of a container lie: in the directory in which the container is a file, or in the
/// directory that it is.
#[derive(Debug, Clone)]
pub struct Spot {
    pub directory: PathBuf,
    pub id: FileId,
    /// Of the container's only file, or the first one.
    pub name: OsString,
}

/// A file of a container, as it was opened.
#[derive(Debug, Clone)]
pub struct SeenFile {
    pub name: OsString,
    /// None: there was none of this name.
    pub identity: Option<FileIdentity>,
}

impl Spot {
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    pub fn place<'a>(&'a self, name: &'a OsStr) -> Place<'a> {
        Place {
            directory: &self.directory,
            id: self.id,
            name,
        }
    }
}

/// Runs the given function with the place where the files lie now, and again if they are not found
/// because something is moved meanwhile.
pub type AtSpot<'a> = &'a dyn Fn(&mut dyn FnMut(&Spot) -> Result<()>) -> Result<()>;

/// The path of a file where the container's lie.
pub(super) fn beside(spot: &Spot, name: &OsStr) -> PathBuf {
    Path::new(&spot.directory).join(name)
}
