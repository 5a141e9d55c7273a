//! What the records of a stage's log say; their bytes are [`crate::records`]' business.
//!
//! Sequence numbers rise from record to record and begin with a random one: so bytes of
//! another log, which a program may store in an array, are never taken for records of this one.
//!
//! Payloads of extents and of redo records are bytes; the others are small, and written by
//! `postcard`.

use serde::{Deserialize, Serialize};

use super::Base;
use crate::array::stored_run::StoredRun;
use crate::records::BYTES;

pub(super) const BEGIN: u8 = 1;
pub(super) const EXTENT: u8 = BYTES | 2;
pub(super) const REDO: u8 = BYTES | 3;
/// A [`CommitRecord`].
pub(super) const COMMIT: u8 = 4;
/// A [`Record`].
pub(super) const OTHER: u8 = 5;

/// The first record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// Bytes of the container's name.
    pub(super) container: Vec<u8>,
    pub(super) base: Base,
}

/// An array of which something is staged, as the container has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedArray {
    /// From the outermost container on.
    pub path: String,
    /// In bytes.
    pub len: u64,
    /// As NumPy names it.
    pub dtype: String,
}

/// A small record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Record {
    Length {
        layer: u64,
        array: u32,
        len: u64,
    },
    Committed {
        layer: u64,
        base: Base,
        lens: Vec<u64>,
    },
    Thawed {
        layer: u64,
    },
    /// Means nothing but what its header says: how much is on the disk.
    Synced,
    /// Zeros instead of bytes, however many.
    Zeros {
        layer: u64,
        array: u32,
        offset: u64,
        len: u64,
    },
    /// One more array, behind those that the log names already.
    Array(LoggedArray),
    /// Every change of an array from here on, in this layer and those above, is void unless
    /// [`Record::Kept`] follows.
    Provisional {
        layer: u64,
        array: u32,
    },
    /// All of it has been said.
    Kept {
        array: u32,
    },
    /// Those changes of it are void.
    TakenBack {
        array: u32,
    },
    /// A commit waits for another program that has the container's file open, which is this.
    Held(HeldFile),
    /// Bytes of an array that lie in the next file: as they are stored, with this checksum.
    InNext {
        layer: u64,
        array: u32,
        offset: u64,
        len: u64,
        run: StoredRun,
        crc: u32,
    },
}

/// What a file is while another program has it open, which may give it another time without any
/// other change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFile {
    pub size: u64,
    /// Of all but the marks, which say that it is open.
    pub hash: u64,
    pub marks: (u64, u64),
}

/// A file of a container that gets bytes behind its end, of which the log has none, and how it is
/// recognised meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingFile {
    /// As in [`Base::files`], which say how long it was, and its time.
    pub name: String,
    /// A fingerprint of the bytes before its old end.
    pub untouched: u32,
    /// Where it ends when all of them are there, and their fingerprint.
    #[serde(skip)]
    pub grown: Option<(u64, u32)>,
}

/// A file of a container that a commit changes in place, and how it is recognised until that commit
/// has come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedFile {
    /// What its redo records and its length call it.
    pub file: u32,
    /// As in [`Base::files`].
    pub name: String,
    /// The time of modification that it is given: seconds and nanoseconds. None if the committer
    /// may not set it, so that the resulting time cannot be foreseen.
    pub mtime: Option<(i64, u32)>,
    /// A fingerprint of the bytes that the commit leaves alone.
    pub untouched: u32,
    /// Of bytes that it changes.
    pub samples: Vec<RangeSample>,
}

/// A few bytes of a file that a disk writes together: at any moment they are the old ones or the
/// new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeSample {
    pub offset: u64,
    pub len: u16,
    /// Checksums.
    pub old: u32,
    pub new: u32,
}

/// A new file of a container, synced, which is about to take the name of an old one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFileRecord {
    /// As in [`Base::files`], where it is missing if there was no file of this name.
    pub name: String,
    pub inode: u64,
    pub birth: u64,
    pub size: u64,
    pub mtime_secs: i64,
    pub mtime_nanos: u32,
    /// A fingerprint of its content, for a copy in which size and time are those of the old one.
    pub sample: u32,
}

/// A record of a commit, for the recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitRecord {
    /// How long it is to be.
    RedoLength { file: u32, len: u64 },
    /// All that is to be done has been said: to these files.
    Sealed { layer: u64, files: Vec<SealedFile> },
    /// The manifest: these new files are about to take their places, all of them.
    Replacing {
        layer: u64,
        files: Vec<NewFileRecord>,
    },
    /// The commit of this layer is about to put bytes behind the end of a file. After a seal: that
    /// is void, and the file is about to be cut back.
    Growing { layer: u64, file: GrowingFile },
    /// All of these bytes are there, up to an end, and on the disk: a fingerprint of those that a
    /// seal does not put there again.
    Grown { name: String, end: u64, grown: u32 },
}
