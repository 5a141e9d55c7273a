//! Blosc (filter 32001): one Blosc-1 chunk, which says itself how it is to be decoded.

use super::error::FilterError;
use super::tools::Tools;
use crate::blosc::ChunkHeader;
use crate::blosc::bitshuffle::TILE_MOST;
use crate::memory::room;

/// Most bytes that lie between the planes of a block.
const GAPS: usize = 16 * 320;

/// Memory to decode at most `plain` bytes: a block still in planes, and the tile of bit shuffle.
pub(crate) fn scratch(plain: usize) -> u64 {
    let planes = plain.saturating_add(GAPS);
    room(planes.saturating_add(plain.min(TILE_MOST)) as u64)
}

/// Decodes into the front of `out`; returns the number of bytes written.
pub(crate) fn decode(
    tools: &mut Tools,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let head = stored.first_chunk().ok_or_else(FilterError::truncated)?;
    let header = ChunkHeader::parse(head)?;
    let (plain, packed) = (header.nbytes() as usize, header.ctbytes() as usize);
    let chunk = stored.get(..packed).ok_or_else(|| {
        FilterError::new("the chunk claims more bytes than are stored")
            .expected(format_args!("at most {}", stored.len()))
            .found(packed)
    })?;
    let most = out.len();
    let out = out
        .get_mut(..plain)
        .ok_or_else(|| FilterError::too_long(most).found(plain))?;
    let scratch = tools.take(header.scratch())?;
    let decoder = &mut tools.contexts.blosc;
    decoder.decode_chunk(&header, chunk, out, scratch)?;
    Ok(plain)
}
