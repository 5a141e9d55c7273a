//! What the daemon has libhdf5 change in a file, step by step, and what comes of it.
//!
//! Plain data that goes over the socket to a worker and back. Extents come first, then chunks,
//! texts and attributes, at last the end, which tells the patches: ranges of the file that the
//! library has written. Bytes of chunks never go over the socket. Used by `worker`, `library` and
//! `write`.

use serde::{Deserialize, Serialize};

use super::made::{MakeStep, TextRun};

/// The numbers of the filters that the library has by itself, but szip, which is not built in.
pub(super) const OWN_FILTERS: [u32; 5] = [1, 2, 3, 5, 6];

/// One thing to do. Datasets are named by their tokens, as the index of the file has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum EditStep {
    /// The first: room before the end of the file that raw data may be put into, address and length
    /// of each.
    Room(Vec<(u64, u64)>),
    /// A chunked dataset gets these dimensions.
    Extent { token: u64, dims: Vec<u64> },
    /// Chunks of a dataset are stored anew.
    Chunks {
        token: u64,
        chunks: Vec<StoredChunk>,
    },
    /// A contiguous dataset that has no place gets one, to be filled by the daemon.
    Allocate { token: u64 },
    /// All elements of a compact dataset, as they are stored.
    Compact { token: u64, bytes: Vec<u8> },
    /// Elements of a dataset of strings of variable length: each ends with a NUL.
    Texts {
        token: u64,
        runs: Vec<TextRun>,
        texts: Vec<u8>,
    },
    /// An attribute of a group or dataset gets another value, in the type and space that it has.
    Attribute {
        object: u64,
        name: Vec<u8>,
        value: NewValue,
    },
    /// Objects of a new file are made.
    Make(Vec<MakeStep>),
    /// Nothing more.
    Finish,
}

/// What an attribute is going to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NewValue {
    /// One string. Of a fixed length that is too short for it the attribute is made anew.
    Text(Vec<u8>),
    /// Whole numbers, as many as there are.
    Numbers(Vec<u64>),
}

/// A chunk as it is going to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredChunk {
    /// Counted through the grid of chunks in C order.
    pub(super) number: u64,
    /// In bytes; not 0.
    pub(super) len: u64,
    /// Bit i: filter i was skipped.
    pub(super) mask: u32,
    /// There may be a chunk of this length and another mask: the library would leave that mask.
    pub(super) remask: bool,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EditReply {
    Done,
    /// Of the first step: whether the file keeps lists of its own of the room in it. Then raw data
    /// go where these say.
    Managed(bool),
    /// Where the data go, in bytes from the beginning of the file; as many as chunks were named.
    Places(Vec<u64>),
    /// Of each step that makes something: the token of a dataset, else 0; or why it was not made.
    Made(Vec<Result<u64, String>>),
    Finished(FinishedEdit),
}

/// How the library leaves a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FinishedEdit {
    /// Bytes that it has written, in order, by where they lie.
    pub(super) patches: Vec<(u64, Vec<u8>)>,
    /// Where the file ends.
    pub(super) end: u64,
    /// What was read to find chunks that were stored anew, as address and length: the indices of
    /// their datasets, and nothing else. In order; none if there is too much of it.
    pub(super) indices: Vec<(u64, u64)>,
    /// Whether the worker ends with it: it has filters that change nothing, by which it must read
    /// no other file.
    pub(super) is_last: bool,
}
