//! The attributes of an entry of a container.
//!
//! Used by `tree::attr`, which adds the settings of the mount.

use crate::live::owner::Owner;
use crate::source::FileKind;

#[derive(Debug, Clone)]
pub struct EntryStat {
    pub kind: FileKind,
    pub size: u64,
    /// Bytes in the container.
    pub stored: u64,
    /// Under which it is shown.
    pub names: u32,
    /// Owner, mode and times, from the container's files.
    pub owner: Owner,
    /// An array that has been opened for writing: to be written in large pieces.
    pub is_written: bool,
    /// It follows from arrays one of which has been opened for writing, or is told in full only to
    /// who opens it: its size is to be asked for each time.
    pub follows: bool,
}

impl EntryStat {
    pub(crate) fn new(kind: FileKind, size: u64, stored: u64, owner: &Owner) -> EntryStat {
        EntryStat {
            kind,
            size,
            stored,
            names: 1,
            owner: owner.clone(),
            is_written: false,
            follows: false,
        }
    }
}
