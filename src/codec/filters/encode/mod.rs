//! A chunk's filters applied, from the first to the last: the way back of `decode.rs`.
//!
//! What one filter leaves to the next lies in one of two buffers that take turns; the last filter
//! writes to the output. A compressor that does not make a chunk smaller is skipped, and its bit
//! set in the chunk's mask; so is a filter that libhdf5 never gives chunks to, for the values it
//! has. Where a filter has no encoder, or one that loses something, chunks are
//! stored as they are, with the bits of all filters set: readers take that for any filter.
//!
//! Each filter has its file here, or its encoder beside its decoder where both are short.

mod bit_packer;
mod bitshuffle;
mod blosc;
mod filter;
mod lz4;
mod nbit;
mod scale_offset;
mod streams;
#[cfg(test)]
mod tests;

use super::Pipeline;
use super::tools::Tools;
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::memory::{Arena, room};
use filter::EncodingFilter;

/// The filters of a dataset as new chunks go through them.
#[derive(Debug)]
pub struct FilterEncoder {
    /// In order of writing; none where chunks are stored as they are.
    filters: Vec<EncodingFilter>,
    unfiltered: Option<String>,
    /// The mask of a chunk that goes through none of the pipeline's filters.
    all: u32,
    chunk_bytes: usize,
}

/// A chunk as it is to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedChunk {
    /// Bytes of it.
    pub len: usize,
    /// HDF5's filter mask: bit `i` is set where filter `i` was skipped.
    pub mask: u32,
}

impl Pipeline {
    /// How chunks are written that are to be read through these filters.
    pub fn encoder(&self) -> FilterEncoder {
        let both = self.filters.iter().zip(&self.described);
        let filters = both.map(|(checked, described)| EncodingFilter::new(checked, described));
        let (filters, unfiltered) = match filters.collect() {
            Ok(filters) => (filters, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        FilterEncoder {
            filters,
            unfiltered,
            all: mask_of(self.filters.len()),
            chunk_bytes: self.chunk_bytes,
        }
    }
}

/// The bits of so many filters, at most 32.
fn mask_of(filters: usize) -> u32 {
    let beyond = u32::BITS.saturating_sub(filters as u32);
    u32::MAX.checked_shr(beyond).unwrap_or(0)
}

impl FilterEncoder {
    /// Why chunks are stored without any filter, if they are.
    pub fn unfiltered(&self) -> Option<&str> {
        self.unfiltered.as_deref()
    }

    /// Bytes that an encoded chunk has at most.
    pub fn most(&self) -> u64 {
        self.most_behind(self.filters.len()) as u64
    }

    /// Memory that encoding a chunk takes beside plain bytes and output: the most that
    /// [`FilterEncoder::encode`] takes from its scratch memory, and what libraries allocate that is
    /// not of constant size.
    pub fn scratch(&self) -> u64 {
        let inputs = self.filters.iter().zip(0..);
        let own = inputs.map(|(filter, i)| filter.scratch(self.most_behind(i)));
        let own = own.max().unwrap_or(0);
        let buffers = self.buffers().map(|size| room(size as u64));
        buffers.into_iter().fold(own, u64::saturating_add)
    }

    /// Encodes a chunk to the front of `out`, which has [`FilterEncoder::most`] bytes or more.
    pub fn encode(
        &self,
        plain: &[u8],
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<EncodedChunk> {
        let (found, expected) = (plain.len(), self.chunk_bytes);
        if found != expected || (out.len() as u64) < self.most() {
            let (room, most) = (out.len(), self.most());
            return Err(Error::Bug(format!(
                "a chunk of {expected} bytes that takes up to {most} is to be encoded from {found} \
                 bytes to {room}"
            )));
        }
        let [first, second] = self.buffers();
        let buffers = [scratch.take(first as u64)?, scratch.take(second as u64)?];
        Contexts::lend(|contexts| {
            let tools = Tools { contexts, scratch };
            self.apply_all(tools, buffers, plain, out)
        })
    }

    fn apply_all(
        &self,
        mut tools: Tools,
        [mut spare, mut held]: [&mut [u8]; 2],
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<EncodedChunk> {
        // The bytes so far are the first `len` of `held`, once there are any there, or `plain`.
        let (mut in_held, mut len) = (false, plain.len());
        let mut mask = if self.filters.is_empty() { self.all } else { 0 };
        for (i, filter) in self.filters.iter().enumerate() {
            let input = if in_held { &held[..len] } else { plain };
            let is_last = i + 1 == self.filters.len();
            if filter.keeps_bytes() {
                continue;
            }
            let target = if is_last { &mut *out } else { &mut *spare };
            let target = &mut target[..filter.most(len)];
            match filter.encode(tools.lend(), input, target)? {
                Some(len) if is_last => return Ok(EncodedChunk { len, mask }),
                Some(written) => {
                    std::mem::swap(&mut held, &mut spare);
                    (in_held, len) = (true, written);
                }
                None => mask |= 1 << i,
            }
        }
        let bytes = if in_held { &held[..len] } else { plain };
        out[..len].copy_from_slice(bytes);
        Ok(EncodedChunk { len, mask })
    }

    /// Bytes of a chunk behind the first `applied` filters, at most.
    fn most_behind(&self, applied: usize) -> usize {
        let applied = self.filters.iter().take(applied);
        applied.fold(self.chunk_bytes, |len, filter| filter.most(len))
    }

    /// Sizes of the two buffers, which all filters but the last write to in turn. Which of them
    /// write is known only then, as some are skipped.
    fn buffers(&self) -> [usize; 2] {
        let last = self.filters.len().saturating_sub(1);
        let between = &self.filters[..last];
        let writing = between.iter().filter(|filter| !filter.keeps_bytes());
        let most = self.most_behind(last);
        match writing.count() {
            0 => [0, 0],
            1 => [most, 0],
            _ => [most, most],
        }
    }
}
