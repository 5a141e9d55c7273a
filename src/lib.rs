//! arrayfs mounts compressed array containers and shows each as a directory of raw, decoded arrays.
//!
//! The modules in the order of the way of a read: the kernel's request enters at [`kernel`], finds
//! its node in the [`tree`], whose container was opened by [`container`]; [`array`] turns the byte
//! range into blocks, [`cache`] has them or lets a [`codec`] decode what [`source`] fetched, and
//! the reply goes back.
//!
//! Public is what the program, the benchmarks and the tests need, and nothing else: so unused code
//! shows.

// Fuzzers use no workers.
#![cfg_attr(feature = "fuzzing", allow(dead_code))]

mod array;
mod cache;
pub mod cli;
mod codec;
mod commit;
mod container;
mod daemon;
mod disk;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod kernel;
mod live;
mod look;
mod memory;
mod patience;
mod pipeline;
mod scratch;
mod source;
mod stage;
mod sync;
mod tree;
mod workers;

/// The codecs that benchmarks measure, and for which tests read and write blocks.
pub mod decoders {
    /// Blosc chunks.
    pub mod blosc {
        pub use crate::codec::blosc::{ChunkHeader, Codec, Decoder, Filter};

        /// Chunks to be.
        pub mod encode {
            pub use crate::codec::blosc::encode::{
                BlockSize, ChunkPlan, ChunkSettings, Compressor, Encoder,
            };
        }
    }

    /// The integers of BPCells.
    pub mod bp128 {
        pub use crate::codec::bp128::{
            Bp128Error, CHUNK, Transform, add_in_place, decode, decode_scalar, encode,
            encode_scalar, most_words,
        };
    }
}
