//! HDF5's filter pipeline: the stored bytes of a chunk to its plain bytes, and back.
//!
//! A dataset's filters are applied one after another when a chunk is written, and undone from the
//! last to the first when it is read. [`Pipeline::new`] checks filters and client values once;
//! [`Pipeline::decode`] and [`FilterEncoder::encode`] then run per chunk, in any number of threads,
//! each with its own scratch memory.
//!
//! Used by HDF5 containers. Bytes in, bytes out: no I/O, and of the codecs only those of
//! `codec::blosc`. Every chunk is taken to be hostile: each filter writes within the
//! room it is given, which is bounded by the size of a chunk, and ends with bytes or a
//! [`FilterError`].
//!
//! A [`Pipeline`] describes; `decode.rs` runs it backwards, [`encode`] forwards. Adding a filter: a
//! decoder in a file of its own, and its lines in `checked.rs`; an encoder, and its lines in
//! `encode/filter.rs`.

mod bits;
mod bitshuffle;
pub(crate) mod blosc;
mod blosc2;
pub(crate) mod checked;
mod decode;
mod encode;
mod error;
pub(crate) mod fletcher32;
pub(crate) mod libraries;
mod lz4;
mod lzf;
mod nbit;
mod scale_offset;
pub(crate) mod shuffle;
mod szip;
#[cfg(test)]
mod tests;
pub(crate) mod tools;

pub use encode::FilterEncoder;
pub use error::{FilterError, Unsupported};

use checked::CheckedFilter;

/// Those that have a decoder.
pub const NAMES: [&str; 13] = [
    "gzip",
    "shuffle",
    "fletcher32",
    "szip",
    "nbit",
    "scaleoffset",
    "bzip2",
    "lzf",
    "blosc",
    "lz4",
    "bitshuffle",
    "zstd",
    "blosc2",
];

/// Filters that HDF5 allows in a pipeline, one per bit of a chunk's mask.
const MAX_FILTERS: usize = 32;

/// A chunk between two filters is at most twice as long as it is plain, and so many bytes.
const MAX_GROWTH: usize = 1 << 20;

/// Whether a chunk that went through a filter can be decoded.
pub fn has_decoder(filter: &FilterDescription) -> bool {
    CheckedFilter::new(filter).unusable().is_none()
}

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
    filters: Vec<CheckedFilter>,
    /// The filters as they were given: how they encode.
    described: Vec<FilterDescription>,
    chunk_bytes: usize,
}

impl FilterDescription {
    /// Whether libhdf5, or who brings the filter, gives chunks to it with these values.
    pub fn is_applied(&self) -> bool {
        checked::is_applied(self)
    }

    pub fn name(&self) -> &'static str {
        CheckedFilter::new(self).name()
    }
}

impl Pipeline {
    /// Checks the filters, which are in order of writing. Those that no chunk can go through may
    /// stand among them: see [`Pipeline::unusable`].
    ///
    /// `chunk_bytes` is the plain size of a chunk, in the file's own type.
    pub fn new(filters: &[FilterDescription], chunk_bytes: usize) -> Result<Self, Unsupported> {
        if let Some(filter) = filters.get(MAX_FILTERS) {
            return Err(Unsupported::new(filter.id, "more than 32 filters"));
        }
        let checked = filters.iter().map(CheckedFilter::new);
        Ok(Self {
            filters: checked.collect(),
            described: filters.to_vec(),
            chunk_bytes,
        })
    }

    /// The first filter that cannot be undone and that a chunk of this mask went through.
    pub fn unusable(&self, mask: u32) -> Option<&Unsupported> {
        let numbered = (0..u32::BITS).zip(&self.filters);
        let mut applied = numbered.filter(|(bit, _)| mask >> bit & 1 == 0);
        applied.find_map(|(_, filter)| filter.unusable())
    }

    /// Whether a chunk of this mask is decoded to every bit that it was encoded from: n-bit leaves
    /// those out that its numbers do not have.
    pub fn keeps_every_bit(&self, mask: u32) -> bool {
        let numbered = (0..u32::BITS).zip(&self.filters);
        let mut applied = numbered.filter(|(bit, _)| mask >> bit & 1 == 0);
        applied.all(|(_, filter)| !matches!(filter, CheckedFilter::Nbit(_)) || filter.is_view())
    }

    /// The filters in order of writing, as in `shuffle+gzip`; `none` if there is none.
    pub fn name(&self) -> String {
        let name = |filter: &CheckedFilter| match filter.unusable() {
            Some(unknown) if unknown.is_unknown => format!("filter-{}", unknown.id),
            _ => filter.name().to_owned(),
        };
        let names: Vec<_> = self.filters.iter().map(name).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join("+"),
        }
    }

    /// The most that a chunk of `stored` bytes can decode to; `u64::MAX` where there is no bound.
    ///
    /// Guards allocation by a claimed chunk size. A filter that the chunk's mask skips is counted,
    /// as it can only make the bound larger.
    pub fn most(&self, stored: u64) -> u64 {
        let undo = |bytes: u64, filter: &CheckedFilter| bytes.max(filter.most(bytes));
        self.filters.iter().rev().fold(stored, undo)
    }

    /// The most that a filter makes of `plain` bytes; many filters together do not add up beyond
    /// bounds.
    fn most_stored(&self, filter: &CheckedFilter, plain: usize) -> usize {
        let limit = self.chunk_bytes.saturating_mul(2);
        filter
            .most_stored(plain)
            .min(limit.saturating_add(MAX_GROWTH))
    }
}
