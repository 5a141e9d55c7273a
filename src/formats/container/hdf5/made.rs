//! What the daemon has libhdf5 make in a new file: groups, types, datasets without values,
//! attributes, scales, links, and strings of variable length.
//!
//! Plain data that goes over the socket with an [`super::edit::EditStep`]. Objects are named by
//! their paths from the root, as they are stored. Values are JSON texts as `arrays.json` has them,
//! so that libhdf5 makes of them what it shows as them; like types they come from a user's file,
//! and are checked where they are made. Used by `create`, `worker` and `library`.

use serde::{Deserialize, Serialize};

use super::index::decoding::stored_type;
use crate::container::stored::StoredType;

/// What a new file is like as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewFileForm {
    /// Version of the superblock: 0, 2 or 3, and of all that follows from it.
    pub(super) superblock: u8,
    /// The order is kept in which links and attributes are made.
    pub(super) is_ordered: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum MakeStep {
    Group {
        path: Vec<u8>,
    },
    /// A committed datatype.
    Type {
        path: Vec<u8>,
        #[serde(with = "stored_type")]
        element: StoredType,
    },
    Dataset(Box<MadeDataset>),
    Attribute(MadeAttribute),
    /// A dataset becomes a dimension scale of this name.
    Scale {
        path: Vec<u8>,
        name: Vec<u8>,
    },
    /// The scales of each dimension of a dataset, by their paths.
    Dimensions {
        path: Vec<u8>,
        scales: Vec<Vec<Vec<u8>>>,
    },
    /// What belongs to each scale, when all dimensions have been told.
    References,
    HardLink {
        path: Vec<u8>,
        to: Vec<u8>,
    },
    SoftLink {
        path: Vec<u8>,
        to: Vec<u8>,
    },
    /// Elements of a dataset of strings of variable length: each ends with a NUL.
    Texts {
        path: Vec<u8>,
        runs: Vec<TextRun>,
        texts: Vec<u8>,
    },
}

/// Elements that follow each other, counted in C order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextRun {
    pub(super) first: u64,
    pub(super) count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MadeDataset {
    pub(super) path: Vec<u8>,
    #[serde(with = "stored_type")]
    pub(super) element: StoredType,
    /// None: without space (H5S_NULL).
    pub(super) dims: Option<Vec<u64>>,
    /// The largest dimensions; [`super::index::UNLIMITED`]: without end.
    pub(super) most: Vec<u64>,
    pub(super) storage: MadeStorage,
    pub(super) filters: Vec<MadeFilter>,
    pub(super) fill: MadeFill,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MadeStorage {
    Compact,
    Contiguous,
    Chunked {
        chunk: Vec<u64>,
        /// Chunks that stick out of the dataset are stored without filters.
        plain_edges: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MadeFilter {
    pub(super) id: u32,
    pub(super) optional: bool,
    pub(super) values: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum MadeFill {
    /// Zeros.
    Usual,
    Undefined,
    Value(MadeValue),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MadeAttribute {
    /// Path of the object; empty for the root.
    pub(super) of: Vec<u8>,
    pub(super) name: Vec<u8>,
    #[serde(with = "stored_type")]
    pub(super) element: StoredType,
    /// Empty: a scalar; none: without space (H5S_NULL).
    pub(super) dims: Option<Vec<u64>>,
    pub(super) value: MadeValue,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum MadeValue {
    /// JSON, as it is shown.
    Shown(String),
    /// The bytes of all elements in their type.
    Stored(Vec<u8>),
}

/// The bytes that hexadecimal digits stand for.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}
