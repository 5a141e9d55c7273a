//! Records of a log, and their bytes.
//!
//! ```text
//! 0   u16   magic
//! 2   u8    kind
//! 3   u8    flags, 0 today
//! 4   u32   length of the payload; zeros follow it to the next multiple of 8
//! 8   u32   CRC-32 of the payload and those zeros
//! 12  u32   CRC-32 of the header, with zeros here
//! 16  u64   sequence number
//! 24  u64   how much of the log was known to be on the disk when this was written
//! ```
//!
//! All numbers are little-endian. CRC-32 because it notices every error of up to 32 bits in a row,
//! runs at memory speed and is here already; what it must tell apart is a record that was written
//! from one that was not, or in part, where the sequence number has to fit as well. It is no
//! protection against malice: the file's mode is. The header has its own, so that headers can be
//! looked for behind damage without reading what they claim to describe. Sequence numbers rise from
//! record to record and begin with a random one: so bytes of another log, which a program may store
//! in an array, are never taken for records of this one.
//!
//! Payloads of bytes (extents, redo) have a fixed beginning; the others are small, and written by
//! `postcard`.

use serde::{Deserialize, Serialize};

use super::Base;
use crate::error::{Error, Result};

pub(super) const MAGIC: u16 = 0xA57A;
pub(super) const HEADER: usize = 32;
/// Length of the numbers that the payload of an extent or a redo record begins with.
pub(super) const BEFORE_BYTES: usize = 24;

/// Of the format of logs, and the oldest that is read: one without [`Record::Zeros`] and
/// [`Record::SealedFiles`]. Version 3 has none of those that follow them, version 4 no
/// [`Record::TypedArray`], version 5 no [`Record::Growing`], version 6 no [`Record::Held`].
pub(super) const VERSION: u32 = 7;
pub(super) const OLDEST: u32 = 2;

/// The longest payload; no writer makes longer ones.
pub(super) const LONGEST_PAYLOAD: usize = 16 << 20;

pub(super) const BEGIN: u8 = 1;
pub(super) const EXTENT: u8 = 2;
pub(super) const REDO: u8 = 3;
/// Any other of [`Record`].
pub(super) const OTHER: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: u8,
    pub(super) payload: u32,
    pub(super) payload_crc: u32,
    pub(super) sequence: u64,
    pub(super) synced: u64,
}

/// The first record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(super) version: u32,
    /// Bytes of the container's name.
    pub(super) container: Vec<u8>,
    pub(super) base: Base,
    /// Paths and lengths: of logs before version 5. Records name them since.
    pub(super) arrays: Vec<(String, u64)>,
}

/// An array of which something is staged, as the container has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedArray {
    /// From the outermost container on.
    pub path: String,
    /// In bytes.
    pub len: u64,
    /// As NumPy names it; empty in logs of earlier releases, which do not say it.
    pub dtype: String,
}

/// A small record. Their order is part of the format: another one comes last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Record {
    Length {
        layer: u64,
        array: u32,
        len: u64,
    },
    RedoLength {
        file: u32,
        len: u64,
    },
    /// As logs of the last release have it of a container that is one file.
    Sealed {
        layer: u64,
        times: Vec<SealedTime>,
        in_place: bool,
    },
    Replacing {
        layer: u64,
        files: Vec<NewFileRecord>,
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
    SealedFiles {
        layer: u64,
        files: Vec<SealedFile>,
    },
    /// One more array, behind those that the log names already.
    Array {
        path: String,
        len: u64,
    },
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
    /// One more array, with its type.
    TypedArray(LoggedArray),
    /// The commit of this layer is about to put bytes behind the end of a file. After a seal: that
    /// is void, and the file is about to be cut back.
    Growing {
        layer: u64,
        file: GrowingFile,
    },
    /// All of these bytes are there, up to an end, and on the disk: a fingerprint of those that a
    /// seal does not put there again.
    Grown {
        name: String,
        end: u64,
        grown: u32,
    },
    /// A commit waits for another program that has the container's file open, which is this.
    Held(HeldFile),
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

/// The time of modification that a file of the container has after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedTime {
    /// Which of [`Base::files`].
    pub(super) file: u32,
    pub(super) secs: i64,
    pub(super) nanos: u32,
    /// A fingerprint of the bytes of the file that the commit leaves alone.
    pub(super) untouched: u32,
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
#[derive(Debug, Clone)]
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
    /// A file is about to get bytes behind its end; or to be cut back, and a seal is void.
    Growing { layer: u64, file: GrowingFile },
    /// It has got all of them.
    Grown { name: String, end: u64, grown: u32 },
}

impl RecordHeader {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = self.kind;
        bytes[4..8].copy_from_slice(&self.payload.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// None: it is no header.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Option<RecordHeader> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[..2] != MAGIC.to_le_bytes() || bytes[3] != 0 {
            return None;
        }
        let mut plain = *bytes;
        plain[12..16].fill(0);
        (crc32fast::hash(&plain) == u32_at(12)).then(|| RecordHeader {
            kind: bytes[2],
            payload: u32_at(4),
            payload_crc: u32_at(8),
            sequence: u64_at(16),
            synced: u64_at(24),
        })
    }

    /// How much of the file the whole record takes.
    pub(super) fn len(&self) -> u64 {
        HEADER as u64 + u64::from(self.payload).next_multiple_of(8)
    }
}

/// Appends a record of any kind and payload, with checksums that are right.
pub(crate) fn framed(kind: u8, sequence: u64, payload: &[u8], log: &mut Vec<u8>) {
    let mut filled = payload.to_vec();
    filled.resize(payload.len().next_multiple_of(8), 0);
    let header = RecordHeader {
        kind,
        payload: payload.len() as u32,
        payload_crc: crc32fast::hash(&filled),
        sequence,
        synced: 0,
    };
    log.extend(header.encode());
    log.extend(filled);
}

/// The beginning of an extent's or a redo record's payload: layer and array, or a zero and the
/// file; and the offset.
pub(super) fn before_bytes(layer: u64, index: u32, offset: u64) -> [u8; BEFORE_BYTES] {
    let mut bytes = [0; BEFORE_BYTES];
    bytes[..8].copy_from_slice(&layer.to_le_bytes());
    bytes[8..12].copy_from_slice(&index.to_le_bytes());
    bytes[16..].copy_from_slice(&offset.to_le_bytes());
    bytes
}

/// Layer, index and offset.
pub(super) fn read_before_bytes(bytes: &[u8; BEFORE_BYTES]) -> (u64, u32, u64) {
    let u32_at =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    (u64_at(0), u32_at(8), u64_at(16))
}

pub(super) fn encode(what: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_allocvec(what);
    let bytes = bytes.map_err(|e| Error::Bug(format!("a record cannot be written: {e}")))?;
    match bytes.len() <= LONGEST_PAYLOAD {
        true => Ok(bytes),
        false => Err(Error::Bug("a record is too long".into())),
    }
}
