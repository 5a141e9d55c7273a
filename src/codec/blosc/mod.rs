//! Blosc-1 chunks, decoded here and encoded in [`encode`]: 16-byte header, table of block starts,
//! blocks of codec streams.
//!
//! A chunk holds up to 2 GiB of elements cut into blocks. A block is shuffled by byte or by bit,
//! then compressed whole or, split, one stream per byte of the element. Blocks decode independently
//! and in any order, so a reader of a few bytes needs the header, the table and one block only.
//!
//! Bytes in, bytes out: nothing here does I/O or knows its users, which are the reader of Bloscpack
//! and the filters of HDF5; these also take single decoders from here.
//! Every input byte is taken to be hostile: decoding ends with the plain bytes or a [`BloscError`],
//! and takes scratch of about the size of the output, which the caller has already accepted.
//!
//! Source: the Bloscpack and C-Blosc formats, docs/formats.md.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod bitshuffle;
mod block;
pub(crate) mod blosclz;
mod codecs;
pub mod encode;
mod error;
mod header;
pub(crate) mod lz4;
pub(crate) mod shuffle;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod window;

pub use block::Decoder;
pub use error::{BloscError, StreamError};
pub use header::{ChunkHeader, Codec, Filter};
