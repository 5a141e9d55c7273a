//! What can be wrong with a Blosc chunk, as data: what was read, what was expected.
//!
//! [`StreamError`] is the fault inside one codec stream; [`BloscError`] adds the place in the
//! chunk.

use super::header::Codec;
use std::fmt;

/// Why a chunk, or a block of it, cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BloscError {
    FormatVersion {
        found: u8,
    },
    CodecVersion {
        found: u8,
    },
    ReservedFlag {
        flags: u8,
    },
    UnknownCodec {
        code: u8,
    },
    ZeroTypesize,
    PlainSize {
        found: u32,
        limit: u32,
    },
    BlockSize {
        found: u32,
        limit: u32,
    },
    StoredSize {
        found: u32,
        least: u64,
    },
    MemcpyedSize {
        found: u32,
        expected: u64,
    },
    UnevenSplit {
        blocksize: u32,
        typesize: u8,
    },
    NoSuchBlock {
        block: u32,
        blocks: u32,
    },
    OutputSize {
        found: usize,
        expected: usize,
    },
    ChunkSize {
        found: usize,
        expected: usize,
    },
    BlockStart {
        block: u32,
        found: u32,
        least: u32,
        limit: u32,
    },
    BlockEnd {
        block: u32,
        stream: u32,
        found: usize,
        needed: usize,
    },
    StreamLength {
        block: u32,
        stream: u32,
        found: i32,
        available: usize,
    },
    Stream {
        block: u32,
        stream: u32,
        codec: Codec,
        fault: StreamError,
    },
    /// The caller's mistake; the chunk may be sound.
    ScratchSize {
        found: usize,
        expected: usize,
    },
}

/// Why one codec stream does not decode to its plain size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream stops in the middle of an instruction.
    Truncated,
    /// A match reaches back to before the first byte, or not back at all.
    Distance { distance: usize, written: usize },
    /// The stream gives more bytes than its plain size.
    TooLong { expected: usize },
    /// The stream gives fewer bytes than its plain size.
    TooShort { found: usize, expected: usize },
    /// A library decoder refused the stream.
    Refused,
    /// A library decoder could not get its working memory.
    NoContext,
}

impl fmt::Display for BloscError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FormatVersion { found } => {
                write!(
                    f,
                    "the chunk has format version {found}; only version 2 is known"
                )
            }
            Self::CodecVersion { found } => {
                write!(
                    f,
                    "the chunk has codec format version {found}; only version 1 is known"
                )
            }
            Self::ReservedFlag { flags } => {
                write!(
                    f,
                    "the chunk has reserved flag 0x08 set (flags {flags:#04x})"
                )
            }
            Self::UnknownCodec { code } => {
                write!(f, "the chunk has codec number {code}; known are 0 to 4")
            }
            Self::ZeroTypesize => write!(f, "the chunk has typesize 0"),
            Self::PlainSize { found, limit } => {
                write!(
                    f,
                    "the chunk claims {found} plain bytes; the format allows {limit}"
                )
            }
            Self::BlockSize { found, limit } => {
                write!(
                    f,
                    "the chunk has blocks of {found} bytes; expected 1 to {limit}"
                )
            }
            Self::StoredSize { found, least } => {
                write!(
                    f,
                    "the chunk claims {found} stored bytes; it needs at least {least}"
                )
            }
            Self::MemcpyedSize { found, expected } => {
                write!(
                    f,
                    "the uncompressed chunk claims {found} stored bytes, not {expected}"
                )
            }
            _ => self.fmt_block(f),
        }
    }
}

impl BloscError {
    /// The sentences about a block rather than the header.
    fn fmt_block(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnevenSplit {
                blocksize,
                typesize,
            } => {
                write!(
                    f,
                    "split blocks of {blocksize} bytes do not divide into {typesize} streams"
                )
            }
            Self::NoSuchBlock { block, blocks } => {
                write!(f, "block {block} was asked for; the chunk has {blocks}")
            }
            Self::OutputSize { found, expected } => {
                write!(
                    f,
                    "room for {found} plain bytes was given; expected {expected}"
                )
            }
            Self::ChunkSize { found, expected } => {
                write!(
                    f,
                    "the chunk has {found} bytes present; its header says {expected}"
                )
            }
            _ => self.fmt_stream(f),
        }
    }

    /// Those about where a block lies, and about its streams.
    fn fmt_stream(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockStart {
                block,
                found,
                least,
                limit,
            } => {
                write!(
                    f,
                    "block {block} starts at {found}; expected {least} to below {limit}"
                )
            }
            Self::BlockEnd {
                block,
                stream,
                found,
                needed,
            } => {
                write!(
                    f,
                    "block {block}, stream {stream}: {found} bytes left; needs {needed}"
                )
            }
            Self::StreamLength {
                block,
                stream,
                found,
                available,
            } => {
                write!(
                    f,
                    "block {block}, stream {stream} claims {found} of {available} bytes"
                )
            }
            Self::Stream {
                block,
                stream,
                codec,
                fault,
            } => {
                write!(
                    f,
                    "block {block}, stream {stream} ({}): {fault}",
                    codec.name()
                )
            }
            Self::ScratchSize { found, expected } => {
                write!(
                    f,
                    "decoding a block takes {expected} bytes of scratch memory, not {found}"
                )
            }
            _ => write!(f, "the chunk header is damaged"),
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the stream ends in the middle of an instruction"),
            Self::Distance { distance, written } => {
                write!(
                    f,
                    "a match reaches {distance} bytes back with {written} written"
                )
            }
            Self::TooLong { expected } => {
                write!(
                    f,
                    "the stream decodes to more than the expected {expected} bytes"
                )
            }
            Self::TooShort { found, expected } => {
                write!(
                    f,
                    "the stream decodes to {found} bytes; expected {expected}"
                )
            }
            Self::Refused => write!(f, "the decoder refused the stream as damaged"),
            Self::NoContext => write!(f, "the decoder's working memory could not be had"),
        }
    }
}

impl std::error::Error for BloscError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

impl std::error::Error for StreamError {}
