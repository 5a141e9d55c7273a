//! LZ4 (filter 32004): a header of 12 bytes, then blocks, each with its stored length in front.
//!
//! Header: plain size (8 bytes), plain size of a block (4). A block as long as it is plain is
//! stored as it is. All numbers are big-endian.

use super::error::FilterError;
use crate::blosc::lz4;

/// Bytes of the header.
pub(super) const HEADER: usize = 12;

/// Decodes into the front of `out`; returns the number of bytes written.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (size, block, mut rest) = header(stored)?;
    let room = out.len();
    let out = usize::try_from(size)
        .ok()
        .and_then(|size| out.get_mut(..size));
    let out = out.ok_or_else(|| FilterError::too_long(room).found(size))?;
    if block == 0 && !out.is_empty() {
        return Err(FilterError::new("the header gives blocks of 0 bytes"));
    }
    for plain in out.chunks_mut(block.max(1)) {
        let bytes = take_block(&mut rest)?;
        if bytes.len() == plain.len() {
            plain.copy_from_slice(bytes);
        } else {
            lz4::decode(bytes, plain)?;
        }
    }
    Ok(out.len())
}

/// Plain size, the number behind it, and what follows the header; bit shuffle has the same header.
pub(super) fn header(stored: &[u8]) -> Result<(u64, usize, &[u8]), FilterError> {
    let (head, rest) = stored
        .split_first_chunk::<HEADER>()
        .ok_or_else(FilterError::truncated)?;
    let [a, b, c, d, e, f, g, h, block @ ..] = *head;
    let size = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    Ok((size, u32::from_be_bytes(block) as usize, rest))
}

/// The stored bytes of the next block, which are taken from `rest`.
pub(super) fn take_block<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], FilterError> {
    let (len, behind) = rest
        .split_first_chunk::<4>()
        .ok_or_else(FilterError::truncated)?;
    let len = u32::from_be_bytes(*len) as usize;
    let (bytes, behind) = behind.split_at_checked(len).ok_or_else(|| {
        FilterError::new("a block claims more bytes than are stored")
            .expected(format_args!("at most {}", behind.len()))
            .found(len)
    })?;
    *rest = behind;
    Ok(bytes)
}
