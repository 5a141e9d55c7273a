//! What a thread keeps between chunks: contexts of the libraries, and buffers that only grow.
//!
//! A reader decodes thousands of chunks of one size, so nothing is allocated per chunk. A thread
//! that met an uncommonly large chunk gives its buffers back.

use crate::codec::blosc;
use std::cell::RefCell;

/// Chunks up to this size leave their buffers to the next one.
const KEEP: usize = 4 << 20;

thread_local! {
    static TOOLS: RefCell<Tools> = RefCell::default();
}

/// Contexts and scratch of one thread.
#[derive(Default)]
pub(super) struct Tools {
    pub(super) deflate: Option<libdeflater::Decompressor>,
    pub(super) zstd: Option<zstd::bulk::Decompressor<'static>>,
    pub(super) blosc: blosc::Decoder,
    /// Codec output that is still to be rearranged.
    pub(super) planes: Vec<u8>,
    /// A block of Blosc2 that is still to be put in its place.
    pub(super) block: Vec<u8>,
    /// Working memory of bit shuffle.
    pub(super) tile: Vec<u8>,
    /// Samples of szip.
    pub(super) samples: Vec<u32>,
    /// What one filter leaves to the next; taken out while a chunk is decoded.
    pub(super) between: [Vec<u8>; 2],
}

impl Tools {
    /// Lends the thread's tools to the decoding of a chunk of `chunk_bytes`.
    pub(super) fn lend<T>(chunk_bytes: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        TOOLS.with_borrow_mut(|tools| {
            let done = work(tools);
            if chunk_bytes > KEEP {
                *tools = Self::default();
            }
            done
        })
    }
}

/// The first `len` items of a buffer that is lengthened when needed; their values are left over.
pub(super) fn room<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}
