//! Filters that are whole streams of a library: deflate (1), bzip2 (307) and zstd (32015).
//!
//! Each decodes into the front of `out` and returns the number of bytes written. Bytes behind the
//! end of a stream are ignored, as the libraries' own filters do.

use super::error::FilterError;
use crate::contexts::Contexts;
use crate::memory::{no_memory, set_aside};
use bzip2::{Decompress, Status};
use libdeflater::DecompressionError;

/// A zlib stream.
pub(crate) fn deflate(
    contexts: &mut Contexts,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let written = contexts.deflate().zlib_decompress(stored, out);
    written.map_err(|error| match error {
        DecompressionError::BadData => FilterError::new("the zlib stream is damaged"),
        DecompressionError::InsufficientSpace => FilterError::too_long(out.len()),
    })
}

/// A zstandard frame, or several one after another.
pub(crate) fn zstd(
    contexts: &mut Contexts,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let written = contexts.zstd()?.decompress_to_buffer(stored, out);
    written.map_err(|error| FilterError::new(format!("the zstd frame is refused: {error}")))
}

/// Most that the library allocates for a bzip2 stream, and cannot use again for the next. It is
/// charged as scratch memory, which stays untouched.
pub(crate) const BZIP2: u64 = 4_000_000;

/// A bzip2 stream.
pub(super) fn bzip2(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let decode = || bzip2_stream(stored, out);
    set_aside(BZIP2, "cannot decode bzip2", decode)?.map(|(_, decoded)| decoded)
}

/// How many bytes a stream is stored in, and has; others may follow it.
pub(crate) fn bzip2_stream(stored: &[u8], out: &mut [u8]) -> Result<(usize, usize), FilterError> {
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
        match status {
            Status::StreamEnd => return Ok((stream.total_in() as usize, now)),
            Status::MemNeeded => return Err(no_memory("cannot decode bzip2").into()),
            _ => {}
        }
        if now == written && stream.total_in() as usize == read {
            return Err(FilterError::truncated());
        }
    }
}
