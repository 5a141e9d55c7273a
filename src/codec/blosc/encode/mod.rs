//! Encoder of Blosc-1 chunks, as C-Blosc 1.21 forms them, the counterpart of [`super::Decoder`].
//!
//! [`ChunkSettings`] say how, if need be those of a chunk that is rewritten; [`ChunkPlan`] what
//! follows from them for so many bytes; [`Encoder`] does it. Blocks are encoded independently, so
//! those of a large chunk are given to several threads ([`lanes`]), and a chunk can be made without
//! ever being held whole ([`parts`]).
//!
//! Bytes in, bytes out: memory is handed in, and [`ChunkPlan::scratch_of`] says how much. The
//! compression libraries allocate some by themselves. Any bytes can be encoded, at worst as they
//! are and 16 more.
//!
//! Source: the Bloscpack and C-Blosc formats, docs/formats.md.

mod assembler;
#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod bitshuffle;
mod blosclz;
mod compressors;
mod error;
mod lanes;
mod parts;
mod plan;
mod settings;
pub(crate) mod shuffle;
#[cfg(test)]
mod tests;

use assembler::Assembler;
pub use error::EncodeError;
pub use parts::{PartEncoder, PartNeeds, PartSpace};
pub use plan::ChunkPlan;
pub use settings::{BlockSize, ChunkSettings, Compressor, SMALLEST_BLOCK};

use super::block::{PLANE_GAP, filter_of_block};
use super::header::{Filter, MAX_STREAMS};
use crate::contexts::Contexts;
use compressors::Compressors;

/// Contexts of the compressors' libraries, reused between chunks.
#[derive(Default)]
pub struct Encoder {
    compressors: Compressors,
}

/// A block whose bytes are in the order in which they are compressed.
struct Filtered<'a> {
    bytes: &'a [u8],
    streams: usize,
    /// Bytes of each stream ...
    len: usize,
    /// ... and from one to the next.
    stride: usize,
}

impl Encoder {
    /// Without contexts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lends one of those that are kept for the next.
    pub fn lend<T>(encode: impl FnOnce(&mut Self) -> T) -> T {
        Contexts::lend(|contexts| encode(&mut contexts.blosc_encoder))
    }

    /// Gives back contexts that are too large to be kept.
    pub(crate) fn shrink(&mut self) {
        self.compressors.shrink();
    }

    /// Writes `plain` as one chunk to the start of `out`, and says its length.
    ///
    /// `out` has at least [`ChunkPlan::most`] bytes and `scratch` [`ChunkPlan::scratch_of`]
    /// `threads`, both of any value.
    pub fn chunk(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
        scratch: &mut [u8],
        threads: usize,
    ) -> Result<usize, EncodeError> {
        let plan = ChunkPlan::new(settings, plain.len())?;
        let (found, expected) = (out.len(), plan.most());
        let Some(out) = out.get_mut(..expected) else {
            return Err(EncodeError::OutputSize { found, expected });
        };
        if !plan.stays_plain()
            && let Some(chunk) = self.blocks(&plan, plain, out, scratch, threads)?
        {
            return Ok(chunk.finish());
        }
        plan.write_plain(plain, out)
    }

    /// Writes `plain` as one chunk of fewer bytes to the start of `out`, and says its length; none
    /// if it does not get smaller or does not fit.
    ///
    /// `scratch` has [`ChunkPlan::scratch_of`] one thread.
    pub fn smaller_chunk(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        let plan = ChunkPlan::new(settings, plain.len())?;
        if plan.stays_plain() {
            return Ok(None);
        }
        let room = out.len().min(plain.len());
        let chunk = self.blocks(&plan, plain, &mut out[..room], scratch, 1)?;
        let len = chunk.map(Assembler::finish);
        Ok(len.filter(|len| *len < plain.len()))
    }

    /// Writes `plain` as one chunk that takes `room` to the last byte; false if it cannot.
    ///
    /// If the settings do not do it, the highest level is tried, so `scratch` is to be enough for
    /// both: [`ChunkSettings::scratch_within`]. On failure `room` holds rubbish.
    pub fn chunk_within(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        room: &mut [u8],
        scratch: &mut [u8],
        threads: usize,
    ) -> Result<bool, EncodeError> {
        let plan = ChunkPlan::new(settings, plain.len())?;
        let whole = plan.most() == room.len();
        if whole && plan.stays_plain() {
            return plan.write_plain(plain, room).map(|_| true);
        }
        for settings in [*settings, settings.highest()] {
            let plan = ChunkPlan::new(&settings, plain.len())?;
            if let Some(chunk) = self.blocks(&plan, plain, room, scratch, threads)? {
                chunk.finish_filling();
                return Ok(true);
            }
            if whole {
                return plan.write_plain(plain, room).map(|_| true);
            }
        }
        Ok(false)
    }

    /// All blocks laid into `out`, if they fit.
    fn blocks<'a>(
        &mut self,
        plan: &ChunkPlan,
        plain: &[u8],
        out: &'a mut [u8],
        scratch: &mut [u8],
        threads: usize,
    ) -> Result<Option<Assembler<'a>>, EncodeError> {
        let Some(mut chunk) = Assembler::new(plan, out) else {
            return Ok(None);
        };
        if plan.lanes(threads) > 1 {
            return lanes::put_blocks(plan, plain, &mut chunk, scratch, threads)
                .map(|fit| fit.then_some(chunk));
        }
        for i in 0..plan.blocks() {
            let bytes = &plain[plan.block_range(i)];
            let Some(len) = self.block(plan, bytes, chunk.free(), scratch)? else {
                return Ok(None);
            };
            chunk.placed(i, len);
        }
        Ok(Some(chunk))
    }

    /// Writes the stored form of a block to the start of `out` and says its length; none if it does
    /// not fit.
    ///
    /// `plain` are the bytes of one of [`ChunkPlan::block_range`], and [`ChunkPlan::most_of_block`]
    /// are always enough for `out`.
    fn block(
        &mut self,
        plan: &ChunkPlan,
        plain: &[u8],
        out: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        let (found, expected) = (scratch.len(), plan.scratch());
        if found < expected {
            return Err(EncodeError::ScratchSize { found, expected });
        }
        let (found, expected) = (plain.len(), plan.block_range(0).len());
        if found > expected {
            return Err(EncodeError::BlockLength { found, expected });
        }
        let (scratch, room) = scratch.split_at_mut(plan.scratch_of_filter());
        let filtered = filter_block(plan, plain, scratch);
        let mut at = 0;
        for j in 0..filtered.streams {
            let stream = &filtered.bytes[j * filtered.stride..][..filtered.len];
            match self.stream(&plan.settings, stream, &mut out[at..], room)? {
                Some(len) => at += len,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// A stream with its length in front, raw if that is as short.
    fn stream(
        &mut self,
        settings: &ChunkSettings,
        plain: &[u8],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Option<usize>, EncodeError> {
        let Some((front, rest)) = out.split_first_chunk_mut::<4>() else {
            return Ok(None);
        };
        let coded = match settings.level {
            0 => None,
            _ => self.compressors.compress(settings, plain, rest, room)?,
        };
        let len = coded.unwrap_or(plain.len());
        if len == plain.len() {
            match rest.get_mut(..len) {
                Some(place) => place.copy_from_slice(plain),
                None => return Ok(None),
            }
        }
        *front = (len as u32).to_le_bytes();
        Ok(Some(4 + len))
    }
}

/// Puts the bytes of a block in the order in which they are compressed.
fn filter_block<'a>(plan: &ChunkPlan, plain: &'a [u8], scratch: &'a mut [u8]) -> Filtered<'a> {
    let (streams, typesize) = (plan.streams(plain.len()), plan.typesize());
    let len = plain.len() / streams;
    let filter = match filter_of_block(plan.settings.filter, typesize, plain.len()) {
        Filter::Shuffle if typesize == 1 => Filter::None,
        filter => filter,
    };
    let whole = plain.len() - plain.len() % typesize;
    let (elements, tail) = plain.split_at(whole);
    let stride = match streams {
        1 => whole / typesize,
        _ => len + PLANE_GAP,
    };
    let (planes, tile) = scratch.split_at_mut(match filter {
        Filter::None => 0,
        _ => plain.len() + MAX_STREAMS * PLANE_GAP,
    });
    match filter {
        Filter::None => {
            return Filtered {
                bytes: plain,
                streams,
                len,
                stride: len,
            };
        }
        Filter::Shuffle => shuffle::shuffle(elements, typesize, planes, stride),
        Filter::Bitshuffle => bitshuffle::bitshuffle(elements, typesize, planes, stride, tile),
    }
    if streams == 1 {
        planes[whole..plain.len()].copy_from_slice(tail);
    }
    Filtered {
        bytes: planes,
        streams,
        len,
        stride,
    }
}
