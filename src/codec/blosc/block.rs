//! Blocks of a chunk to plain bytes: streams found, decoded, and the filter undone.
//!
//! [`Decoder`] keeps its scratch and the codecs' contexts between blocks, so a thread needs one for
//! all its chunks. Shuffled streams are decoded into scratch, except raw ones, which the filter reads
//! where they are stored; without a filter everything is decoded straight into the output.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

use super::bitshuffle::{self, unbitshuffle};
use super::codecs::{Codecs, SLACK};
use super::error::BloscError;
use super::header::{ChunkHeader, Filter, MAX_STREAMS};
use super::shuffle::{Planes, unshuffle};
use super::streams::{Stream, Streams};

/// Bytes between the planes of a split block in scratch. Planes are often a multiple of 4 KiB long;
/// the gap keeps them from all competing for the same lines of the first-level cache.
const PLANE_GAP: usize = 320;
const _: () = assert!(PLANE_GAP >= SLACK);

/// Scratch buffers and codec contexts reused between blocks; one per thread.
#[derive(Default)]
pub struct Decoder {
    codecs: Codecs,
    /// Decoded but still shuffled bytes; grows to the largest block seen, never zeroed again.
    planes: Vec<u8>,
    /// Bit shuffle's tile of byte planes.
    tile: Vec<u8>,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes one block into `out`, which must have exactly its plain length.
    ///
    /// `stored` begins at the block's entry in the table of block starts and ends anywhere behind
    /// the block; for memcpyed chunks it begins with the block's raw bytes. On failure `out` holds
    /// rubbish.
    pub fn decode_block(
        &mut self,
        header: &ChunkHeader,
        block: u32,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        check_output(header, block, out)?;
        if header.memcpyed() {
            return copy_raw(block, stored, out);
        }
        let streams = Streams::new(header, block, stored, out.len())?;
        let typesize = usize::from(header.typesize());
        match filter_of_block(header.filter(), typesize, out.len()) {
            Filter::None => self.decode_unfiltered(streams, out),
            filter if streams.count > 1 => self.decode_split(streams, filter, out),
            filter => self.decode_whole(streams, filter, typesize, out),
        }
    }

    /// Decodes all blocks of a complete chunk into `out`, which must have exactly `nbytes`.
    pub fn decode_chunk(
        &mut self,
        header: &ChunkHeader,
        chunk: &[u8],
        out: &mut [u8],
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
            self.decode_block(header, block, &chunk[start..], out)?;
        }
        Ok(())
    }

    fn decode_unfiltered(
        &mut self,
        mut streams: Streams,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        for part in out.chunks_exact_mut(streams.plain_len) {
            match streams.next()? {
                Stream::Raw(bytes) => part.copy_from_slice(bytes),
                Stream::Coded(bytes) => streams.decode(&mut self.codecs, bytes, part)?,
            }
        }
        Ok(())
    }

    /// Each stream is a byte plane (or the eight rows of one), and they divide the block evenly.
    fn decode_split(
        &mut self,
        mut streams: Streams,
        filter: Filter,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let stride = streams.plain_len + PLANE_GAP;
        let scratch = room(&mut self.planes, streams.count * stride)?;
        let mut planes = [&[][..]; MAX_STREAMS];
        let planes = &mut planes[..streams.count];
        for (plane, scratch) in planes.iter_mut().zip(scratch.chunks_exact_mut(stride)) {
            *plane = streams.next_plain(&mut self.codecs, scratch)?;
        }
        undo(filter, Planes::Apart(planes), out, &mut self.tile)
    }

    /// One stream holds all planes, and then a tail shorter than an element, which is plain.
    fn decode_whole(
        &mut self,
        mut streams: Streams,
        filter: Filter,
        typesize: usize,
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let scratch = room(&mut self.planes, out.len() + SLACK)?;
        let shuffled = streams.next_plain(&mut self.codecs, scratch)?;
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
            &mut self.tile,
        )
    }
}

/// The filter that a block of `len` bytes had: bit shuffle leaves some lengths as they are.
fn filter_of_block(filter: Filter, typesize: usize, len: usize) -> Filter {
    let elements = len / typesize;
    match filter {
        Filter::Bitshuffle if elements == 0 || !elements.is_multiple_of(8) => Filter::None,
        _ => filter,
    }
}

fn undo(
    filter: Filter,
    planes: Planes,
    out: &mut [u8],
    tile: &mut Vec<u8>,
) -> Result<(), BloscError> {
    match filter {
        Filter::Bitshuffle => {
            unbitshuffle(planes, out, room(tile, bitshuffle::scratch_len(planes))?)
        }
        _ => unshuffle(planes, out),
    }
    Ok(())
}

/// The first `len` bytes of a buffer that is lengthened when needed; their values are left over.
fn room(buffer: &mut Vec<u8>, len: usize) -> Result<&mut [u8], BloscError> {
    if buffer.len() < len {
        let more = buffer.try_reserve_exact(len - buffer.len());
        more.map_err(|_| BloscError::NoMemory { bytes: len })?;
        buffer.resize(len, 0);
    }
    Ok(&mut buffer[..len])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::blosc::Codec;
    use crate::codec::blosc::encode::{Plan, byte_runs, floats, mutate};
    use proptest::prelude::*;

    #[test]
    fn memory_that_is_refused_is_an_error() {
        let bytes = isize::MAX as usize;
        let mut buffer = Vec::new();
        let refused = room(&mut buffer, bytes);
        assert_eq!(refused, Err(BloscError::NoMemory { bytes }));
    }

    const CODECS: [Codec; 5] = [
        Codec::BloscLz,
        Codec::Lz4,
        Codec::Snappy,
        Codec::Zlib,
        Codec::Zstd,
    ];
    const FILTERS: [Filter; 3] = [Filter::None, Filter::Shuffle, Filter::Bitshuffle];

    fn decode(chunk: &[u8]) -> Result<Vec<u8>, BloscError> {
        let header = ChunkHeader::parse(chunk.first_chunk().unwrap())?;
        let mut out = vec![0xaa; header.nbytes() as usize];
        Decoder::new().decode_chunk(&header, chunk, &mut out)?;
        Ok(out)
    }

    fn plan() -> Plan {
        Plan {
            codec: Codec::Lz4,
            filter: Filter::Shuffle,
            typesize: 8,
            blocksize: 4096,
            split: true,
        }
    }

    #[test]
    fn codecs_filters_and_splits() {
        let plain = floats(2500);
        let mut decoder = Decoder::new();
        for codec in CODECS {
            for filter in FILTERS {
                for (typesize, split) in [(1, true), (8, true), (8, false), (7, true), (32, true)] {
                    let blocksize = 4096 / typesize * typesize;
                    let plan = Plan {
                        codec,
                        filter,
                        typesize,
                        blocksize,
                        split,
                    };
                    let chunk = plan.chunk(&plain);
                    let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
                    let mut out = vec![0xaa; plain.len()];
                    decoder.decode_chunk(&header, &chunk, &mut out).unwrap();
                    assert!(out == plain, "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn blocks_in_any_order_one_at_a_time() {
        let plain = floats(2500);
        let chunk = plan().chunk_with_blocks(&plain, |blocks| blocks.reverse());
        let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
        assert_eq!(decode(&chunk).unwrap(), plain);
        let mut decoder = Decoder::new();
        for block in (0..header.blocks()).rev() {
            let at = 16 + 4 * block as usize;
            let start = u32::from_le_bytes(*chunk[at..].first_chunk().unwrap());
            let range = header.block_range(block);
            let plain = &plain[range.start as usize..range.end as usize];
            let mut out = vec![0; plain.len()];
            decoder
                .decode_block(&header, block, &chunk[start as usize..], &mut out)
                .unwrap();
            assert!(out == plain);
        }
    }

    #[test]
    fn memcpyed_is_never_filtered() {
        let plain = floats(100);
        let chunk = plan().memcpyed(&plain);
        let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
        assert_eq!(decode(&chunk).unwrap(), plain);
        let mut out = vec![0; plain.len()];
        Decoder::new()
            .decode_block(&header, 0, &chunk[16..], &mut out)
            .unwrap();
        assert_eq!(out, plain);
        let error = Decoder::new()
            .decode_block(&header, 0, &chunk[17..], &mut out)
            .unwrap_err();
        assert_eq!(
            error,
            BloscError::BlockEnd {
                block: 0,
                stream: 0,
                found: 799,
                needed: 800
            }
        );
    }

    #[test]
    fn empty_chunk() {
        assert_eq!(decode(&plan().memcpyed(&[])), Ok(vec![]));
        let header = ChunkHeader::parse(plan().memcpyed(&[]).first_chunk().unwrap()).unwrap();
        let error = Decoder::new()
            .decode_block(&header, 0, &[], &mut [])
            .unwrap_err();
        assert_eq!(
            error,
            BloscError::NoSuchBlock {
                block: 0,
                blocks: 0
            }
        );
    }

    #[test]
    fn places_of_faults() {
        let good = plan().chunk(&floats(1024));
        let with = |at: usize, value: i32| {
            let mut chunk = good.clone();
            chunk[at..at + 4].copy_from_slice(&value.to_le_bytes());
            decode(&chunk).unwrap_err()
        };
        let limit = good.len() as u32;
        for found in [23, limit, u32::MAX] {
            let error = BloscError::BlockStart {
                block: 1,
                found,
                least: 24,
                limit,
            };
            assert_eq!(with(20, found as i32), error);
        }
        let available = good.len() - 28;
        for found in [-1, i32::MIN, i32::MAX, available as i32 + 1] {
            let error = BloscError::StreamLength {
                block: 0,
                stream: 0,
                found,
                available,
            };
            assert_eq!(with(24, found), error);
        }
        let error = BloscError::BlockEnd {
            block: 1,
            stream: 0,
            found: 3,
            needed: 4,
        };
        assert_eq!(with(20, good.len() as i32 - 3), error);
        assert!(matches!(
            with(24, 0),
            BloscError::Stream {
                block: 0,
                stream: 0,
                ..
            }
        ));
        let error = BloscError::UnevenSplit {
            blocksize: 4100,
            typesize: 8,
        };
        assert_eq!(with(8, 4100), error);
        assert!(matches!(
            decode(&good[..good.len() - 1]),
            Err(BloscError::ChunkSize { .. })
        ));
    }

    #[test]
    fn output_must_fit() {
        let chunk = plan().chunk(&floats(512));
        let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
        let error = BloscError::OutputSize {
            found: 9,
            expected: 4096,
        };
        let mut decoder = Decoder::new();
        assert_eq!(
            decoder.decode_chunk(&header, &chunk, &mut [0; 9]),
            Err(error.clone())
        );
        assert_eq!(
            decoder.decode_block(&header, 0, &chunk[20..], &mut [0; 9]),
            Err(error)
        );
    }

    proptest! {
        #[test]
        fn any_plan(
            plain in byte_runs(6000),
            codec in prop::sample::select(&CODECS),
            filter in prop::sample::select(&FILTERS),
            typesize in 1usize..=255,
            elements in 1usize..600,
            split: bool,
        ) {
            let blocksize = (elements * typesize).min(plain.len());
            let plan = Plan { codec, filter, typesize, blocksize, split };
            prop_assume!(!plain.is_empty() && plan.divides());
            prop_assert_eq!(decode(&plan.chunk(&plain)), Ok(plain));
        }

        #[test]
        fn damage_never_panics(
            codec in prop::sample::select(&CODECS),
            filter in prop::sample::select(&FILTERS),
            split: bool,
            edits in mutate(),
        ) {
            let plan = Plan { codec, filter, split, ..plan() };
            let chunk = edits.apply(plan.chunk(&floats(1100)));
            let header = chunk.first_chunk().and_then(|bytes| ChunkHeader::parse(bytes).ok());
            if let Some(header) = header.filter(|header| header.nbytes() < 1 << 20) {
                let mut out = vec![0; header.nbytes() as usize];
                let _ = Decoder::new().decode_chunk(&header, &chunk, &mut out);
            }
        }
    }
}
