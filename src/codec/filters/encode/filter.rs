//! One filter of a pipeline as it encodes: its level and parameters, its sizes bounded.

use super::super::FilterDescription;
use super::super::bitshuffle::Bitshuffle;
use super::super::checked::{CheckedFilter, is_applied};
use super::super::nbit::Nbit;
use super::super::scale_offset::ScaleOffset;
use super::super::tools::Tools;
use super::super::{fletcher32, shuffle};
use super::{bitshuffle, blosc, lz4, streams};
use crate::blosc::encode::ChunkSettings;
use crate::error;

/// HDF5's own default.
const DEFLATE_LEVEL: i32 = 6;

/// A filter, ready to encode.
#[derive(Debug)]
pub(super) enum EncodingFilter {
    Deflate {
        level: i32,
    },
    Shuffle {
        width: usize,
    },
    Fletcher32,
    Nbit(Nbit),
    ScaleOffset(ScaleOffset),
    Bzip2 {
        level: u32,
    },
    Lz4 {
        /// Plain bytes of a block.
        block: usize,
    },
    Zstd {
        level: i32,
    },
    Bitshuffle {
        filter: Bitshuffle,
        /// Of zstd, where that comes behind.
        level: i32,
    },
    Blosc(ChunkSettings),
    /// Every chunk skips it.
    Skipped,
}

impl EncodingFilter {
    /// With the client values of a dataset; says why if chunks cannot be given to it.
    pub(super) fn new(
        checked: &CheckedFilter,
        described: &FilterDescription,
    ) -> Result<Self, String> {
        let value = |i: usize| described.values.get(i).copied();
        let level = |i: usize| value(i).map(u32::cast_signed);
        if !is_applied(described) {
            return Ok(Self::Skipped);
        }
        Ok(match checked {
            CheckedFilter::Deflate => Self::Deflate {
                level: level(0).unwrap_or(DEFLATE_LEVEL).clamp(0, 9),
            },
            CheckedFilter::Shuffle { width } => Self::Shuffle { width: *width },
            CheckedFilter::Fletcher32 => Self::Fletcher32,
            CheckedFilter::Nbit(filter) => Self::Nbit(filter.clone()),
            CheckedFilter::ScaleOffset(filter) if !filter.keeps_values() => {
                return Err(format!("{} is lossy", checked.name()));
            }
            CheckedFilter::ScaleOffset(filter) => Self::ScaleOffset(*filter),
            CheckedFilter::Bzip2 => Self::Bzip2 {
                level: value(0).unwrap_or(9).clamp(1, 9),
            },
            CheckedFilter::Lz4 => Self::Lz4 {
                block: lz4::block_bytes(value(0)),
            },
            CheckedFilter::Zstd => Self::Zstd {
                level: streams::zstd_level(level(0)),
            },
            CheckedFilter::Bitshuffle(filter) => Self::Bitshuffle {
                filter: *filter,
                level: streams::zstd_level(level(5).filter(|level| *level != 0)),
            },
            CheckedFilter::Blosc => Self::Blosc(blosc::settings(&described.values)?),
            CheckedFilter::Szip(_) | CheckedFilter::Lzf | CheckedFilter::Blosc2 => {
                return Err(format!("there is no encoder for {}", checked.name()));
            }
            CheckedFilter::Unusable(why) if !why.is_unknown => Self::Skipped,
            CheckedFilter::Unusable(why) => {
                return Err(match why.name() {
                    Some(name) => format!("there is no encoder for {name}"),
                    None => format!("there is no encoder for filter {}", why.id),
                });
            }
        })
    }

    /// Whether chunks come out as they go in, so that there is nothing to do.
    pub(super) fn keeps_bytes(&self) -> bool {
        match self {
            Self::Shuffle { width } => *width == 1,
            Self::Nbit(filter) => filter.keeps_bytes(),
            Self::ScaleOffset(filter) => filter.keeps_bytes(),
            _ => false,
        }
    }

    /// The most that the filter makes of `plain` bytes: where it would be more, it is skipped.
    pub(super) fn most(&self, plain: usize) -> usize {
        match self {
            Self::Fletcher32 => plain.saturating_add(fletcher32::LEN),
            _ => plain,
        }
    }

    /// Encodes to the front of `out`, which has [`EncodingFilter::most`] bytes, and returns the
    /// number of bytes written; none where the filter is to be skipped. Takes
    /// [`EncodingFilter::scratch`] of memory at most.
    pub(super) fn encode(
        &self,
        mut tools: Tools<'_>,
        plain: &[u8],
        out: &mut [u8],
    ) -> error::Result<Option<usize>> {
        let written = match self {
            Self::Skipped => return Ok(None),
            Self::Shuffle { width } => {
                shuffle::encode(*width, plain, out);
                return Ok(Some(plain.len()));
            }
            Self::Fletcher32 => return Ok(fletcher32::append(plain, out)),
            Self::Nbit(filter) => return Ok(filter.encode(plain, out)),
            Self::Bitshuffle { filter, level } => {
                let written = bitshuffle::encode(filter, *level, &mut tools, plain, out)?;
                return Ok(written.filter(|len| filter.keeps_size() || *len < plain.len()));
            }
            Self::Deflate { level } => streams::deflate(tools.contexts, *level, plain, out)?,
            Self::Zstd { level } => streams::zstd(tools.contexts, *level, plain, out)?,
            Self::Bzip2 { level } => streams::bzip2(*level, plain, out)?,
            Self::Lz4 { block } => lz4::encode(*block, plain, out),
            Self::Blosc(settings) => blosc::encode(settings, &mut tools, plain, out)?,
            Self::ScaleOffset(filter) => filter.encode(plain, out),
        };
        Ok(written.filter(|len| *len < plain.len()))
    }

    /// Memory beside input and output to encode at most `plain` bytes.
    pub(super) fn scratch(&self, plain: usize) -> u64 {
        match self {
            Self::Bzip2 { level } => streams::bzip2_workspace(*level),
            Self::Zstd { level } => streams::zstd_workspace(*level, plain),
            Self::Bitshuffle { filter, level } => bitshuffle::scratch(filter, *level, plain),
            Self::Blosc(settings) => blosc::scratch(settings, plain),
            _ => 0,
        }
    }
}
