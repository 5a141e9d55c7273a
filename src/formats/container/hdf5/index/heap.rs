//! What parts of an index take in memory beside themselves, as it was allocated.
//!
//! Used by `worker` to charge an index while it is read, since how much that is per byte of an
//! answer differs from file to file: some four times it where attributes are long, ten times where
//! datasets are small.

use super::{
    AttributeEntry, AttributeValue, CacheImage, ChunkEntry, DatasetEntry, FilterEntry, LinkEntry,
    LinkTarget, Problem, StorageLayout, Stripe, TypeEntry, VirtualLayout, VirtualPart,
};

use crate::container::hdf5::worker::wire::WorkerRefusal;
use crate::container::stored::StoredType;

/// Something of which parts lie elsewhere in memory.
pub(crate) trait OnHeap {
    /// Bytes of these parts.
    fn on_heap(&self) -> u64;
}

/// What an allocation of so many bytes takes: the system's allocator rounds up, and keeps a length
/// with it.
pub(crate) fn allocated(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        _ => (bytes as u64)
            .saturating_add(8)
            .next_multiple_of(16)
            .max(32),
    }
}

/// A list whose items have nothing elsewhere.
fn plain<T>(list: &Vec<T>) -> u64 {
    allocated(list.capacity().saturating_mul(size_of::<T>()))
}

impl<T: OnHeap> OnHeap for Vec<T> {
    fn on_heap(&self) -> u64 {
        plain(self) + self.iter().map(OnHeap::on_heap).sum::<u64>()
    }
}

impl<T: OnHeap> OnHeap for Option<T> {
    fn on_heap(&self) -> u64 {
        self.as_ref().map_or(0, OnHeap::on_heap)
    }
}

impl OnHeap for String {
    fn on_heap(&self) -> u64 {
        allocated(self.capacity())
    }
}

/// Things without parts elsewhere.
macro_rules! in_place {
    ($($name:ty),*) => {
        $(impl OnHeap for $name {
            fn on_heap(&self) -> u64 {
                0
            }
        })*
    };
}

in_place!(u8, u32, u64, usize, Stripe, ChunkEntry, CacheImage);

/// Things of which these parts have parts elsewhere.
macro_rules! by_parts {
    ($($name:ty: $($part:ident),*;)*) => {
        $(impl OnHeap for $name {
            fn on_heap(&self) -> u64 {
                [$(self.$part.on_heap()),*].into_iter().sum()
            }
        })*
    };
}

by_parts! {
    Problem: path, what;
    WorkerRefusal: why;
    DatasetEntry: element, dims, layout, filters, fill, attributes, text, details;
    TypeEntry: element, attributes;
    FilterEntry: values;
    VirtualPart: dataset, here, there;
}

impl OnHeap for LinkEntry {
    fn on_heap(&self) -> u64 {
        let target = match &self.target {
            LinkTarget::Group(_) | LinkTarget::Dataset(_) | LinkTarget::Type(_) => 0,
            LinkTarget::External { file, path } => file.on_heap() + path.on_heap(),
            LinkTarget::Dangling { path } => path.on_heap(),
            LinkTarget::NotFollowed { reason } | LinkTarget::Unknown { reason } => reason.on_heap(),
        };
        self.name.on_heap() + target + self.soft.on_heap()
    }
}

impl OnHeap for AttributeEntry {
    fn on_heap(&self) -> u64 {
        let value = match &self.value {
            AttributeValue::Text(text) => text.on_heap(),
            AttributeValue::Json(text) | AttributeValue::Omitted(text) => text.on_heap(),
        };
        self.name.on_heap() + value + self.stored.on_heap()
    }
}

impl OnHeap for StorageLayout {
    fn on_heap(&self) -> u64 {
        match self {
            StorageLayout::Compact(bytes) => bytes.on_heap(),
            StorageLayout::Texts(bytes, lengths) => bytes.on_heap() + lengths.on_heap(),
            StorageLayout::Contiguous { .. } => 0,
            StorageLayout::Chunked { chunk, table, .. } => chunk.on_heap() + table.on_heap(),
            StorageLayout::External(names) => names.on_heap(),
            StorageLayout::Virtual(described) => described.on_heap(),
            StorageLayout::Unknown(reason) => reason.on_heap(),
        }
    }
}

impl OnHeap for VirtualLayout {
    fn on_heap(&self) -> u64 {
        let parts = match &self.parts {
            Ok(parts) => parts.on_heap(),
            Err(reason) => reason.on_heap(),
        };
        self.files.on_heap() + parts + self.ends.on_heap()
    }
}

/// About: what it takes as text counts, too.
impl OnHeap for StoredType {
    fn on_heap(&self) -> u64 {
        self.weight() as u64
    }
}
