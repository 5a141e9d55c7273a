//! Filters that are whole streams of a library: deflate (1), bzip2 (307) and zstd (32015).
//!
//! Each encodes to the front of `out` and returns the number of bytes written; none if they do not
//! fit, or if the library has no memory for them: the chunk is then stored without.

use crate::contexts::{Contexts, KEPT_ZSTD};
use crate::error::Result;
use crate::memory::{room, set_aside};
use bzip2::{Action, Compress, Compression, Status};

/// The plugin's default.
const ZSTD_LEVEL: i32 = 3;
const ZSTD_HIGHEST: i32 = 22;
/// Binary logarithm of the bytes that zstd's tables have at most, by level from 1 on.
const ZSTD_TABLES: [u8; ZSTD_HIGHEST as usize] = [
    17, 19, 20, 21, 22, 22, 23, 23, 24, 25, 25, 26, 25, 26, 26, 26, 26, 26, 27, 28, 29, 30,
];
/// What it takes beside.
const ZSTD_BESIDE: u64 = 2 << 20;

/// A zlib stream, of a level 0 to 9.
pub(super) fn deflate(
    contexts: &mut Contexts,
    level: i32,
    plain: &[u8],
    out: &mut [u8],
) -> Result<Option<usize>> {
    let context = contexts.encoders.deflate(level)?;
    Ok(context.zlib_compress(plain, out).ok())
}

/// A zstandard frame.
pub(super) fn zstd(
    contexts: &mut Contexts,
    level: i32,
    plain: &[u8],
    out: &mut [u8],
) -> Result<Option<usize>> {
    let context = contexts.encoders.zstd(level)?;
    Ok(context.compress_to_buffer(plain, out).ok())
}

/// The level that the plugin takes for a client value.
pub(super) fn zstd_level(value: Option<i32>) -> i32 {
    value.unwrap_or(ZSTD_LEVEL).clamp(1, ZSTD_HIGHEST)
}

/// Most that zstd allocates for frames of `plain` bytes, where that is more than is kept. It is
/// charged as scratch memory, which stays untouched.
pub(super) fn zstd_workspace(level: i32, plain: usize) -> u64 {
    let by_level = ZSTD_TABLES.get(level.unsigned_abs() as usize - 1);
    let by_level = by_level.map_or(u64::MAX, |log| 1 << log);
    // Tables have up to twice as many entries as the window has bytes, two of 4 bytes and one of 1.
    let window = (plain as u64).checked_next_power_of_two();
    let by_size = window.map_or(u64::MAX, |window| window.saturating_mul(18));
    match by_level.min(by_size).saturating_add(ZSTD_BESIDE) {
        ..=KEPT_ZSTD => 0,
        bytes => room(bytes),
    }
}

/// Most that the library allocates for a bzip2 stream, and cannot use again for the next. It is
/// charged as scratch memory, which stays untouched.
pub(super) fn bzip2_workspace(level: u32) -> u64 {
    400_000 + 800_000 * u64::from(level)
}

/// A bzip2 stream of blocks of `level` times 100 kB.
pub(super) fn bzip2(level: u32, plain: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    // The library counts no further.
    if u32::try_from(plain.len()).is_err() {
        return Ok(None);
    }
    let bytes = bzip2_workspace(level);
    set_aside(bytes, "cannot encode bzip2", || {
        let mut stream = Compress::new(Compression::new(level), 0);
        match stream.compress(plain, out, Action::Finish) {
            Ok(Status::StreamEnd) => Some(stream.total_out() as usize),
            _ => None,
        }
    })
}
