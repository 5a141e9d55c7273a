//! HDF5's filter pipeline, decoded: the stored bytes of a chunk to its plain bytes.
//!
//! A dataset's filters are applied one after another when a chunk is written, and undone from the
//! last to the first when it is read. [`Pipeline::new`] checks filters and client values once;
//! [`Pipeline::decode`] then runs per chunk, in any number of threads, each with its own scratch.
//!
//! Used by the reader of HDF5 containers. Bytes in, bytes out: no I/O, and of the crate only the
//! decoders of `codec::blosc`. Every chunk is taken to be hostile: each filter writes within the
//! room it is given, which is bounded by the size of a chunk, and ends with bytes or a
//! [`FilterError`].
//!
//! A [`Pipeline`] describes; `decode.rs` runs it backwards. Adding a filter: a decoder in a file of its own,
//! and its lines in `checked.rs`.

mod bits;
mod bitshuffle;
mod blosc;
mod blosc2;
mod checked;
mod decode;
mod error;
mod fletcher32;
mod libraries;
mod lz4;
mod lzf;
mod nbit;
mod scale_offset;
mod shuffle;
mod szip;
#[cfg(test)]
mod tests;
mod tools;

pub use error::{FilterError, Unsupported};

use checked::{CheckedFilter, PlainSize};

/// Filters that HDF5 allows in a pipeline, one per bit of a chunk's mask.
const MAX_FILTERS: usize = 32;

/// A chunk between two filters is at most twice as long as it is plain, and so many bytes.
const MAX_GROWTH: usize = 1 << 20;

/// A filter as a dataset's header names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterDescription {
    /// Registered number.
    pub id: u32,
    /// Client values, as far as stored.
    pub values: Vec<u32>,
}

/// The filters of a dataset, in order of writing.
#[derive(Debug, Clone)]
pub struct Pipeline {
    stages: Vec<CheckedFilter>,
    chunk_bytes: usize,
}

impl Pipeline {
    /// Checks the filters, which are in order of writing; the first that cannot be decoded is named.
    ///
    /// `chunk_bytes` is the plain size of a chunk, in the file's own type.
    pub fn new(filters: &[FilterDescription], chunk_bytes: usize) -> Result<Self, Unsupported> {
        if let Some(filter) = filters.get(MAX_FILTERS) {
            return Err(Unsupported::new(filter.id, "more than 32 filters"));
        }
        let stages = filters
            .iter()
            .map(CheckedFilter::new)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            stages,
            chunk_bytes,
        })
    }

    /// The filters in order of writing, as in `shuffle+gzip`; `none` if there is none.
    pub fn name(&self) -> String {
        let names: Vec<_> = self.stages.iter().map(CheckedFilter::name).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join("+"),
        }
    }

    /// Chunks are stored as they are.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Upper bound of the memory that decoding takes beside the stored bytes and the output.
    pub fn scratch(&self) -> u64 {
        let mut size = self.plain_size();
        let (mut largest, mut own) = (0, 0);
        for stage in &self.stages {
            own = own.max(stage.scratch(size.most as u64));
            size = self.stored_size(stage, size);
            largest = largest.max(size.most as u64);
        }
        let between = self
            .stages
            .iter()
            .filter(|stage| !stage.is_view())
            .count()
            .min(2);
        own.saturating_add(largest.saturating_mul(between as u64))
    }

    /// The most that a chunk of `stored` bytes can decode to; `u64::MAX` where there is no bound.
    ///
    /// Guards allocation by a claimed chunk size. A filter that the chunk's mask skips is counted,
    /// as it can only make the bound larger.
    pub fn most(&self, stored: u64) -> u64 {
        let undo = |bytes: u64, stage: &CheckedFilter| bytes.max(stage.most(bytes));
        self.stages.iter().rev().fold(stored, undo)
    }

    /// Size of what `stage` makes of `plain` bytes; many filters together do not add up beyond bounds.
    fn stored_size(&self, stage: &CheckedFilter, plain: PlainSize) -> PlainSize {
        let PlainSize { most, exact } = stage.stored_size(plain);
        let limit = self
            .chunk_bytes
            .saturating_mul(2)
            .saturating_add(MAX_GROWTH);
        let most = if exact { most } else { most.min(limit) };
        PlainSize { most, exact }
    }

    fn plain_size(&self) -> PlainSize {
        PlainSize {
            most: self.chunk_bytes,
            exact: true,
        }
    }
}
