//! Blosc2 (filter 32026): a contiguous frame that holds one chunk, or that chunk alone.
//!
//! One-dimensional chunks of HDF5 come as a plain frame, others as a `b2nd` array whose blocks are
//! boxes, cut out of the chunk in every dimension and padded at its edges. Not decoded, and refused
//! by name: codecs and filters of plugins, dictionaries, frames of several chunks, lazy chunks.
//!
//! Source: the chunk, frame and B2ND format descriptions of C-Blosc2.

mod boxes;
mod chunk;
mod frame;
mod undo;

use super::error::FilterError;
use super::tools::Tools;
use crate::blosc::bitshuffle::TILE_MOST;
use crate::memory::room;

/// Bytes of the offset of a chunk in a frame.
const OFFSET: usize = 8;
use boxes::Boxes;
use chunk::{Blosc2Chunk, Blosc2Header};
use frame::{Frame, FrameBody};

/// Memory to decode at most `plain` bytes: a block still in planes, the tile of bit shuffle, and
/// where blocks are boxes, one block and the first one. A block is never larger than the chunk; the
/// index of a frame is a chunk of 8 bytes.
pub(super) fn scratch(plain: usize) -> u64 {
    let one = plain.max(OFFSET);
    let tile = one.min(TILE_MOST);
    let blocks = room(one as u64).saturating_mul(3);
    blocks
        .saturating_add(room(tile as u64))
        .max(super::blosc::scratch(one))
}

/// Decodes into the front of `out`; returns the number of bytes written.
pub(super) fn decode(
    tools: &mut Tools,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    if !Frame::is(stored) {
        return decode_chunk(tools, stored, out);
    }
    let frame = Frame::parse(stored)?;
    let boxes = frame.boxes()?;
    let body = frame.body(tools)?;
    let most = out.len();
    match (body, boxes) {
        (FrameBody::Blosc2Chunk(bytes), None) => decode_chunk(tools, bytes, out),
        (FrameBody::Blosc2Chunk(bytes), Some(boxes)) => decode_boxes(tools, bytes, &boxes, out),
        (FrameBody::Special(special), boxes) => {
            let len = boxes.map_or(frame.plain, |boxes| boxes.len());
            let out = out
                .get_mut(..len)
                .ok_or_else(|| FilterError::too_long(most).found(len))?;
            special.fill(out)?;
            Ok(len)
        }
    }
}

/// A chunk with the header of Blosc2, or with that of Blosc-1.
fn decode_chunk(tools: &mut Tools, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    if !Blosc2Header::is_extended(stored) {
        return super::blosc::decode(tools, stored, out);
    }
    let chunk = Blosc2Chunk::parse(stored)?;
    let (len, most) = (chunk.header.nbytes, out.len());
    let out = out
        .get_mut(..len)
        .ok_or_else(|| FilterError::too_long(most).found(len))?;
    if let Some(special) = chunk.special()? {
        special.fill(out)?;
        return Ok(len);
    }
    for i in 0..chunk.blocks() {
        let (done, rest) = out.split_at_mut(i * chunk.header.blocksize);
        let len = rest.len().min(chunk.header.blocksize);
        let first = (i > 0).then_some(&*done);
        chunk.decode_block(tools.lend(), i, first, &mut rest[..len])?;
    }
    Ok(len)
}

/// A chunk whose blocks are boxes of an array.
fn decode_boxes(
    tools: &mut Tools,
    stored: &[u8],
    boxes: &Boxes,
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let (len, most) = (boxes.len(), out.len());
    let out = out
        .get_mut(..len)
        .ok_or_else(|| FilterError::too_long(most).found(len))?;
    let chunk = Blosc2Chunk::parse(stored)?;
    if let Some(special) = chunk.special()? {
        special.fill(out)?;
        return Ok(len);
    }
    boxes.check(chunk.header.nbytes, chunk.header.blocksize)?;
    let block = tools.take(chunk.header.blocksize)?;
    let first = tools.take(match chunk.needs_first() {
        true => block.len(),
        false => 0,
    })?;
    for i in 0..chunk.blocks() {
        let reference = (i > 0).then_some(&*first);
        chunk.decode_block(tools.lend(), i, reference, block)?;
        if i == 0 {
            first.copy_from_slice(&block[..first.len()]);
        }
        boxes.place(i, block, out);
    }
    Ok(len)
}
