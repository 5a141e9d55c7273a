//! Blosc (filter 32001), encoded: one Blosc-1 chunk, by the encoder of `codec::blosc`.
//!
//! Client values: two of the version, element size, bytes of a chunk, level, shuffle (0 none, 1
//! byte, 2 bit), compressor. The last three may be left out.

use super::super::tools::Tools;
use crate::blosc::Filter;
use crate::blosc::encode::{
    BlockSize, ChunkPlan, ChunkSettings, Compressor, EncodeError, SMALLEST_BLOCK,
};
use crate::error::{Error, Result};
use crate::memory::{no_memory, room};

/// The plugin's default.
const LEVEL: u8 = 5;

/// What a chunk is encoded by; says why if there is no such encoder.
pub(super) fn settings(values: &[u32]) -> std::result::Result<ChunkSettings, String> {
    let value = |i: usize| values.get(i).copied();
    let compressor = match value(6).unwrap_or(0) {
        0 => Compressor::BloscLz,
        1 => Compressor::Lz4,
        2 => Compressor::Lz4Hc,
        3 => Compressor::Snappy,
        4 => Compressor::Zlib,
        5 => Compressor::Zstd,
        other => {
            return Err(format!(
                "there is no encoder for compressor {other} of blosc"
            ));
        }
    };
    let filter = match value(5).unwrap_or(1) {
        0 => Filter::None,
        1 => Filter::Shuffle,
        2 => Filter::Bitshuffle,
        other => return Err(format!("there is no encoder for shuffle {other} of blosc")),
    };
    // As the plugin does, elements that are too large for Blosc are taken as bytes.
    let typesize = value(2)
        .and_then(|size| u8::try_from(size).ok())
        .unwrap_or(1);
    Ok(ChunkSettings {
        level: value(4).map_or(LEVEL, |level| level.min(9) as u8),
        block_size: BlockSize::Rule,
        ..ChunkSettings::new(compressor, filter, typesize)
    })
}

/// Memory to encode at most `plain` bytes. Below the size from which the rule counts, a block can
/// be larger than those of a larger chunk.
pub(super) fn scratch(settings: &ChunkSettings, plain: usize) -> u64 {
    let sizes = [plain, plain.min(SMALLEST_BLOCK as usize - 1)];
    let plans = sizes.map(|size| ChunkPlan::new(settings, size));
    let scratch = plans.iter().flatten().map(|plan| plan.scratch_of(1));
    room(scratch.max().unwrap_or(0) as u64)
}

/// Encodes to the front of `out` and returns the number of bytes written; none if the chunk does
/// not get smaller, or is too large for Blosc.
pub(super) fn encode(
    settings: &ChunkSettings,
    tools: &mut Tools,
    plain: &[u8],
    out: &mut [u8],
) -> Result<Option<usize>> {
    let Ok(plan) = ChunkPlan::new(settings, plain.len()) else {
        return Ok(None);
    };
    let scratch = tools.take(plan.scratch_of(1))?;
    let encoder = &mut tools.contexts.blosc_encoder;
    let written = encoder.smaller_chunk(settings, plain, out, scratch);
    written.map_err(|error| match error {
        EncodeError::NoContext => no_memory("cannot encode a chunk"),
        other => Error::Bug(other.to_string()),
    })
}
