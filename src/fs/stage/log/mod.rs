//! The log of a stage: one file beside the container, of checksummed records that are only ever
//! appended.
//!
//! Staged bytes go there when memory is short, an fsync makes them durable there, and the recovery
//! reads them from there. [`record`] is what they say, [`writer`] appends them, [`read`]
//! folds them into what is staged. A log names its container by what `cp -a` keeps: names, sizes
//! and times of modification, not inode numbers. It lies under the first of the names that a log of
//! the container may have ([`log_names`]), or the next one where something else lies. Used by the
//! rest of `stage`, and by listings of directories, to hide it.

mod found;
mod name;
mod patch;
mod read;
mod record;
mod writer;

pub(super) use found::{FoundLayer, FoundNext};
pub use found::{LogState, PendingCommit};
pub use name::{
    added_name, container_of_log, drafts_name, is_added_name, is_hidden_name, log_names, move_name,
    new_name, next_name,
};
pub use patch::{Patch, last_said};
pub(crate) use read::fold;
pub use read::{FoundLog, read_log, read_log_until};
pub(super) use record::Record;
pub use record::{
    CommitRecord, GrowingFile, HeldFile, LoggedArray, NewFileRecord, RangeSample, SealedFile,
};
pub(super) use writer::{LogWriter, sync_file, try_to_create, with_buffer};

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::disk::reopened::ReopenedFile;
use crate::disk::{Caller, Disk, DiskFile, NewAttributes, Target};
use crate::error::Result;
use crate::records::read_all;
use crate::source::{FileId, FileIdentity, Source, Store, Timestamp};

/// Where the log of a container lies, and whose it is.
#[derive(Clone)]
pub struct LogSpot {
    pub disk: Arc<dyn Disk>,
    pub store: Arc<dyn Store>,
    /// The directory that the container's files lie in.
    pub directory: PathBuf,
    pub directory_id: FileId,
    /// Name of its file, or of the first one of a directory.
    pub container: OsString,
    /// Names of all files that it can have.
    pub files: Vec<OsString>,
    /// The container's.
    pub owner: Caller,
}

/// Whose log is to be read.
#[derive(Clone, Copy)]
pub struct LogOf<'a> {
    pub store: &'a dyn Store,
    pub directory: &'a Path,
    /// Name of the container's file, or of the first one of a directory.
    pub container: &'a OsStr,
    /// User number of the container's owner: no other user's log is believed.
    pub owner: u32,
}

impl LogSpot {
    /// What of this is needed to read the log that lies there.
    pub fn of(&self) -> LogOf<'_> {
        LogOf {
            store: &*self.store,
            directory: &self.directory,
            container: &self.container,
            owner: self.owner.uid,
        }
    }

    /// Gives a file to the container's owner.
    pub(crate) fn give(&self, file: &dyn Source) -> Result<()> {
        let owner = NewAttributes {
            uid: Some(self.owner.uid),
            gid: Some(self.owner.gid),
            ..NewAttributes::default()
        };
        self.disk.set_attributes(Target::Open(file), &owner)
    }
}

/// The container that changes are staged of: they fit no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Name of the format.
    pub format: String,
    pub files: Vec<BaseFile>,
}

/// One file of a container, by what a copy keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFile {
    /// Relative to the container; empty: the container itself.
    pub name: String,
    pub size: u64,
    pub mtime_secs: i64,
    pub mtime_nanos: u32,
}

impl Base {
    /// The container's file of this name, if it had one.
    pub fn file(&self, name: &str) -> Option<&BaseFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

impl BaseFile {
    pub fn new(name: &str, identity: FileIdentity) -> BaseFile {
        BaseFile {
            name: name.to_owned(),
            size: identity.size,
            mtime_secs: identity.mtime.secs,
            mtime_nanos: identity.mtime.nanos,
        }
    }

    pub fn mtime(&self) -> Timestamp {
        Timestamp {
            secs: self.mtime_secs,
            nanos: self.mtime_nanos,
        }
    }
}

/// A log that is read from. Bytes in it never change their place.
#[derive(Clone)]
pub enum LogBytes {
    Written(Arc<ReopenedFile>),
    Found(Arc<dyn Source>),
}

impl LogBytes {
    fn source(&self) -> &dyn Source {
        match self {
            LogBytes::Written(file) => file.source(),
            LogBytes::Found(source) => &**source,
        }
    }

    /// Not `fetch`: a log that grows is still the same.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        read_all(self.source(), at, out)
    }
}
