//! The structure of an HDF5 file as the worker process hands it back: groups, links, datasets,
//! types.
//!
//! Plain data, serialised by `postcard`. It comes from a process that has parsed an untrusted file,
//! so its readers check it like any input: object numbers may be out of range, sizes may lie,
//! addresses may point anywhere. Written by `library`, read by `assemble`, `dataset` and `element`.

pub(super) mod decoding;
pub(super) mod details;
pub(super) mod heap;

use serde::{Deserialize, Serialize};

use crate::codec::filters::FilterDescription;
use crate::container::stored::StoredType;
use decoding::{bytes, list, result_list, stored_type, text};
use details::{AttributeStorage, DatasetDetails};

/// What netCDF's library puts before the name of a variable that is called like a dimension along
/// which it does not run.
pub(super) const NOT_COORDINATE: &[u8] = b"_nc4_non_coord_";

/// Everything but the tables of large chunked datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FileIndex {
    /// Version of the superblock, 0 to 3. Not from the library: its call for it (H5Fget_info) also
    /// reads the records of free space, and fails if they are damaged, although no reader needs
    /// them.
    #[serde(skip)]
    pub(super) superblock: u8,
    /// Size of file addresses and of lengths within the file, in bytes.
    pub(super) offset_size: u8,
    pub(super) length_size: u8,
    /// Where the file's addresses count from (after a user block). Addresses in this index are
    /// absolute.
    pub(super) base: u64,
    /// Where the library has left what it had in memory, if it has.
    pub(super) cache_image: Option<CacheImage>,
    /// The root first; every group once, at the shortest path that leads to it.
    pub(super) groups: Vec<GroupEntry>,
    /// Every dataset once, however many links lead to it.
    pub(super) datasets: Vec<DatasetEntry>,
    /// Every committed datatype once.
    pub(super) types: Vec<TypeEntry>,
    /// Parts that cannot be read.
    pub(super) problems: Vec<Problem>,
    /// Parts that are whole, as far as is known, and left out: there is more than can be held.
    pub(super) left_out: Vec<Problem>,
}

impl FileIndex {
    /// The dataset that a link leads to.
    pub(super) fn dataset(&self, target: &LinkTarget) -> Option<&DatasetEntry> {
        match target {
            LinkTarget::Dataset(number) => self.datasets.get(*number as usize),
            _ => None,
        }
    }

    /// What this path from the root leads to, or where it leaves what was listed; none: to nothing.
    pub(super) fn find(&self, path: &[u8]) -> Option<&LinkTarget> {
        let mut at = &LinkTarget::Group(0);
        let names = path.split(|&byte| byte == b'/');
        for name in names.filter(|name| !name.is_empty() && *name != b".") {
            let group = match at {
                LinkTarget::Group(group) => group,
                LinkTarget::External { .. }
                | LinkTarget::NotFollowed { .. }
                | LinkTarget::Unknown { .. } => return Some(at),
                LinkTarget::Dataset(_) | LinkTarget::Type(_) | LinkTarget::Dangling { .. } => {
                    return None;
                }
            };
            let links = &self.groups.get(*group as usize)?.links;
            let found = links.binary_search_by(|link| link.name[..].cmp(name));
            at = &links[found.ok()?].target;
        }
        Some(at)
    }
}

/// Where a metadata cache image lies: parts of the file's structure, each of which belongs to an
/// address where the file itself need have nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CacheImage {
    pub(super) start: u64,
    pub(super) len: u64,
}

/// A part of the file that could not be read, or was not looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Problem {
    /// Stored names from the root; empty for the file itself.
    pub(super) path: Vec<Vec<u8>>,
    #[serde(deserialize_with = "text")]
    pub(super) what: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct GroupEntry {
    /// Address of the object header, as the library's token has it.
    pub(super) token: u64,
    /// Number of the group that it lies in; the root's is itself.
    pub(super) parent: u32,
    #[serde(deserialize_with = "bytes")]
    pub(super) name: Vec<u8>,
    pub(super) attributes: Vec<AttributeEntry>,
    /// In the order of names.
    pub(super) links: Vec<LinkEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LinkEntry {
    #[serde(deserialize_with = "bytes")]
    pub(super) name: Vec<u8>,
    pub(super) target: LinkTarget,
    /// Where a soft link leads that leads somewhere, as it is stored.
    pub(super) soft: Option<Vec<u8>>,
    /// Its place among those of the group, by age, where the group keeps that.
    pub(super) age: Option<u32>,
}

/// Where a link leads, soft links resolved within the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum LinkTarget {
    Group(u32),
    Dataset(u32),
    /// A committed datatype.
    Type(u32),
    /// Another file; never followed.
    External {
        file: Vec<u8>,
        path: Vec<u8>,
    },
    /// A soft link to nothing, or in a loop.
    Dangling {
        path: Vec<u8>,
    },
    /// A link that is whole: of a class that only some program knows, with too long a name, or to
    /// something that there was no room for.
    NotFollowed {
        reason: String,
    },
    /// A link or an object that cannot be read; it is among the problems.
    Unknown {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AttributeEntry {
    #[serde(deserialize_with = "bytes")]
    pub(super) name: Vec<u8>,
    pub(super) value: AttributeValue,
    /// None where the value tells it.
    pub(super) stored: Option<AttributeStorage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum AttributeValue {
    /// One string: scalar or a list of one; fixed-length padding removed, cut at the first NUL.
    Text(#[serde(deserialize_with = "bytes")] Vec<u8>),
    /// Anything else, as JSON text.
    Json(#[serde(deserialize_with = "text")] String),
    /// Too long, or of a type that has no JSON; why.
    Omitted(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DatasetEntry {
    /// Address of the object header, as the library's token has it: asks for the chunk table.
    pub(super) token: u64,
    #[serde(with = "stored_type")]
    pub(super) element: StoredType,
    /// None for a dataset without space (H5S_NULL).
    pub(super) dims: Option<Vec<u64>>,
    pub(super) layout: StorageLayout,
    /// In the order in which they were applied on writing.
    pub(super) filters: Vec<FilterEntry>,
    /// In the stored type; none: zeros.
    /// Of strings of variable length the text, if it is not empty.
    pub(super) fill: Option<Vec<u8>>,
    #[serde(deserialize_with = "list")]
    pub(super) attributes: Vec<AttributeEntry>,
    pub(super) stored_bytes: u64,
    /// What it says, if it is one string in a dataset named `binsparse`: a descriptor.
    pub(super) text: Option<Vec<u8>>,
    pub(super) details: DatasetDetails,
}

/// A datatype that has names of its own, and no data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TypeEntry {
    /// Address of the object header.
    pub(super) token: u64,
    #[serde(with = "stored_type")]
    pub(super) element: StoredType,
    #[serde(deserialize_with = "list")]
    pub(super) attributes: Vec<AttributeEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum StorageLayout {
    /// The stored bytes themselves.
    Compact(#[serde(deserialize_with = "bytes")] Vec<u8>),
    /// Strings of variable length in the object header: each value and a line feed; and how long
    /// they are, if one has a line feed of its own.
    Texts(
        #[serde(deserialize_with = "bytes")] Vec<u8>,
        #[serde(deserialize_with = "list")] Vec<u32>,
    ),
    /// None: never allocated, all fill values.
    Contiguous {
        address: Option<u64>,
    },
    Chunked {
        /// Elements along each dimension.
        chunk: Vec<u64>,
        /// How long the first dimension may become; [`UNLIMITED`]: as long as there is room.
        first_most: u64,
        /// Chunks are stored, with the fill value, as soon as the dataset reaches over them.
        early: bool,
        /// Chunks that stick out of the dataset are stored without filters.
        plain_edges: bool,
        /// Bit i: some stored chunk went through filter i. All of them, unless there is a filter
        /// without a decoder.
        applied: u32,
        /// There if it is small; else it is asked for when the array is opened.
        table: Option<Vec<ChunkEntry>>,
    },
    /// Raw data in other files; never opened. Their names.
    External(Vec<Vec<u8>>),
    /// Parts of other datasets.
    Virtual(VirtualLayout),
    Unknown(String),
}

/// What a virtual dataset is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct VirtualLayout {
    /// Names of the files that the parts lie in; `.` is this one.
    pub(super) files: Vec<Vec<u8>>,
    /// In the order in which they are laid over each other; or why they cannot be put together.
    #[serde(deserialize_with = "result_list")]
    pub(super) parts: Result<Vec<VirtualPart>, String>,
    /// It ends where datasets of other files end, so the dimensions given are not its true ones.
    pub(super) open_ended: bool,
    /// Paths of the datasets of this file that it ends with, and of the first numbered ones behind
    /// its end.
    pub(super) ends: Vec<Vec<u8>>,
}

/// A selection of elements here, and as many of a dataset of this file; none: all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VirtualPart {
    /// Path from the root.
    #[serde(deserialize_with = "bytes")]
    pub(super) dataset: Vec<u8>,
    pub(super) here: Option<Vec<Stripe>>,
    pub(super) there: Option<Vec<Stripe>>,
}

/// Along one dimension: `count` blocks, one every `stride` coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stripe {
    pub(super) start: u64,
    pub(super) stride: u64,
    pub(super) count: u64,
    pub(super) block: u64,
}

/// Most bytes of strings that come with an index.
pub(super) const TEXT_MOST: usize = 1 << 20;

/// A count, a block or a dimension without end.
pub(super) const UNLIMITED: u64 = u64::MAX;

/// A stored chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChunkEntry {
    /// Its number, counted through the grid of chunks in C order.
    pub(super) number: u64,
    /// In the file, absolute.
    pub(super) address: u64,
    /// Stored bytes.
    pub(super) size: u64,
    /// Bit i: filter i was skipped.
    pub(super) mask: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilterEntry {
    pub(super) id: u32,
    /// Client values.
    #[serde(deserialize_with = "list")]
    pub(super) values: Vec<u32>,
}

impl FilterEntry {
    pub(super) fn described(&self) -> FilterDescription {
        FilterDescription {
            id: self.id,
            values: self.values.clone(),
        }
    }
}
