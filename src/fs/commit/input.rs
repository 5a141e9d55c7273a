//! What a commit is given: the changes, the files as they were opened, how much it may do, and what
//! all of it asks of those. Used by all of [`super`]; `live` fills it in.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::spot::{AtSpot, SeenFile, Spot, beside};
use crate::container::writable::{ChangedArray, MemberNumber, WritableContainer};
use crate::disk::{Caller, Disk};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::{FileId, ReopenedSource, Source, Stat, Store, Timestamp, open_same};
use crate::stage::Stage;

/// The user's choice (`-o commit=`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    #[default]
    Auto,
    Replace,
    InPlace,
}

/// How much a commit may do while a program waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLimits {
    /// Bytes that are written or copied.
    pub written: u64,
    /// Plain bytes that are encoded.
    pub encoded: u64,
}

impl CommitLimits {
    pub const NONE: CommitLimits = CommitLimits {
        written: u64::MAX,
        encoded: u64::MAX,
    };
}

impl Default for CommitLimits {
    fn default() -> CommitLimits {
        CommitLimits {
            written: 1 << 30,
            encoded: 8 << 30,
        }
    }
}

/// A commit: the changes, and everything that it needs.
pub struct Commit<'a> {
    pub disk: &'a Arc<dyn Disk>,
    pub store: &'a Arc<dyn Store>,
    pub spot: &'a Spot,
    /// Where they lie when they have changed.
    pub at_spot: AtSpot<'a>,
    /// The files as they were opened, by their member numbers; if one is another by now, nothing is
    /// written.
    pub seen: &'a [SeenFile],
    /// Whether the container is a directory.
    pub is_directory: bool,
    pub stage: &'a Stage,
    /// Number of the layer that is committed.
    pub layer: u64,
    pub writable: &'a dyn WritableContainer,
    pub changed: &'a [ChangedArray],
    /// When it was last written: the file's time of modification from now on.
    pub written: Timestamp,
    pub budget: &'a Arc<Budget>,
    pub preference: Preference,
    pub limits: CommitLimits,
    /// Whether programs read a file of it as it is stored, through the mount.
    pub is_read: &'a dyn Fn(&FileId) -> bool,
}

impl Commit<'_> {
    /// An error that it met, as a line of the log.
    pub(super) fn named(&self, e: &Error) -> String {
        let container = match self.is_directory {
            true => self.spot.directory.clone(),
            false => self.spot.path(),
        };
        e.told_of(&self.store.display(&container), "")
    }

    /// Where the container lies, for messages.
    pub(super) fn shown(&self) -> PathBuf {
        self.store.display(&self.spot.path())
    }

    /// The first file as it is; all of them must be as they were opened.
    pub(super) fn unchanged(&self) -> Result<Stat> {
        let mut first = None;
        for seen in self.seen {
            let path = beside(self.spot, &seen.name);
            let found = match self.store.stat(&path) {
                Err(e) if e.is_not_found() && seen.identity.is_none() => None,
                other => Some(other?),
            };
            if found.as_ref().map(Stat::file) != seen.identity {
                return Err(self.changed(&seen.name));
            }
            first = first.or(found);
        }
        first.ok_or_else(|| self.changed(&self.spot.name))
    }

    pub(super) fn changed(&self, name: &OsStr) -> Error {
        Error::Changed {
            path: self.store.display(&beside(self.spot, name)),
        }
    }

    /// A container's only file, or the first one, to be read.
    pub(super) fn source(&self) -> Result<Arc<dyn Source>> {
        let first = self.seen.first().ok_or(Error::NotFound)?;
        self.source_of(first)
    }

    pub(super) fn seen_file(&self, number: MemberNumber) -> Result<&SeenFile> {
        let seen = self.seen.get(number.0 as usize);
        seen.ok_or_else(|| Error::Bug("there is no such file".into()))
    }

    pub(super) fn source_of(&self, seen: &SeenFile) -> Result<Arc<dyn Source>> {
        let identity = seen
            .identity
            .ok_or_else(|| self.changed(&seen.name))?
            .into();
        let (store, path) = (Arc::clone(self.store), beside(self.spot, &seen.name));
        let open = move || open_same(&*store, &path, &identity);
        let source = open()?;
        Ok(Arc::new(ReopenedSource::new(source, open)))
    }

    /// The user as whom new files of the container are made.
    pub(super) fn owner(&self, stat: &Stat) -> Caller {
        Caller::of(stat.uid, stat.gid)
    }
}
