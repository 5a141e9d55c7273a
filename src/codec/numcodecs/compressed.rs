//! Compressors: each decodes into the front of `out`, and says how many bytes that are.
//!
//! Streams that follow on each other are one (gzip, bz2, zstd), as in the libraries of the writers.
//! Bytes behind the end of the last one are ignored.

use libdeflater::DecompressionError;

use super::{ChunkCodec, NumpyNumber};
use crate::blosc::lz4;
use crate::contexts::Contexts;
use crate::filters::tools::Tools;
use crate::filters::{FilterError, blosc, libraries};
use crate::memory::{no_memory, room, set_aside};

/// The least that a member of gzip has: a header of 10 bytes, a block, sum and size.
const GZIP_LEAST: usize = 18;

/// What the tables of pcodec take at most, whatever the chunk says: measured, and doubled.
const PCODEC: u64 = 4 << 20;

/// Memory of a decode of at most `plain` bytes that is charged as scratch memory.
pub(super) fn scratch(codec: &ChunkCodec, plain: usize) -> u64 {
    match codec {
        ChunkCodec::Blosc => blosc::scratch(plain),
        ChunkCodec::Bz2 => libraries::BZIP2,
        ChunkCodec::Pcodec(_) => PCODEC.saturating_add(room(plain as u64)),
        ChunkCodec::Lzma(_) => super::lzma::scratch(plain),
        _ => 0,
    }
}

pub(super) fn decode(
    codec: &ChunkCodec,
    tools: &mut Tools,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    match codec {
        ChunkCodec::Blosc => blosc::decode(tools, stored, out),
        ChunkCodec::Gzip => gzip(tools.contexts, stored, out),
        ChunkCodec::Zlib => libraries::deflate(tools.contexts, stored, out),
        ChunkCodec::Zstd => libraries::zstd(tools.contexts, stored, out),
        ChunkCodec::Lz4 => lz4_block(stored, out),
        ChunkCodec::Bz2 => set_aside(libraries::BZIP2, "cannot decode bz2", || bz2(stored, out))?,
        ChunkCodec::Pcodec(number) => set_aside(PCODEC, "cannot decode pcodec", || {
            pcodec(*number, stored, out)
        })?,
        _ => Err(FilterError::new("it does not compress")),
    }
}

/// Members of gzip, one behind the other. The library does not tell where one ends, but its sum and
/// size stand there.
fn gzip(contexts: &mut Contexts, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (mut rest, mut done) = (stored, 0);
    loop {
        let room = &mut out[done..];
        let written = contexts.deflate().gzip_decompress(rest, room);
        let written = written.map_err(|error| match error {
            DecompressionError::BadData => FilterError::new("the gzip stream is damaged"),
            DecompressionError::InsufficientSpace => FilterError::too_long(out.len()),
        })?;
        let member = &out[done..done + written];
        done += written;
        // Most chunks are one member, which fills its room.
        if done == out.len() && rest.ends_with(&(written as u32).to_le_bytes()) {
            return Ok(done);
        }
        let mut trailer = [0; 8];
        trailer[..4].copy_from_slice(&crc32fast::hash(member).to_le_bytes());
        trailer[4..].copy_from_slice(&(written as u32).to_le_bytes());
        let behind = rest.get(GZIP_LEAST - trailer.len()..).unwrap_or_default();
        let next = behind
            .windows(trailer.len())
            .position(|bytes| bytes == trailer);
        rest = next.map_or(&[][..], |at| &behind[at + trailer.len()..]);
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return Ok(done);
        }
    }
}

/// One block, behind its length.
fn lz4_block(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (len, block) = stored
        .split_first_chunk()
        .ok_or_else(FilterError::truncated)?;
    let len = u32::from_le_bytes(*len) as usize;
    let most = out.len();
    let out = out
        .get_mut(..len)
        .ok_or_else(|| FilterError::too_long(most).found(len))?;
    lz4::decode(block, out)?;
    Ok(len)
}

/// Streams of bzip2, one behind the other.
fn bz2(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (mut read, mut done) = (0, 0);
    loop {
        let (stream_read, stream_done) =
            libraries::bzip2_stream(&stored[read..], &mut out[done..])?;
        (read, done) = (read + stream_read, done + stream_done);
        if !stored[read..].starts_with(b"BZh") {
            return Ok(done);
        }
    }
}

fn pcodec(number: NumpyNumber, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    macro_rules! numbers {
        ($of:ty, $write:expr) => {{
            const SIZE: usize = size_of::<$of>();
            let mut numbers: Vec<$of> = Vec::new();
            let count = out.len() / SIZE;
            let reserved = numbers.try_reserve_exact(count);
            reserved.map_err(|_| FilterError::from(no_memory("cannot decode pcodec")))?;
            numbers.resize(count, <$of>::default());
            let decoded = pco::standalone::simple_decompress_into(stored, &mut numbers);
            let damaged = |error| FilterError::new(format!("the stream is damaged: {error}"));
            let progress = decoded.map_err(damaged)?;
            if !progress.finished {
                return Err(FilterError::too_long(out.len()));
            }
            for (to, number) in out.as_chunks_mut::<SIZE>().0.iter_mut().zip(&numbers) {
                *to = $write(number);
            }
            Ok(progress.n_processed.saturating_mul(SIZE))
        }};
    }
    match number {
        NumpyNumber::I8 => numbers!(i8, |n: &i8| n.to_le_bytes()),
        NumpyNumber::I16 => numbers!(i16, |n: &i16| n.to_le_bytes()),
        NumpyNumber::I32 => numbers!(i32, |n: &i32| n.to_le_bytes()),
        NumpyNumber::I64 => numbers!(i64, |n: &i64| n.to_le_bytes()),
        NumpyNumber::U8 | NumpyNumber::Bool => numbers!(u8, |n: &u8| n.to_le_bytes()),
        NumpyNumber::U16 => numbers!(u16, |n: &u16| n.to_le_bytes()),
        NumpyNumber::U32 => numbers!(u32, |n: &u32| n.to_le_bytes()),
        NumpyNumber::U64 => numbers!(u64, |n: &u64| n.to_le_bytes()),
        NumpyNumber::F16 => numbers!(half::f16, |n: &half::f16| n.to_le_bytes()),
        NumpyNumber::F32 => numbers!(f32, |n: &f32| n.to_le_bytes()),
        NumpyNumber::F64 => numbers!(f64, |n: &f64| n.to_le_bytes()),
    }
}

/// A stream of deflate with nothing around it, as members of zip files are.
pub fn inflate(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    Contexts::lend(|contexts| {
        let written = contexts.deflate().deflate_decompress(stored, out);
        written.map_err(|error| match error {
            DecompressionError::BadData => FilterError::new("the deflated bytes are damaged"),
            DecompressionError::InsufficientSpace => FilterError::too_long(out.len()),
        })
    })
}
