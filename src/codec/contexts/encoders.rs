//! Contexts of the encoders that need one, each for the level it was used at last.
//!
//! libdeflate takes up to 1 MiB at the levels of zlib and 9 beyond them; zstd up to several times
//! the bytes it compresses, and more than 600 MiB at its highest level.

use libdeflater::{CompressionLvl, Compressor as Deflate};
use zstd::bulk::Compressor as Zstd;

use crate::error::Result;
use crate::memory::no_memory;

/// Contexts of higher levels are given back after each chunk ...
const KEPT_DEFLATE: i32 = 9;
/// ... and larger ones of zstd, in bytes.
pub(crate) const KEPT_ZSTD: u64 = 8 << 20;

/// Most that libdeflate allocates for a context that is kept ...
const DEFLATE: usize = 1 << 20;
/// ... and for any.
const DEFLATE_MOST: usize = 10 << 20;

/// Made when first used at a level.
#[derive(Default)]
pub(crate) struct EncoderContexts {
    deflate: Option<(i32, Deflate)>,
    zstd: Option<(i32, Zstd<'static>)>,
}

impl EncoderContexts {
    /// For a level of libdeflate, 0 to 12.
    pub(crate) fn deflate(&mut self, level: i32) -> Result<&mut Deflate> {
        self.deflate.take_if(|kept| kept.0 != level);
        let (_, context) = match &mut self.deflate {
            Some(kept) => kept,
            none => none.insert((level, new_deflate(level)?)),
        };
        Ok(context)
    }

    /// For a level of zstd.
    pub(crate) fn zstd(&mut self, level: i32) -> Result<&mut Zstd<'static>> {
        let refused = |_| no_memory("cannot make a zstd encoder");
        self.zstd.take_if(|kept| kept.0 != level);
        let (_, context) = match &mut self.zstd {
            Some(kept) => kept,
            none => none.insert((level, Zstd::new(level).map_err(refused)?)),
        };
        Ok(context)
    }

    /// Gives back what is large.
    pub(crate) fn shrink(&mut self) {
        self.deflate.take_if(|(level, _)| *level > KEPT_DEFLATE);
        let size = |context: &mut Zstd| context.context_mut().sizeof() as u64;
        self.zstd.take_if(|(_, context)| size(context) > KEPT_ZSTD);
    }
}

/// The library ends the thread where it gets no memory, so that is tried beforehand.
fn new_deflate(level: i32) -> Result<Deflate> {
    let bytes = match level {
        ..=KEPT_DEFLATE => DEFLATE,
        _ => DEFLATE_MOST,
    };
    let mut room: Vec<u8> = Vec::new();
    let had = std::hint::black_box(&mut room).try_reserve_exact(bytes);
    had.map_err(|_| no_memory("cannot make a deflate encoder"))?;
    drop(room);
    Ok(Deflate::new(CompressionLvl::new(level).unwrap_or_default()))
}
