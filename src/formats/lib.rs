//! Containers, as far as they are read and made: where their bytes lie, what arrays are, and the
//! formats.
//!
//! A [`source`] has stored bytes; [`container`] finds in them the arrays of a format; [`array`]
//! makes blocks of a byte range, which the [`cache`] has or lets a codec decode. Nothing here knows
//! how a source is changed, or who asks. Public is what the crates above use.

// Fuzzers use no workers.
#![cfg_attr(feature = "fuzzing", allow(dead_code))]

pub mod array;
pub mod cache;
pub mod container;
pub mod source;

pub(crate) use arrayfs_base::{
    error, fuzz_input, memory, patience, pipeline, processors, range_set, sync, workers,
};
pub(crate) use arrayfs_codec as codec;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: memory::observed_allocator::ObservedAllocator =
    memory::observed_allocator::ObservedAllocator;

/// Run by other tests in a process of its own; by itself it finds no socket and ends.
#[cfg(test)]
#[test]
#[ignore = "the worker of other tests"]
fn serves_hdf5() {
    container::hdf5::serve();
}
