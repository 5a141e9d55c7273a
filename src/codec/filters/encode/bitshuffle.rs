//! Bitshuffle (filter 32008), encoded: see `filters/bitshuffle.rs` for the form.
//!
//! Each block is turned into its rows of bits, in the output or, if these are compressed, in
//! scratch memory.

use super::super::bitshuffle::{Bitshuffle, BitshuffleCode};
use super::super::tools::Tools;
use super::{lz4, streams};
use crate::blosc::bitshuffle::most_scratch;
use crate::blosc::encode::bitshuffle::bitshuffle;
use crate::error::Result;
use crate::memory::room;

/// Memory to encode at most `plain` bytes: the largest block in rows, and working memory.
pub(super) fn scratch(filter: &Bitshuffle, level: i32, plain: usize) -> u64 {
    let block = filter.block_bytes(plain);
    let (rows, library) = match filter.code {
        BitshuffleCode::Plain => (0, 0),
        BitshuffleCode::Lz4 => (block, 0),
        BitshuffleCode::Zstd => (block, streams::zstd_workspace(level, block)),
    };
    let tile = room(most_scratch(filter.width, block) as u64);
    room(rows as u64)
        .saturating_add(tile)
        .saturating_add(library)
}

/// Encodes to the front of `out` and returns the number of bytes written; none if they do not fit,
/// or if the bytes are no whole elements.
pub(super) fn encode(
    filter: &Bitshuffle,
    level: i32,
    tools: &mut Tools,
    plain: &[u8],
    out: &mut [u8],
) -> Result<Option<usize>> {
    let width = filter.width;
    if !plain.len().is_multiple_of(width) {
        return Ok(None);
    }
    let block = filter.block_bytes(plain.len());
    let (blocks, tail) = plain.split_at(plain.len() - plain.len() / width % 8 * width);
    let tile = tools.take(most_scratch(width, block))?;
    if filter.code == BitshuffleCode::Plain {
        let (rows, rest) = out.split_at_mut(blocks.len());
        for (elements, rows) in blocks
            .chunks(block.max(1))
            .zip(rows.chunks_mut(block.max(1)))
        {
            bitshuffle(elements, width, rows, elements.len() / width, tile);
        }
        rest[..tail.len()].copy_from_slice(tail);
        return Ok(Some(plain.len()));
    }
    let rows = tools.take(block)?;
    // The size that the chunk names is that of the pipeline, even where the chunk has fewer.
    let Some(mut at) = lz4::put_header(plain.len(), filter.named_block(), out) else {
        return Ok(None);
    };
    for elements in blocks.chunks(block.max(1)) {
        let rows = &mut rows[..elements.len()];
        bitshuffle(elements, width, rows, elements.len() / width, tile);
        match put_block(filter.code, level, tools, rows, &mut out[at..])? {
            Some(len) => at += len,
            None => return Ok(None),
        }
    }
    Ok(out.get_mut(at..at + tail.len()).map(|place| {
        place.copy_from_slice(tail);
        at + tail.len()
    }))
}

/// A block with its length in front; none if it does not fit.
fn put_block(
    code: BitshuffleCode,
    level: i32,
    tools: &mut Tools,
    rows: &[u8],
    out: &mut [u8],
) -> Result<Option<usize>> {
    let Some((front, rest)) = out.split_first_chunk_mut::<4>() else {
        return Ok(None);
    };
    let packed = match code {
        BitshuffleCode::Zstd => streams::zstd(tools.contexts, level, rows, rest)?,
        _ => lz4::compress(rows, rest),
    };
    let len = packed.and_then(|len| Some((len, u32::try_from(len).ok()?)));
    Ok(len.map(|(len, number)| {
        *front = number.to_be_bytes();
        front.len() + len
    }))
}
