//! The codec streams of one block: one behind the other, each with its stored length in front.
//!
//! A stream as long as its plain bytes is stored raw, and is handed out where it lies.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

use super::codecs::Codecs;
use super::error::{BloscError, StreamError};
use super::header::{ChunkHeader, Codec};

/// The streams of one block, one behind the other, each with its stored length in front.
pub(super) struct BlockStreams<'a> {
    codec: Codec,
    block: u32,
    /// Number of the stream last taken, from 1.
    taken: u32,
    pub(super) count: usize,
    /// Plain bytes of each stream.
    pub(super) plain_len: usize,
    rest: &'a [u8],
}

/// The stored bytes of one stream.
pub(super) enum BlockStream<'a> {
    Raw(&'a [u8]),
    Coded(&'a [u8]),
}

impl<'a> BlockStreams<'a> {
    pub(super) fn new(
        header: &ChunkHeader,
        block: u32,
        rest: &'a [u8],
        block_len: usize,
    ) -> Result<Self, BloscError> {
        let count = header.streams(block);
        if !block_len.is_multiple_of(count) {
            let (blocksize, typesize) = (header.blocksize(), header.typesize());
            return Err(BloscError::UnevenSplit {
                blocksize,
                typesize,
            });
        }
        let plain_len = block_len / count;
        Ok(Self {
            codec: header.codec(),
            block,
            taken: 0,
            count,
            plain_len,
            rest,
        })
    }

    pub(super) fn next(&mut self) -> Result<BlockStream<'a>, BloscError> {
        let (block, stream) = (self.block, self.taken);
        self.taken += 1;
        let Some((len, rest)) = self.rest.split_first_chunk::<4>() else {
            let found = self.rest.len();
            return Err(BloscError::BlockEnd {
                block,
                stream,
                found,
                needed: 4,
            });
        };
        let found = i32::from_le_bytes(*len);
        let bytes = usize::try_from(found)
            .ok()
            .and_then(|len| rest.split_at_checked(len));
        let Some((bytes, rest)) = bytes else {
            return Err(BloscError::StreamLength {
                block,
                stream,
                found,
                available: rest.len(),
            });
        };
        self.rest = rest;
        let raw = bytes.len() == self.plain_len;
        Ok(if raw {
            BlockStream::Raw(bytes)
        } else {
            BlockStream::Coded(bytes)
        })
    }

    /// Decodes `bytes`, the stream last taken, into exactly `out`.
    pub(super) fn decode(
        &self,
        codecs: &mut Codecs,
        bytes: &[u8],
        out: &mut [u8],
    ) -> Result<(), BloscError> {
        let decoded = codecs.decode(self.codec, bytes, out);
        decoded.map_err(|fault| self.fault(fault))
    }

    /// The next stream's plain bytes: where they are stored, or decoded into `room`, which is to be
    /// longer by [`SLACK`](super::codecs::SLACK).
    pub(super) fn next_plain<'s>(
        &mut self,
        codecs: &mut Codecs,
        room: &'s mut [u8],
    ) -> Result<&'s [u8], BloscError>
    where
        'a: 's,
    {
        match self.next()? {
            BlockStream::Raw(bytes) => Ok(bytes),
            BlockStream::Coded(bytes) => {
                let decoded = codecs.decode_into_room(self.codec, bytes, room, self.plain_len);
                decoded.map_err(|fault| self.fault(fault))?;
                Ok(&room[..self.plain_len])
            }
        }
    }

    fn fault(&self, fault: StreamError) -> BloscError {
        let (block, stream, codec) = (self.block, self.taken - 1, self.codec);
        BloscError::Stream {
            block,
            stream,
            codec,
            fault,
        }
    }
}
