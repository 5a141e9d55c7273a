//! Bytes to bytes: the decoders, without I/O and without knowledge of any container.
//!
//! Used by `container`; uses `base` alone. Every decoder takes hostile input: it returns an
//! error and never panics, reads out of bounds or allocates by a size that the input claims.

pub mod blosc;
pub mod bp128;
pub mod checksum;
mod contexts;
pub mod filters;
pub mod numcodecs;

pub(crate) use arrayfs_base::{error, memory, pipeline, sync};

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: memory::observed_allocator::ObservedAllocator =
    memory::observed_allocator::ObservedAllocator;
