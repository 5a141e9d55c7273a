//! Blosc (filter 32001): one Blosc-1 chunk, which says itself how it is to be decoded.

use super::error::FilterError;
use super::tools::Tools;
use crate::codec::blosc::ChunkHeader;

/// Memory to decode at most `plain` bytes.
pub(super) fn scratch(plain: usize) -> u64 {
    let _ = plain;
    0
}

/// Decodes into the front of `out`; returns the number of bytes written.
pub(super) fn decode(
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
    let room = out.len();
    let out = out
        .get_mut(..plain)
        .ok_or_else(|| FilterError::too_long(room).found(plain))?;
    tools.contexts.blosc.decode_chunk(&header, chunk, out)?;
    Ok(plain)
}
