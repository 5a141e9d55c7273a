//! LZ4 (filter 32004), encoded: see `filters/lz4.rs` for the form.

use super::super::lz4::HEADER;
use lz4::block::{CompressionMode, compress_to_buffer};

/// Plain bytes of a block, where the writer names none.
const BLOCK: u32 = 1 << 30;

/// Plain bytes of a block, by the client value.
pub(super) fn block_bytes(value: Option<u32>) -> usize {
    value.filter(|bytes| *bytes > 0).unwrap_or(BLOCK) as usize
}

/// Encodes to the front of `out` and returns the number of bytes written; none if they do not fit.
pub(super) fn encode(block: usize, plain: &[u8], out: &mut [u8]) -> Option<usize> {
    let block = block.min(plain.len());
    let mut at = put_header(plain.len(), block, out)?;
    for part in plain.chunks(block.max(1)) {
        let (front, rest) = out.get_mut(at..)?.split_first_chunk_mut()?;
        let room = rest.len().min(part.len());
        let packed = compress(part, &mut rest[..room]).filter(|len| *len < part.len());
        let len = match packed {
            Some(len) => len,
            None => {
                rest.get_mut(..part.len())?.copy_from_slice(part);
                part.len()
            }
        };
        *front = u32::try_from(len).ok()?.to_be_bytes();
        at += front.len() + len;
    }
    Some(at)
}

/// Writes the size of the chunk and that of a block, in bytes; returns the length of both.
pub(super) fn put_header(size: usize, block: usize, out: &mut [u8]) -> Option<usize> {
    let (head, _) = out.split_first_chunk_mut::<HEADER>()?;
    head[..8].copy_from_slice(&(size as u64).to_be_bytes());
    head[8..].copy_from_slice(&u32::try_from(block).ok()?.to_be_bytes());
    Some(HEADER)
}

/// One block; none if it does not fit.
pub(super) fn compress(plain: &[u8], out: &mut [u8]) -> Option<usize> {
    // The library's numbers are signed; such a block does not fill more.
    let most = out.len().min(i32::MAX as usize);
    let mode = Some(CompressionMode::DEFAULT);
    compress_to_buffer(plain, mode, false, &mut out[..most]).ok()
}
