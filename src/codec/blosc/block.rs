//! Blocks of a chunk to plain bytes: streams found, decoded, and the filter undone.
//!
//! Shuffled streams are decoded into scratch memory of the caller, except raw ones, which the
//! filter reads where they are stored; without a filter everything is decoded straight into the
//! output. [`Decoder`] keeps nothing between blocks but the libraries' contexts, which are of fixed
//! size.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

use super::bitshuffle::{self, unbitshuffle};
use super::codecs::{Codecs, SLACK};
use super::error::BloscError;
use super::header::{ChunkHeader, Filter, MAX_STREAMS};
use super::shuffle::{Planes, unshuffle};
use super::streams::{BlockStream, BlockStreams};
use crate::contexts::Contexts;

/// Bytes between the planes of a split block in scratch. Planes are often a multiple of 4 KiB long;
/// the gap keeps them from all competing for the same lines of the first-level cache.
pub(super) const PLANE_GAP: usize = 320;
const _: () = assert!(PLANE_GAP >= SLACK && MAX_STREAMS * PLANE_GAP >= SLACK);

/// Contexts of the codecs' libraries, reused between blocks.
#[derive(Default)]
pub struct Decoder {
    codecs: Codecs,
}

impl Decoder {
    /// Without buffers yet; they grow with what is decoded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lends one of those that are kept for the next.
    pub fn lend<T>(decode: impl FnOnce(&mut Self) -> T) -> T {
        Contexts::lend(|contexts| decode(&mut contexts.blosc))
    }

    /// Decodes one block into `out`, which must have exactly its plain length.
    ///
    /// `stored` begins at the block's entry in the table of block starts and ends anywhere behind
    /// the block; for memcpyed chunks it begins with the block's raw bytes. `scratch` has at least
    /// [`ChunkHeader::scratch`] bytes of any value. On failure `out` holds rubbish.
    pub fn decode_block(
        &mut self,
        header: &ChunkHeader,
        block: u32,
        stored: &[u8],
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), BloscError> {
        check_output(header, block, out)?;
        if header.memcpyed() {
            return copy_raw(block, stored, out);
        }
        let (found, expected) = (scratch.len(), header.scratch());
        if found < expected {
            return Err(BloscError::ScratchSize { found, expected });
        }
        let streams = BlockStreams::new(header, block, stored, out.len())?;
        let typesize = usize::from(header.typesize());
        match filter_of_block(header.filter(), typesize, out.len()) {
            Filter::None => self.decode_unfiltered(streams, out),
            filter if streams.count > 1 => self.decode_split(streams, filter, out, scratch),
            filter => self.decode_whole(streams, filter, typesize, out, scratch),
        }
    }

    /// Decodes all blocks of a complete chunk into `out`, which must have exactly `nbytes`, with
    /// `scratch` as [`Decoder::decode_block`] takes it.
    pub fn decode_chunk(
        &mut self,
        header: &ChunkHeader,
        chunk: &[u8],
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), BloscError> {
        let (found, expected) = (chunk.len(), header.ctbytes() as usize);
        if found != expected {
            return Err(BloscError::ChunkSize { found, expected });
        }
        let (found, expected) = (out.len(), header.nbytes() as usize);
        if found != expected {
            return Err(BloscError::OutputSize { found, expected });
        }
        if header.memcpyed() {
            return copy_raw(0, &chunk[ChunkHeader::LEN..], out);
        }
        let table = header.bstarts_range();
        let starts = chunk[table.start as usize..table.end as usize]
            .as_chunks::<4>()
            .0;
        for (block, start) in (0..).zip(starts) {
            let start = check_start(header, block, u32::from_le_bytes(*start))?;
            let range = header.block_range(block);
            let out = &mut out[range.start as usize..range.end as usize];
            self.decode_block(header, block, &chunk[start..], out, scratch)?;
        }
        Ok(())
    }

    fn decode_unfiltered(
        &mut self,
        mut streams: BlockStreams,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        for part in out.chunks_exact_mut(streams.plain_len) {
            match streams.next()? {
                BlockStream::Raw(bytes) => part.copy_from_slice(bytes),
                BlockStream::Coded(bytes) => streams.decode(&mut self.codecs, bytes, part)?,
            }
        }
        Ok(())
    }

    /// Each stream is a byte plane (or the eight rows of one), and they divide the block evenly.
    fn decode_split(
        &mut self,
        mut streams: BlockStreams,
        filter: Filter,
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), BloscError> {
        let stride = streams.plain_len + PLANE_GAP;
        let (rooms, tile) = scratch.split_at_mut(streams.count * stride);
        let mut planes = [&[][..]; MAX_STREAMS];
        let planes = &mut planes[..streams.count];
        for (plane, room) in planes.iter_mut().zip(rooms.chunks_exact_mut(stride)) {
            *plane = streams.next_plain(&mut self.codecs, room)?;
        }
        undo(filter, Planes::Apart(planes), out, tile);
        Ok(())
    }

    /// One stream holds all planes, and then a tail shorter than an element, which is plain.
    fn decode_whole(
        &mut self,
        mut streams: BlockStreams,
        filter: Filter,
        typesize: usize,
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), BloscError> {
        let (room, tile) = scratch.split_at_mut(out.len() + SLACK);
        let shuffled = streams.next_plain(&mut self.codecs, room)?;
        let tail_at = out.len() - out.len() % typesize;
        let (bytes, tail) = shuffled.split_at(tail_at);
        let (elements, out_tail) = out.split_at_mut(tail_at);
        out_tail.copy_from_slice(tail);
        undo(
            filter,
            Planes::Joined {
                bytes,
                width: typesize,
            },
            elements,
            tile,
        );
        Ok(())
    }
}

/// Bytes of scratch that any block of a chunk takes, but for one whose blocks are as they are
/// stored.
pub(super) fn scratch_len(header: &ChunkHeader) -> usize {
    let (typesize, blocksize) = (usize::from(header.typesize()), header.blocksize() as usize);
    let planes = blocksize + MAX_STREAMS * PLANE_GAP;
    match header.filter() {
        _ if header.memcpyed() || header.nbytes() == 0 => 0,
        Filter::None => 0,
        Filter::Shuffle => planes,
        Filter::Bitshuffle => planes + bitshuffle::most_scratch(typesize, blocksize),
    }
}

/// The filter that a block of `len` bytes had: bit shuffle leaves some lengths as they are.
pub(super) fn filter_of_block(filter: Filter, typesize: usize, len: usize) -> Filter {
    let elements = len / typesize;
    match filter {
        Filter::Bitshuffle if elements == 0 || !elements.is_multiple_of(8) => Filter::None,
        _ => filter,
    }
}

fn undo(filter: Filter, planes: Planes, out: &mut [u8], tile: &mut [u8]) {
    match filter {
        Filter::Bitshuffle => unbitshuffle(planes, out, tile),
        _ => unshuffle(planes, out),
    }
}

fn check_output(header: &ChunkHeader, block: u32, out: &[u8]) -> Result<(), BloscError> {
    let blocks = header.blocks();
    if block >= blocks {
        return Err(BloscError::NoSuchBlock { block, blocks });
    }
    let (found, expected) = (out.len(), header.block_range(block).len());
    if found != expected {
        return Err(BloscError::OutputSize { found, expected });
    }
    Ok(())
}

/// A block starts behind the table of starts and before the end of the chunk.
fn check_start(header: &ChunkHeader, block: u32, found: u32) -> Result<usize, BloscError> {
    let (least, limit) = (header.bstarts_range().end, header.ctbytes());
    if found < least || found >= limit {
        return Err(BloscError::BlockStart {
            block,
            found,
            least,
            limit,
        });
    }
    Ok(found as usize)
}

fn copy_raw(block: u32, stored: &[u8], out: &mut [u8]) -> Result<(), BloscError> {
    let (found, needed) = (stored.len(), out.len());
    let raw = stored.get(..needed).ok_or(BloscError::BlockEnd {
        block,
        stream: 0,
        found,
        needed,
    })?;
    out.copy_from_slice(raw);
    Ok(())
}
