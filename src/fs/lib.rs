//! Containers as a file system that is read and written.
//!
//! The modules in the order of the way of a read: the kernel's request enters at [`kernel`], finds
//! its node in the [`tree`], whose container is [`live`]. What is written lies in the [`stage`]
//! until a [`commit`] brings it to the [`disk`]. [`scratch`] is a source and a disk whose files are
//! stored compressed. Public is what the program uses.

pub mod commit;
pub mod disk;
pub mod kernel;
pub mod live;
mod records;
pub mod scratch;
pub mod stage;
pub mod tree;

pub(crate) use arrayfs_base::{
    error, fuzz_input, memory, patience, pipeline, processors, range_set, sync, workers,
};
pub(crate) use arrayfs_codec as codec;
pub(crate) use arrayfs_formats::{array, cache, container, source};

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
