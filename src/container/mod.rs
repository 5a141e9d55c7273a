//! Containers: how a stored file or directory is recognised, opened and described.
//!
//! A format is one folder here and one line in [`FORMATS`]. It says whether a candidate is one of its
//! containers ([`Format::recognise`], from the first bytes alone), which files make up its identity, and
//! opens it into a [`Container`]: arrays, texts, attributes and the faults found on the way. It never
//! decodes while opening, and reads no more than it needs to know names, types and sizes.
//! Used by `tree` (the mount) and by the commands that work without a mount.

pub mod bloscpack;
pub mod bpcells;
mod candidate;
pub mod describe;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::array::Array;
use crate::error::{Fault, Result};
use crate::source::{Identity, Store};

pub use candidate::Candidate;

/// Every format, in the order in which they are tried.
pub static FORMATS: &[&dyn Format] = &[&bpcells::BpCells, &bloscpack::Bloscpack];

/// What a format says about a candidate.
pub enum Verdict {
    /// Not one of this format.
    No,
    /// A container; opening it finds out whether it is sound.
    Yes,
    /// Meant to be one, by everything but what makes it readable: shown with an `error.txt`.
    Damaged(Fault),
}

/// A container format.
pub trait Format: Send + Sync {
    /// Name in `arrays.json` and xattrs.
    fn name(&self) -> &'static str;

    /// Cheap: at most the first bytes of the file, or of a file in the directory.
    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict>;

    /// Files of a container directory whose identities make up the container's; empty for a container
    /// that is one file. They are not shown beside the arrays.
    fn members(&self) -> &'static [&'static str];

    /// Opens a container. Damage goes into [`Container::faults`]; an error means that the source could
    /// not be read at all.
    fn open(&self, store: &Arc<dyn Store>, path: &Path) -> Result<Container>;
}

/// An opened container.
pub struct Container {
    pub format: &'static str,
    /// Version of the format, as the container spells it.
    pub version: String,
    pub arrays: Vec<Arc<dyn Array>>,
    pub texts: Vec<Text>,
    /// For `arrays.json`.
    pub attributes: serde_json::Map<String, serde_json::Value>,
    /// What cannot be trusted, one line of `error.txt` each.
    pub faults: Vec<Fault>,
}

/// A small file shown beside the arrays.
pub struct Text {
    pub name: String,
    pub content: Arc<[u8]>,
}

impl Container {
    pub fn new(format: &'static str, version: impl Into<String>) -> Self {
        Container {
            format,
            version: version.into(),
            arrays: Vec::new(),
            texts: Vec::new(),
            attributes: serde_json::Map::new(),
            faults: Vec::new(),
        }
    }

    /// A container of which nothing can be shown but the reason.
    pub fn refused(format: &'static str, fault: Fault) -> Self {
        let mut container = Container::new(format, "");
        container.faults.push(fault);
        container
    }

    /// Adds an array, or the fault that keeps it from being shown.
    pub fn add(&mut self, name: &str, array: Result<Arc<dyn Array>>) -> Result<()> {
        match array {
            Ok(array) => self.arrays.push(array),
            Err(crate::error::Error::Fault(fault)) => self.faults.push(fault.array(name)),
            Err(other) => return Err(other),
        }
        Ok(())
    }
}

/// A recognised container.
#[derive(Clone)]
pub struct Recognised {
    pub format: &'static dyn Format,
    /// Why it cannot be opened, if that is known already.
    pub damage: Option<Fault>,
}

/// Tries every format on a file or directory.
pub fn recognise(candidate: &Candidate<'_>) -> Result<Option<Recognised>> {
    for &format in FORMATS {
        match format.recognise(candidate)? {
            Verdict::No => {}
            Verdict::Yes => {
                return Ok(Some(Recognised {
                    format,
                    damage: None,
                }));
            }
            Verdict::Damaged(fault) => {
                return Ok(Some(Recognised {
                    format,
                    damage: Some(fault),
                }));
            }
        }
    }
    Ok(None)
}

impl Recognised {
    /// Opens the container and gives every fault its coordinates.
    pub fn open(&self, store: &Arc<dyn Store>, path: &Path) -> Result<Container> {
        let mut container = match &self.damage {
            Some(fault) => Container::refused(self.format.name(), fault.clone()),
            None => match self.format.open(store, path) {
                Err(crate::error::Error::Fault(fault)) => {
                    Container::refused(self.format.name(), *fault)
                }
                other => other?,
            },
        };
        let shown: PathBuf = store.display(path);
        container.faults = container
            .faults
            .drain(..)
            .map(|fault| fault.container(&shown))
            .collect();
        Ok(container)
    }

    /// Identity of the container as it is now.
    pub fn identity(&self, store: &dyn Store, path: &Path) -> Result<Identity> {
        let members = self.format.members();
        if members.is_empty() {
            return Ok(Identity(vec![Some(store.stat(path)?.identity)]));
        }
        let member = |name: &&str| match store.stat(&path.join(name)) {
            Ok(stat) => Ok(Some(stat.identity)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        };
        members
            .iter()
            .map(member)
            .collect::<Result<_>>()
            .map(Identity)
    }
}
