//! Filters that are whole streams of a library: deflate (1), bzip2 (307) and zstd (32015).
//!
//! Each decodes into the front of `out` and returns the number of bytes written. Bytes behind the
//! end of a stream are ignored, as the libraries' own filters do.

use super::error::FilterError;
use super::tools::Tools;
use bzip2::{Decompress, Status};
use libdeflater::{DecompressionError, Decompressor};

/// A zlib stream.
pub(super) fn deflate(
    tools: &mut Tools,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let context = tools.deflate.get_or_insert_with(Decompressor::new);
    let written = context.zlib_decompress(stored, out);
    written.map_err(|error| match error {
        DecompressionError::BadData => FilterError::new("the zlib stream is damaged"),
        DecompressionError::InsufficientSpace => FilterError::too_long(out.len()),
    })
}

/// A zstandard frame, or several one after another.
pub(super) fn zstd(tools: &mut Tools, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let context = match &mut tools.zstd {
        Some(context) => context,
        none => none.insert(
            zstd::bulk::Decompressor::new()
                .map_err(|_| FilterError::new("no memory for the zstd decoder"))?,
        ),
    };
    let written = context.decompress_to_buffer(stored, out);
    written.map_err(|error| FilterError::new(format!("the zstd frame is refused: {error}")))
}

/// A bzip2 stream.
pub(super) fn bzip2(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let mut stream = Decompress::new(false);
    let room = out.len();
    // One byte more than there is room for tells a long stream from one that ends here.
    let mut beyond = [0];
    loop {
        let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
        let input = stored.get(read..).unwrap_or_default();
        let target = match out.get_mut(written..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => &mut beyond,
        };
        let status = stream
            .decompress(input, target)
            .map_err(|error| FilterError::new(format!("the bzip2 stream is damaged: {error}")))?;
        let now = stream.total_out() as usize;
        if now > room {
            return Err(FilterError::too_long(room));
        }
        if matches!(status, Status::StreamEnd) {
            return Ok(now);
        }
        if now == written && stream.total_in() as usize == read {
            return Err(FilterError::truncated());
        }
    }
}
