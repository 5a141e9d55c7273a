//! One stream made smaller, with the library contexts that are kept between streams.
//!
//! Levels mean what they mean to C-Blosc. The libraries' own memory is not the caller's: LZ4HC
//! takes 256 KiB for a stream, libdeflate up to 9 MiB, zstd several times the block at high levels.
//! So the largest contexts, which are for rare chunks, are not kept.

use lz4::block::{CompressionMode, compress_to_buffer as lz4_compress};

use super::blosclz;
use super::error::EncodeError;
use super::settings::{ChunkSettings, Compressor, zlib_flevel};
use crate::contexts::EncoderContexts;

const ZSTD_HIGHEST: i32 = 22;
const DEFLATE_HIGHEST: i32 = 12;

/// Contexts of the compressors that need one, made when first used.
#[derive(Default)]
pub(super) struct Compressors {
    blosclz: blosclz::SeenSequences,
    snappy: Option<snap::raw::Encoder>,
    contexts: EncoderContexts,
}

impl Compressors {
    /// Writes `plain` to the start of `out` as one stream of fewer bytes, and says how many; none
    /// if it does not get smaller, or does not fit.
    ///
    /// `room` is scratch for what may not fit: libraries give up before the last bytes of a place
    /// are filled, and Snappy begins with nothing less than its worst case.
    pub(super) fn compress(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        if settings.compressor != Compressor::Snappy && out.len() >= plain.len() {
            let coded = self.compress_into(settings, plain, &mut out[..plain.len()])?;
            return Ok(coded.filter(|len| *len < plain.len()));
        }
        let room = match settings.compressor {
            Compressor::Snappy => room,
            _ => &mut room[..plain.len()],
        };
        let coded = self.compress_into(settings, plain, room)?;
        let shorter = coded.filter(|len| *len < plain.len().min(out.len() + 1));
        if let Some(len) = shorter {
            out[..len].copy_from_slice(&room[..len]);
        }
        Ok(shorter)
    }

    fn compress_into(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        let level = i32::from(settings.level.clamp(1, 9));
        match settings.compressor {
            Compressor::BloscLz => Ok(self.blosclz.encode(plain, out, settings.level)),
            Compressor::Lz4 => Ok(lz4(plain, out, CompressionMode::FAST(10 - level))),
            Compressor::Lz4Hc => Ok(lz4(plain, out, CompressionMode::HIGHCOMPRESSION(level))),
            Compressor::Snappy => Ok(self.snappy(plain, out)),
            Compressor::Zlib => self.zlib(settings, plain, out),
            Compressor::Zstd => self.zstd(settings, plain, out),
        }
    }

    /// Gives back what is large.
    pub(super) fn shrink(&mut self) {
        self.contexts.shrink();
    }

    fn snappy(&mut self, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        let context = self.snappy.get_or_insert_with(snap::raw::Encoder::new);
        context.compress(plain, out).ok()
    }

    fn zlib(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        let level = match settings.utmost {
            true => DEFLATE_HIGHEST,
            // It is faster than zlib at each level but the first ones, and finds less.
            false => i32::from(settings.level + 1).clamp(2, 9),
        };
        let context = self.contexts.deflate(level);
        let context = context.map_err(|_| EncodeError::NoContext)?;
        let Ok(len) = context.zlib_compress(plain, out) else {
            return Ok(None);
        };
        note_level(&mut out[..len], settings.level);
        Ok(Some(len))
    }

    fn zstd(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        let context = self.contexts.zstd(zstd_level(settings.level));
        let context = context.map_err(|_| EncodeError::NoContext)?;
        Ok(context.compress_to_buffer(plain, out).ok())
    }
}

fn lz4(plain: &[u8], out: &mut [u8], mode: CompressionMode) -> Option<usize> {
    lz4_compress(plain, Some(mode), false, out).ok()
}

/// C-Blosc's mapping.
fn zstd_level(level: u8) -> i32 {
    match level {
        0..9 => (2 * i32::from(level) - 1).max(1),
        _ => ZSTD_HIGHEST,
    }
}

/// Writes the level into a stream's two header bytes as zlib does; libdeflate draws other lines
/// between them.
fn note_level(stream: &mut [u8], level: u8) {
    if let [method, flags, ..] = stream {
        let noted = zlib_flevel(level) << 6;
        let check = 31 - (u32::from(*method) << 8 | u32::from(noted)) % 31;
        *flags = noted | check as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_noted_as_zlib_does() {
        for (level, flags) in [
            (1, 0x01),
            (2, 0x5e),
            (5, 0x5e),
            (6, 0x9c),
            (7, 0xda),
            (9, 0xda),
        ] {
            let mut stream = [0x78, 0];
            note_level(&mut stream, level);
            assert_eq!(stream, [0x78, flags]);
        }
    }
}
