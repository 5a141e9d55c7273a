//! The codecs of Zarr, by the names that numcodecs gives them: the stored bytes of a chunk to the
//! bytes of its elements.
//!
//! A chunk went through a row of codecs when it was written, which are undone from the last to the
//! first ([`Chain`]): those that compress or add a sum ([`compressed`], [`lzma`], [`sums`]) and
//! those that change elements ([`number`], [`numbers`], [`reorder`]). How many bytes each leaves is
//! known from the chunk's own size, exactly up to the first that compresses and as a bound behind
//! it, so nothing is made as long as stored bytes claim.
//!
//! Bytes in, bytes out: used by Zarr containers. Every chunk is taken to be hostile.

mod chain;
mod compressed;
mod lzma;
mod number;
mod numbers;
mod reorder;
mod sums;
#[cfg(test)]
mod tests;
mod xz;

pub use chain::{Chain, Length};
pub use compressed::inflate;
pub use lzma::{LzmaFilter, LzmaForm};
pub use number::{NumberType, NumpyNumber, half};
pub use reorder::{ByteTurn, NumberRun, Reorder};
pub use sums::Sum;

use crate::filters::checked::{BZIP2_RATIO, DEFLATE_RATIO, LZ4_RATIO, ZSTD_RATIO};
use sums::SUM;

/// A codec as the metadata of an array configure it.
#[derive(Debug, Clone, PartialEq)]
pub enum ChunkCodec {
    Blosc,
    Gzip,
    Zlib,
    Zstd,
    Lz4,
    Bz2,
    Lzma(LzmaForm),
    /// A sum of the bytes behind it, or before it.
    Sum {
        sum: Sum,
        at_start: bool,
    },
    Shuffle {
        size: usize,
    },
    Pcodec(NumpyNumber),
    Delta {
        shown: NumberType,
        stored: NumberType,
    },
    /// Elements of one type stored as those of another.
    AsType {
        shown: NumberType,
        stored: NumberType,
    },
    FixedScaleOffset {
        scale: f64,
        offset: f64,
        shown: NumberType,
        stored: NumberType,
    },
    Packbits,
    /// Elements of `size` bytes, stored as their numbers from 1 on among those that there may be.
    Categorize {
        labels: Vec<u8>,
        size: usize,
        stored: NumberType,
    },
    /// Dimensions in another order.
    Reorder(Reorder),
    /// Numbers in the other byte order.
    ByteTurn(ByteTurn),
}

impl ChunkCodec {
    pub fn name(&self) -> &'static str {
        match self {
            ChunkCodec::Blosc => "blosc",
            ChunkCodec::Gzip => "gzip",
            ChunkCodec::Zlib => "zlib",
            ChunkCodec::Zstd => "zstd",
            ChunkCodec::Lz4 => "lz4",
            ChunkCodec::Bz2 => "bz2",
            ChunkCodec::Lzma(_) => "lzma",
            ChunkCodec::Sum { sum, .. } => sum.name(),
            ChunkCodec::Shuffle { .. } => "shuffle",
            ChunkCodec::Pcodec(_) => "pcodec",
            ChunkCodec::Delta { .. } => "delta",
            ChunkCodec::AsType { .. } => "astype",
            ChunkCodec::FixedScaleOffset { .. } => "fixedscaleoffset",
            ChunkCodec::Packbits => "packbits",
            ChunkCodec::Categorize { .. } => "categorize",
            ChunkCodec::Reorder(_) => "transpose",
            ChunkCodec::ByteTurn(_) => "bytes",
        }
    }

    /// The most bytes that it can make of so many stored ones; `u64::MAX` where there is no bound.
    fn most(&self, stored: u64) -> u64 {
        let times = |ratio: u64| stored.saturating_mul(ratio);
        match self {
            ChunkCodec::Gzip | ChunkCodec::Zlib => times(DEFLATE_RATIO),
            ChunkCodec::Lz4 => times(LZ4_RATIO),
            ChunkCodec::Bz2 => times(BZIP2_RATIO),
            ChunkCodec::Blosc | ChunkCodec::Zstd | ChunkCodec::Lzma(_) => times(ZSTD_RATIO),
            ChunkCodec::Pcodec(_) => u64::MAX,
            ChunkCodec::Sum { .. } => stored.saturating_sub(SUM as u64),
            ChunkCodec::Shuffle { .. } | ChunkCodec::Reorder(_) | ChunkCodec::ByteTurn(_) => stored,
            ChunkCodec::Delta { shown, stored: of }
            | ChunkCodec::AsType { shown, stored: of }
            | ChunkCodec::FixedScaleOffset {
                shown, stored: of, ..
            } => (stored / of.size() as u64).saturating_mul(shown.size() as u64),
            ChunkCodec::Packbits => times(8),
            ChunkCodec::Categorize {
                size, stored: of, ..
            } => (stored / of.size() as u64).saturating_mul(*size as u64),
        }
    }

    /// Bytes that it makes of so many when a chunk is written.
    fn encoded(&self, plain: Length) -> Length {
        match self {
            ChunkCodec::Blosc
            | ChunkCodec::Gzip
            | ChunkCodec::Zlib
            | ChunkCodec::Zstd
            | ChunkCodec::Lz4
            | ChunkCodec::Bz2
            | ChunkCodec::Lzma(_)
            | ChunkCodec::Pcodec(_) => plain.compressed(),
            ChunkCodec::Sum { .. } => plain.map(|n| n.saturating_add(SUM)),
            ChunkCodec::Shuffle { .. } | ChunkCodec::Reorder(_) | ChunkCodec::ByteTurn(_) => plain,
            ChunkCodec::Delta { shown, stored }
            | ChunkCodec::AsType { shown, stored }
            | ChunkCodec::FixedScaleOffset { shown, stored, .. } => {
                let size = stored.size();
                plain.map(|n| (n / shown.size()).saturating_mul(size))
            }
            ChunkCodec::Packbits => plain.map(|n| n.div_ceil(8) + 1),
            ChunkCodec::Categorize { size, stored, .. } => {
                plain.map(|n| (n / (*size).max(1)).saturating_mul(stored.size()))
            }
        }
    }
}
