//! The codecs of Zarr, by the names that numcodecs gives them: the stored bytes of a chunk to the
//! bytes of its elements.
//!
//! A chunk went through a row of codecs when it was written, which are undone from the last to the
//! first ([`Chain`]): those that compress or add a sum ([`compressed`], [`lzma`], [`sums`]) and those
//! that change elements ([`number`], [`numbers`], [`reorder`]). How many bytes each leaves is known
//! from the chunk's own size, exactly up to the first that compresses and as a bound behind it, so
//! nothing is made as long as stored bytes claim.
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
pub use number::{Number, NumberType, half};
pub use reorder::{Reorder, Turn};
pub use sums::Sum;

use sums::SUM;

/// A codec as the metadata of an array configure it.
#[derive(Debug, Clone, PartialEq)]
pub enum Codec {
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
    Pcodec(Number),
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
    Turn(Turn),
}

impl Codec {
    pub fn name(&self) -> &'static str {
        match self {
            Codec::Blosc => "blosc",
            Codec::Gzip => "gzip",
            Codec::Zlib => "zlib",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
            Codec::Bz2 => "bz2",
            Codec::Lzma(_) => "lzma",
            Codec::Sum { sum, .. } => sum.name(),
            Codec::Shuffle { .. } => "shuffle",
            Codec::Pcodec(_) => "pcodec",
            Codec::Delta { .. } => "delta",
            Codec::AsType { .. } => "astype",
            Codec::FixedScaleOffset { .. } => "fixedscaleoffset",
            Codec::Packbits => "packbits",
            Codec::Categorize { .. } => "categorize",
            Codec::Reorder(_) => "transpose",
            Codec::Turn(_) => "bytes",
        }
    }

    /// Bytes that it makes of so many when a chunk is written.
    fn encoded(&self, plain: Length) -> Length {
        match self {
            Codec::Blosc
            | Codec::Gzip
            | Codec::Zlib
            | Codec::Zstd
            | Codec::Lz4
            | Codec::Bz2
            | Codec::Lzma(_)
            | Codec::Pcodec(_) => plain.compressed(),
            Codec::Sum { .. } => plain.map(|n| n.saturating_add(SUM)),
            Codec::Shuffle { .. } | Codec::Reorder(_) | Codec::Turn(_) => plain,
            Codec::Delta { shown, stored }
            | Codec::AsType { shown, stored }
            | Codec::FixedScaleOffset { shown, stored, .. } => {
                let size = stored.size();
                plain.map(|n| (n / shown.size()).saturating_mul(size))
            }
            Codec::Packbits => plain.map(|n| n.div_ceil(8) + 1),
            Codec::Categorize { size, stored, .. } => {
                plain.map(|n| (n / (*size).max(1)).saturating_mul(stored.size()))
            }
        }
    }
}
